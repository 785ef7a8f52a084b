# SPDX-License-Identifier: GPL-2.0
"""A chain as a trace shows it: reactions and ages, from the starts and ends of jobs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
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
    links = [_triggered if name in chain.triggered else _started for name in chain.tasks[1:]]
    reactions = _reactions(each, links, chain.event)
    at_output, ages = _ages(each, links)
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


#: When a job of a consumer takes its input, ns.
Takes = Callable[[RanJob], int]


def _started(job: RanJob) -> int:
    return job.start


def _triggered(job: RanJob) -> int:
    return job.release


def _reactions(each: Sequence[Sequence[RanJob]], links: Sequence[Takes], event: bool) -> list[int]:
    """From just after the start of a job of the first task, or from a release there, to the end of the last job."""
    found = []
    for index, job in enumerate(each[0]):
        since = job.release if event else each[0][index - 1].start
        at: RanJob | None = job
        for later, takes in zip(each[1:], links, strict=True):
            following = bisect_left(later, at.end, key=takes) if at else len(later)
            at = later[following] if following < len(later) else None
        if at is not None and (event or index):
            found.append(at.end - since)
    return found


def _ages(each: Sequence[Sequence[RanJob]], links: Sequence[Takes]) -> tuple[list[int], list[int]]:
    """The age of each output at its end and until the next: since the start of the first job that it rests on."""
    at_output, until_next = [], []
    for index, last in enumerate(each[-1]):
        at: RanJob | None = last
        for earlier, takes in zip(reversed(each[:-1]), reversed(links), strict=True):
            before = bisect_right(earlier, takes(at), key=lambda one: one.end) if at else 0
            at = earlier[before - 1] if before else None
        if at is None:
            continue
        at_output.append(last.end - at.start)
        if index + 1 < len(each[-1]):
            until_next.append(each[-1][index + 1].end - at.start)
    return at_output, until_next
