# SPDX-License-Identifier: GPL-2.0
"""The output of `run` and `trace check` about observed response times."""

from __future__ import annotations

from collections.abc import Sequence

from gpurt.types import Document
from pycontrol.output import documents, render
from pycontrol.output.render import bound, ms
from pycontrol.run.check import TaskCheck

#: How the table spells the verdicts of JSON; those that are no look that way.
VERDICTS = {"missed": "MISSED", "above-bound": "ABOVE ITS BOUND", "unseen": "NO JOB SEEN", "best-effort": "best effort"}


def data(lines: Sequence[TaskCheck]) -> dict[str, Document]:
    """For JSON, by task; times in ns."""
    return {
        line.task: {
            **documents.seen(
                best_effort=line.best_effort, jobs=line.jobs, mort=line.mort, wcrt=line.bound, deadline=line.deadline,
                misses=line.misses, above=line.above_bound,
            ),
            "segments": line.segments, "ended_ns": line.ended,
        } for line in lines
    }  # fmt: skip


def text(lines: Sequence[TaskCheck], bounds: bool) -> str:
    """The table with a row for each task; with a column for bounds if there are some to compare with."""
    headers = ["task", "jobs", "MORT ms", "WCRT ms", "deadline ms", "misses", "verdict"]
    rows = [
        [name, str(one["jobs"]), ms(one["mort_ns"]), bound(one["wcrt_ns"]), ms(one["deadline_ns"]), str(one["misses"]),
         VERDICTS.get(one["verdict"], str(one["verdict"]))] for name, one in data(lines).items()
    ]  # fmt: skip
    shown = [index for index, header in enumerate(headers) if bounds or header != "WCRT ms"]
    return render.table([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
