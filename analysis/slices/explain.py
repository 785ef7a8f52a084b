# SPDX-License-Identifier: GPL-2.0
"""Why a plan has these slices and levels, in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from analysis.model.driver import settable
from analysis.slices.runlist import Entry, Level, Runlist
from gpurt.units import exact_ms


def explain_slices(table: Runlist) -> Iterator[str]:
    """A line on levels, and one on each TSG with real-time tasks.  ``table``: as `plan` found it."""
    planned = [entry for entry in table.entries if any(not task.best_effort for task in entry.tasks)]
    raised = [f"{_name(entry)} to {entry.level.word}" for entry in planned if entry.level is not Level.LOW]
    if raised:
        yield f"no slices do with these TSGs at level low; raised, the fewest that help: {', '.join(raised)}"
    else:
        yield "all at level low: no TSG has to have more turns than others"
    for entry in planned:
        yield from _entry(table, entry)


def _name(entry: Entry) -> str:
    return ", ".join(task.name for task in entry.tasks)


def _entry(table: Runlist, entry: Entry) -> Iterator[str]:
    supply = table.supply(entry)
    needs = []
    for task in entry.tasks:
        works = [segment.pure.worst for segment in task.gpu_segments if segment.pure.worst]
        turns = sum(supply.turns(work) for work in works)
        needs.append(f"{task.name} has {exact_ms(sum(works))} in {turns} turns")
    turn = f"of {exact_ms(entry.slice)}, each after at most {exact_ms(supply.gap)}"
    yield f"{'; '.join(needs)}, {turn}: {_waits(table, entry)}"
    shorter = [slice_ for slice_ in settable() if slice_ < entry.slice]
    if any(task.spins() for one in table.entries for task in one.tasks):
        return  # a shorter slice may do with longer ones of others
    if shorter:
        kept = exact_ms(shorter[-1])
        yield f"  the next shorter slice that the driver keeps, {kept}, leaves {_name(entry)} without a bound"
    else:
        yield f"  the driver takes no slice shorter than {exact_ms(entry.slice)}"


def _waits(table: Runlist, entry: Entry) -> str:
    """The parts of the longest wait, as text."""
    told = []
    for (times, turn), same in groupby(table.waits(entry), key=lambda part: (part[0], table.turn(part[1]))):
        names = [_name(one) for _, one in same]
        each = f"{times} turns each of " if times > 1 else ""
        told.append(f"{each}{', '.join(names)} ({exact_ms(turn)})")
    return " + ".join([*told, f"the switch to it ({exact_ms(table.theta)})"])
