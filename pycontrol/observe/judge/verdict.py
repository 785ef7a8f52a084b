# SPDX-License-Identifier: GPL-2.0
"""The one answer about a recorded run: `gpurt run`, `gpurt trace check` and `gpurt report` ask here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.answers.chosen import about_others, covering_test
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces.trace import Trace
from gpurt.types import Document
from pycontrol.observe import documents, observed
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Objection
from pycontrol.observe.judge.check import Judged, unbounded_tasks, why_no
from pycontrol.observe.judge.compared import compared_trace
from pycontrol.observe.judge.subject import beyond_the_bounds


@dataclass(frozen=True)
class Verdict:
    """The answer, and what it rests on.

    ``test``: whose bounds the run was compared with; None: with none, for there are none, or because of ``beyond``.
    ``doubt``: why passing the test that the user named proves nothing.  ``why``: why the answer is no; empty: yes.
    """

    seen: Judged
    remarks: Sequence[str]
    objections: Sequence[Objection]
    test: Test | None
    beyond: str
    doubt: str
    why: str

    def data(self) -> Document:
        """For JSON, without the remarks."""
        return {
            "test": self.test.name if self.test else None, "in_time": not self.why, "why": self.why or None,
            "comparable": self.test is not None, "tasks": observed.observed_data(self.seen.lines),
            "chains": observed.chains_data(self.seen.chains),
            "objections": fit.data(self.objections), "findings": list(map(documents.finding, self.seen.findings)),
        }  # fmt: skip

    def text(self) -> str:
        """The table of the tasks, and the no."""
        table = observed.observed_text(self.seen.lines, bounds=self.test is not None)
        if self.seen.chains:
            table += f"\n{observed.chains_text(self.seen.chains)}"
        return f"{table}\nNO: {self.why}" if self.why else table


def verdict(name: Path, recorded: Trace, file: TasksetFile, wanted: str | None = None) -> Verdict:
    """The answer about a trace of that name.

    ``wanted``: the test that the user named, which has to bound every task.  Else the bounds are those that `gpurt
    analyze` has of the file; tasks without one are held against their deadlines.  Raises UsageError if there is no such
    test, and FileError as `compared` does.
    """
    known = covering_test(file.taskset, wanted) if wanted or not (file.lacks or file.unmodelled) else None
    test = known.test if known else None
    beyond = beyond_the_bounds(recorded, file, test) if test else ""
    of = None if beyond else test
    seen, remarks = compared_trace(name, recorded, file, of)
    found = fit.objections(file, fit.of_trace(recorded, file))
    apart = f"not compared with the bounds of {test.name}: {beyond}" if test and beyond else ""
    notes = [*(about_others([test], file.taskset) if test and wanted else []), *remarks, *([apart] if apart else []),
             *fit.lines(found)]  # fmt: skip
    doubt = (known.why if known and wanted else "") or (
        unbounded_tasks(seen.lines, test) if of and test and wanted else ""
    )
    of_the_test = apart if wanted else ""
    why = why_no(seen) or of_the_test or fit.against(found) or apart or doubt
    return Verdict(seen, list(dict.fromkeys(notes)), found, of, beyond, doubt, why)
