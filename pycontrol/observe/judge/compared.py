# SPDX-License-Identifier: GPL-2.0
"""A recorded run beside its taskset file: what it has of each task, and remarks."""

from __future__ import annotations

from pathlib import Path

from analysis.model.platform import YIELD
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces.trace import Trace
from gpurt.errors import FileError
from gpurt.text import filename, visible
from pycontrol.observe.judge.chains import DERIVED
from pycontrol.observe.judge.check import Judged, judged, meant, notes
from pycontrol.observe.judge.finding import Sort, What
from pycontrol.observe.judge.subject import lost, of_another_taskset

#: The number of broken assumptions that are printed at most.
MAX_BROKEN_SHOWN = 5


def compared_trace(trace: Path, recorded: Trace, loaded: TasksetFile, test: Test | None) -> tuple[Judged, list[str]]:
    """The observations of each task of the file in a trace, the findings, and remarks on the trace.

    ``trace``: its name.  ``test``: whose bounds to compare with.  Raises FileError if the trace is of another taskset,
    or has none of the tasks.
    """
    known, file = meant(recorded, loaded), loaded.path
    if why := of_another_taskset(recorded, loaded):
        raise FileError(f"{filename(trace)}: is of another taskset than {filename(file)}: {why}; record it again")
    others = [visible(other) for other in recorded.names() if other not in known]
    if others and not known:
        raise FileError(
            f"{visible(trace)}: speaks of {', '.join(others[:5])}, none of which is a task of {visible(file)}; "
            "a process such as camera-13441 is the task whose name, or whose command's program, is camera"
        )
    seen = judged(recorded, loaded, test)
    broken = [one for one in seen.findings if one.what.sort is not Sort.PROMISE and one.what is not What.LOST]
    remarks = notes(seen.lines, recorded)
    if gone := lost(recorded, loaded):
        remarks.append(f"events were lost {gone} times while it was recorded: jobs may be missing, the longest too")
    if loaded.taskset.platform.begin == YIELD:
        remarks.append("segments begin by yield: the lengths of segments were not judged")
    elif loaded.lacks:
        remarks.append("the file has no epsilon: updates, and the lengths of segments, were not judged")
    said = {Sort.ASSUMPTION: "an assumption of the analysis was broken", Sort.BLIND: "not everything was seen"}
    remarks += [f"{said[one.what.sort]}: {one.line()}" for one in broken[:MAX_BROKEN_SHOWN]]
    if len(broken) > MAX_BROKEN_SHOWN:
        remarks.append(f"{len(broken) - MAX_BROKEN_SHOWN} more of these (--json has all)")
    if seen.chains:
        remarks.append(DERIVED)
    if others:
        remarks.append(f"in the trace, but no task of {file}: {', '.join(others[:5])}")
    return seen, remarks
