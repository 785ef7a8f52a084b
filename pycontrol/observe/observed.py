# SPDX-License-Identifier: GPL-2.0
"""The output of `run` and `trace check` about observed response times."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.chains.observed import MEASURE_KEYS
from gpurt.types import Document
from pycontrol.observe import documents
from pycontrol.observe.judge.chains import ChainCheck
from pycontrol.observe.judge.check import TaskCheck
from pycontrol.output import render
from pycontrol.output.render import bound, ms

#: How the table spells JSON's verdicts; a verdict in capitals is a no.
VERDICTS = {"missed": "MISSED", "above-bound": "ABOVE ITS BOUND", "unseen": "NO JOB SEEN", "best-effort": "best effort"}


def observed_data(lines: Sequence[TaskCheck]) -> dict[str, Document]:
    """The observations for JSON, by task; times in ns."""
    return {
        line.task: {
            **documents.seen_task(
                best_effort=line.best_effort, jobs=line.jobs, mort=line.mort, wcrt=line.bound, deadline=line.deadline,
                misses=line.misses, above=line.above_bound,
            ),
            "segments": line.segments, "ended_ns": line.ended,
        } for line in lines
    }  # fmt: skip


def observed_text(lines: Sequence[TaskCheck], bounds: bool) -> str:
    """The table with a row for each task; ``bounds``: with a column for bounds."""
    headers = ["task", "jobs", "MORT ms", "WCRT ms", "deadline ms", "misses", "verdict"]
    rows = [
        [name, str(one["jobs"]), ms(one["mort_ns"]), bound(one["wcrt_ns"]),
         ms(None if one["best_effort"] else one["deadline_ns"]), str(one["misses"]),
         VERDICTS.get(one["verdict"], str(one["verdict"]))] for name, one in observed_data(lines).items()
    ]  # fmt: skip
    shown = [index for index, header in enumerate(headers) if bounds or header != "WCRT ms"]
    return render.table([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])


def chains_data(chains: Sequence[ChainCheck]) -> dict[str, Document]:
    """The observations for JSON, by chain and key; times in ns."""
    return {
        one.chain: {
            key: {"seen_ns": one.seen.get(key), "bound_ns": one.bounds.get(key), "allowed_ns": one.limits.get(key),
                  "holds": not one.above(key)} for key in MEASURE_KEYS
        } for one in chains
    }  # fmt: skip


def chains_text(chains: Sequence[ChainCheck]) -> str:
    """The table with a row for each key that was observed, or has a bound or a limit."""
    rows = []
    for one in chains:
        for key in MEASURE_KEYS:
            values = [times.get(key) for times in (one.seen, one.bounds, one.limits)]
            if values != [None] * 3:
                shown = [ms(values[0]), bound(values[1]), ms(values[2])]
                verdict = "not seen" if values[0] is None else "no limit" if values[1:] == [None] * 2 else "ok"
                rows.append([one.chain, key, *shown, "EXCEEDED" if one.above(key) else verdict])
    return render.table(["chain", "", "seen ms", "bound ms", "allowed ms", "verdict"], rows)
