# SPDX-License-Identifier: GPL-2.0
"""The output about chains: a table of their bounds, and each bound's parts."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.chains.bounds import Bounded
from pycontrol.output import render
from pycontrol.output.render import bound, ms


def tabulated_chains(bounded: Sequence[Bounded], verdict: str = "") -> str:
    """A row for each bound, and a line for each unproved limit unless ``verdict`` has it."""
    rows = []
    for one in bounded:
        for key, latency in one.latencies.items():
            limit = "-" if latency.limit is None else ms(latency.limit)
            holds = "no limit" if latency.limit is None else "yes" if latency.holds else "not proved"
            rows.append((one.chain.name, key, bound(latency.bound), limit, holds))
        if one.why:
            known = [(key, "none", ms(limit), "not proved") for key, limit in one.chain.limits.items()]
            rows += [(one.chain.name, *each) for each in known or [("", "none", "-", "no limit")]]
    lines = [f"  {one.objection}" for one in bounded if one.objection and one.objection not in verdict]
    return "\n".join([render.table(("chain", "", "bound ms", "allowed ms", "holds"), rows), *lines])


def explained_chain(one: Bounded) -> str:
    """The parts of each bound of a chain."""
    if one.why:
        return f"{one.chain.name}: no bound, because {one.why}"
    tables = []
    for key, latency in one.latencies.items():
        rows = [(part.task, bound(part.amount), part.lemma) for part in latency.parts]
        allowed = "any is allowed" if latency.limit is None else f"allowed {ms(latency.limit)}"
        rows.append(("total", bound(latency.bound), allowed))
        tables.append(f"{one.chain.name}: {key}\n" + render.table(("task", "ms", "from"), rows))
    return "\n\n".join(tables)
