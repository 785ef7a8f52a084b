# SPDX-License-Identifier: GPL-2.0
"""A chain as a trace shows it: reactions and ages, from the starts and ends of jobs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.model import Chain
from analysis.trace import Kind, Trace

#: A job's first step.
BEGINS = (Kind.CPU, Kind.UPDATE, Kind.BEGIN)


class RanJob(NamedTuple):
    """A job that is over: its release, when it first executed, and its end, ns."""

    release: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Observed:
    """The longest times seen, ns; None: nothing was."""

    max_reaction: int | None = None
    max_age: int | None = None
    max_age_at_output: int | None = None


def observed(chain: Chain, trace: Trace) -> Observed:
    """The longest reaction and ages in a trace of the simulator.

    Outputs without a whole chain behind them do not count, and neither do reactions that had not come to the end.
    """
    ran = ran_of(trace, chain.tasks)
    each = [ran.get(name, []) for name in chain.tasks]
    reactions = _reactions(each, chain.event)
    at_output, ages = _ages(each)
    return Observed(max(reactions, default=None), max(ages, default=None), max(at_output, default=None))


def ran_of(trace: Trace, names: Sequence[str]) -> dict[str, list[RanJob]]:
    """The jobs of these tasks that are over, in their order."""
    first: dict[tuple[str, int | None], int] = {}
    found: dict[str, list[RanJob]] = {}
    for event in trace.events:
        if event.task not in names:
            continue
        key = event.task, event.job
        if event.kind in BEGINS:
            first.setdefault(key, event.time)
        elif event.kind is Kind.COMPLETE and event.duration is not None:
            job = RanJob(event.time - event.duration, first.get(key, event.time), event.time)
            found.setdefault(event.task, []).append(job)
    return found


def _reactions(each: Sequence[Sequence[RanJob]], event: bool) -> list[int]:
    """From just after the start of a job of the first task, or from a release there, to the end of the last job."""
    found = []
    for index, job in enumerate(each[0]):
        since = job.release if event else each[0][index - 1].start
        at: RanJob | None = job
        for later in each[1:]:
            following = bisect_left(later, at.end, key=lambda one: one.start) if at else len(later)
            at = later[following] if following < len(later) else None
        if at is not None and (event or index):
            found.append(at.end - since)
    return found


def _ages(each: Sequence[Sequence[RanJob]]) -> tuple[list[int], list[int]]:
    """The age of each output at its end and until the next: since the start of the first job that it rests on."""
    at_output, until_next = [], []
    for index, last in enumerate(each[-1]):
        at: RanJob | None = last
        for earlier in reversed(each[:-1]):
            before = bisect_right(earlier, at.start, key=lambda one: one.end) if at else 0
            at = earlier[before - 1] if before else None
        if at is None:
            continue
        at_output.append(last.end - at.start)
        if index + 1 < len(each[-1]):
            until_next.append(each[-1][index + 1].end - at.start)
    return at_output, until_next
