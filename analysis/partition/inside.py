# SPDX-License-Identifier: GPL-2.0
"""Schedulability tests inside a partition: one job at a time has all its units.

Each test takes the jobs of a partition and says whether no deadline is missed.  A test that accepts times C also
accepts all shorter times, so bisection finds the least size of a partition.  A search that does not end within
MAX_STEPS accepts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from analysis.model.fixed_point import MAX_SEARCH_STEPS, Diverged, least_fixed_point
from analysis.partition.workload import SHIFT


@dataclass(frozen=True, slots=True)
class SporadicTask:
    """A sporadic task in its partition: ns, and deadline <= period.  ``priority``: larger is more urgent."""

    cost: int
    deadline: int
    period: int
    priority: int = 0


def overloaded(jobs: Sequence[SporadicTask]) -> bool:
    """Whether the sum of C_i/T_i exceeds 1; exact arithmetic only where rounding could decide."""
    if sum((job.cost << SHIFT) // job.period for job in jobs) > 1 << SHIFT:
        return True
    if sum(-(-(job.cost << SHIFT) // job.period) for job in jobs) <= 1 << SHIFT:
        return False
    return sum((Fraction(job.cost, job.period) for job in jobs), Fraction()) > 1


def demand(jobs: Sequence[SporadicTask], time: int) -> int:
    """dbf: the execution of jobs with release and deadline within any interval of that length, ns."""
    return sum(((time - j.deadline) // j.period + 1) * j.cost for j in jobs if j.deadline <= time)


def horizon(jobs: Sequence[SporadicTask]) -> int:
    """The length up to which dbf(t) <= t must be checked, ns: min(L, H); the first busy period if U = 1."""
    latest = max(job.deadline for job in jobs)
    hyperperiod = lcm(*(job.period for job in jobs))
    spare = 1 - sum((Fraction(job.cost, job.period) for job in jobs), Fraction())
    if spare <= 0:
        released = sum(job.cost for job in jobs)
        busy = least_fixed_point(lambda w: sum(-(-w // j.period) * j.cost for j in jobs), released, hyperperiod)
        return max(latest, busy)
    excess = sum((Fraction((j.period - j.deadline) * j.cost, j.period) for j in jobs), Fraction())
    return max(latest, min(-((-excess) // spare), hyperperiod))


def _deadline_before(jobs: Sequence[SporadicTask], time: int) -> int:
    """The latest absolute deadline before ``time`` of jobs that are all released together from 0 on; 0: none."""
    return max(
        ((time - 1 - j.deadline) // j.period * j.period + j.deadline for j in jobs if j.deadline < time), default=0
    )


def edf(jobs: Sequence[SporadicTask]) -> bool:
    """Preemptive EDF, exact: dbf(t) <= t at each deadline, by QPA (Zhang and Burns, 2009)."""
    if overloaded(jobs):
        return False
    first = min(job.deadline for job in jobs)
    try:
        at = _deadline_before(jobs, horizon(jobs) + 1)
    except Diverged:
        return False
    for _ in range(MAX_SEARCH_STEPS):
        wanted = demand(jobs, at)
        if wanted > at:
            return False
        if wanted <= first:
            return True
        at = wanted if wanted < at else _deadline_before(jobs, at)
    return False


def response_inside(jobs: Sequence[SporadicTask], index: int) -> int | None:
    """The worst-case response time of a job under preemptive fixed priorities, ns; None beyond its deadline.

    Jobs of equal priority are served in the order of arrival, so each counts as more urgent for the other.
    """
    own = jobs[index]
    above = [j for at, j in enumerate(jobs) if at != index and j.priority >= own.priority]
    try:
        return least_fixed_point(
            lambda r: own.cost + sum(-(-r // j.period) * j.cost for j in above), own.cost, own.deadline
        ) if own.cost <= own.deadline else None
    except Diverged:
        return None


def fixed_priority(jobs: Sequence[SporadicTask]) -> bool:
    """Preemptive fixed priorities, as in policy `segment`; exact for distinct priorities.  R_i <= D_i."""
    return all(response_inside(jobs, index) is not None for index in range(len(jobs)))


#: The tests by name.  No host runs EDF: the paper uses it, and its figures need it.
TESTS: dict[str, Callable[[Sequence[SporadicTask]], bool]] = {"fp": fixed_priority, "edf": edf}
