# SPDX-License-Identifier: GPL-2.0
"""The one answer about a recorded run: `gpurt run`, `gpurt trace check` and `gpurt report` ask here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.answers.chosen import about_others, covering_test
from analysis.model.platform import ISOLATED
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces.trace import Trace
from gpurt.errors import FileError
from gpurt.text import filename, visible
from gpurt.types import Document
from pycontrol.observe import documents, observed
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Objection
from pycontrol.observe.judge.chains import DERIVED
from pycontrol.observe.judge.check import Judged, judged, meant, notes, unbounded_tasks, why_no
from pycontrol.observe.judge.finding import Sort, What
from pycontrol.observe.judge.subject import beyond_the_bounds, lost, of_another_taskset

#: The most broken assumptions that are printed.
MAX_BROKEN_SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """The answer, and its reasons.

    ``test``: the test whose bounds the run was compared with; None: there is none, or ``beyond`` says why.  ``doubt``:
    why passing the test that the user named proves nothing.  ``why``: why the answer is no; empty: yes.
    """

    seen: Judged
    remarks: Sequence[str]
    objections: Sequence[Objection]
    test: Test | None
    beyond: str
    doubt: str
    why: str

    def data(self) -> Document:
        """The verdict for JSON, without the remarks."""
        return {
            "test": self.test.name if self.test else None, "in_time": not self.why, "why": self.why or None,
            "comparable": self.test is not None, "tasks": observed.observed_data(self.seen.lines),
            "chains": observed.chains_data(self.seen.chains),
            "objections": fit.data(self.objections), "findings": list(map(documents.finding, self.seen.findings)),
        }  # fmt: skip

    def text(self) -> str:
        """The table of the tasks, and why the answer is no."""
        table = observed.observed_text(self.seen.lines, bounds=self.test is not None)
        if self.seen.chains:
            table += f"\n{observed.chains_text(self.seen.chains)}"
        return f"{table}\nNO: {self.why}" if self.why else table


def verdict(name: Path, recorded: Trace, file: TasksetFile, wanted: str | None = None) -> Verdict:
    """The answer about a trace of that name.

    ``wanted``: the test that the user named; it must bound every task.  Without it, the bounds are those of `gpurt
    analyze` for the file, and tasks without a bound are compared with their deadlines.  Raises UsageError if there is
    no such test, and FileError as `_compared` does.
    """
    known = covering_test(file.taskset, wanted) if wanted or not (file.lacks or file.unmodelled) else None
    test = known.test if known else None
    beyond = beyond_the_bounds(recorded, file, test) if test else ""
    of = None if beyond else test
    seen, remarks = _compared(name, recorded, file, of)
    found = fit.objections(file, fit.of_trace(recorded, file))
    apart = f"not compared with the bounds of {test.name}: {beyond}" if test and beyond else ""
    notes = [*about_others([test] if test and wanted else [], file.taskset), *remarks, *([apart] if apart else []),
             *fit.lines(found)]  # fmt: skip
    doubt = (known.why if known and wanted else "") or (
        unbounded_tasks(seen.lines, test) if of and test and wanted else ""
    )
    of_the_test = apart if wanted else ""
    why = why_no(seen) or of_the_test or fit.against(found) or apart or doubt
    return Verdict(seen, list(dict.fromkeys(notes)), found, of, beyond, doubt, why)


def _compared(trace: Path, recorded: Trace, loaded: TasksetFile, test: Test | None) -> tuple[Judged, list[str]]:
    """The observations of each task of the file in a trace, the findings, and remarks on the trace.

    ``trace``: its name.  ``test``: the test whose bounds to compare with.  Raises FileError if the trace is of another
    taskset, or has none of the tasks.
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
    if loaded.taskset.platform.begin != ISOLATED and loaded.taskset.platform.yields is None:
        remarks.append(f"segments begin by {loaded.taskset.platform.begin}: the lengths of segments were not judged")
    elif loaded.lacks:
        remarks.append("the file has no epsilon: updates, and the lengths of segments, were not judged")
    said = {Sort.ASSUMPTION: "an assumption of the analysis was broken", Sort.BLIND: "not everything was seen"}
    remarks += [f"{said[one.what.sort]}: {one.line()}" for one in broken[:MAX_BROKEN_SHOWN]]
    if len(broken) > MAX_BROKEN_SHOWN:
        remarks.append(f"{len(broken) - MAX_BROKEN_SHOWN} more of these (--json has all)")
    if seen.unsure:
        remarks.append(f"{', '.join(sorted(seen.unsure))}: that the thread sleeps while its GPU work executes is "
                       "assumed: a job's CPU time does not say whether it spun there and slept elsewhere")  # fmt: skip
    if seen.chains:
        remarks.append(DERIVED)
    if others:
        remarks.append(f"in the trace, but no task of {file}: {', '.join(others[:5])}")
    return seen, remarks
