# SPDX-License-Identifier: GPL-2.0
"""The schedule of a partition, job by job: the oracle for schedulability tests inside partitions.

This oracle shares no code with those tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple


class Release(NamedTuple):
    """One job: when it is released, how much it executes, its absolute deadline and its priority (larger first)."""

    at: int
    work: int
    deadline: int
    priority: int
    task: int


#: Chooses the job that executes: the least key first.
KEYS: dict[str, Callable[[Release], tuple[int, int]]] = {
    "fp": lambda job: (-job.priority, job.at),
    "edf": lambda job: (job.deadline, job.at),
}


def periodic(tasks: Sequence[tuple[int, int, int, int]], until: int, offsets: Sequence[int] = ()) -> list[Release]:
    """Strictly periodic jobs of tasks (cost, deadline, period, priority), released before ``until``."""
    offsets = offsets or [0] * len(tasks)
    return [
        Release(at, cost, at + deadline, priority, index)
        for index, (cost, deadline, period, priority) in enumerate(tasks)
        for at in range(offsets[index], until, period)
    ]


def first_miss(jobs: Sequence[Release], policy: str) -> Release | None:
    """The first job that ends after its deadline, one job at a time; ``np-`` before the policy: none is preempted."""
    stays = policy.startswith("np-")
    key = KEYS[policy.removeprefix("np-")]
    waiting = sorted(jobs, key=lambda job: job.at)
    ready: list[list] = []
    now, at, running = 0, 0, None
    while at < len(waiting) or ready:
        if not ready:
            now = max(now, waiting[at].at)
        while at < len(waiting) and waiting[at].at <= now:
            ready.append([waiting[at], waiting[at].work])
            at += 1
        if running is None or running not in ready or not stays:
            running = min(ready, key=lambda entry: key(entry[0]))
        until = now + running[1]
        if not stays and at < len(waiting):
            until = min(until, waiting[at].at)
        running[1] -= until - now
        now = until
        if not running[1]:
            ready.remove(running)
            if now > running[0].deadline:
                return running[0]
            running = None
    return None


def shared_first_miss(jobs: Sequence[Release]) -> tuple[Release, Fraction] | None:
    """The first job that ends late, and when, if all jobs of a partition execute at once and share its units."""
    waiting = sorted(jobs, key=lambda job: job.at)
    ready: list[list] = []
    now, at = Fraction(0), 0
    while at < len(waiting) or ready:
        if not ready:
            now = max(now, Fraction(waiting[at].at))
        while at < len(waiting) and waiting[at].at <= now:
            ready.append([waiting[at], Fraction(waiting[at].work)])
            at += 1
        until = now + min(left for _, left in ready) * len(ready)
        if at < len(waiting):
            until = min(until, Fraction(waiting[at].at))
        done = (until - now) / len(ready)
        now = until
        for entry in ready:
            entry[1] -= done
        for job, left in [entry for entry in ready if not entry[1]]:
            if now > job.deadline:
                return job, now
            ready.remove([job, left])
    return None
