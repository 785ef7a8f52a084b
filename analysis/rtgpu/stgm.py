# SPDX-License-Identifier: GPL-2.0
"""Responses of tasks that wait busily while they copy and while their kernels execute (readings, "STGM").

The paper on STGM is not available here.  ``response`` is our bound, ``published`` the one that RTGPU probably used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.rta.recurrence import Demand, below_solution
from analysis.rta.result import TermKind
from analysis.rtgpu.bounds import Above, responses
from analysis.rtgpu.chain import Chain, Need

STGM_OWN = "readings: STGM"


@dataclass(frozen=True)
class Busy:
    """The demands of a task that spins, and a bound ``x -> amount`` on the time of lower copies, ns.

    A job without any demand of its own still needs its CPU once.  It also waits behind a job that is released at the
    instant at which the first would be over.  Its window is therefore one ns longer (``closed``), as in
    analysis/rta/recurrence.py.
    """

    demands: tuple[Demand, ...]
    lower: Callable[[int], int]
    rests_on: frozenset[str]

    @property
    def closed(self) -> int:
        """The time that is added to the window, ns."""
        return 0 if self.demands[0].amount else 1

    def at(self, window: int) -> int:
        """The right-hand side of the recurrence, ns."""
        length = window + self.closed
        return sum(demand.at(length) for demand in self.demands) + self.lower(length)


def spun(chain: Chain) -> int:
    """E: the time that a job keeps its CPU if no copy waits, ns."""
    return sum(step.worst for step in chain.steps)


def longest_chain(chain: Chain) -> int:
    """c: the longest copying without a CPU segment in between, ns; a stream goes on without its CPU."""
    most = run = 0
    for step in chain.steps:
        if step.need is Need.CPU and step.best:
            run = 0
        elif step.need is Need.BUS:
            run += step.worst
        most = max(most, run)
    return most


def busy(chain: Chain, higher: Sequence[Chain], lower: Sequence[Chain], blocking: int) -> Busy:
    """The demands on a task that waits busily (readings: STGM).  ``lower`` includes best-effort tasks."""
    cpu = chain.task.cpu
    local = [h for h in higher if h.task.cpu == cpu]
    demands = [Demand(TermKind.OWN, spun(chain), STGM_OWN)]
    demands += (Demand(TermKind.CPU_PREEMPTION, spun(h), STGM_OWN, h.name, h.task.period) for h in local)
    demands += (_remote(o) for o in higher if o.task.cpu != cpu and o.total(Need.BUS))
    copies = len(chain.lengths(Need.BUS))
    below = [low for low in lower if low.total(Need.BUS)]
    once = sum(longest_chain(low) for low in below if low.task.cpu == cpu)
    late = any(low.task.best_effort for low in below if low.task.cpu != cpu)  # the number of its copies has no bound
    remote = [] if late else [_remote(low) for low in below if low.task.cpu != cpu]

    def from_lower(window: int) -> int:
        requests = copies + sum(-(-window // h.task.period) * len(h.lengths(Need.BUS)) for h in local)
        each = requests * blocking
        return each if late else min(each, once + sum(demand.at(window) for demand in remote))

    return Busy(tuple(demands), from_lower, frozenset(d.source for d in (*demands, *remote) if d.source))


def _remote(other: Chain) -> Demand:
    """The demand of the copies of a task of another CPU, whose first job can be late."""
    copying = other.total(Need.BUS)
    return Demand(TermKind.BUS, copying, STGM_OWN, other.name, other.task.period, max(other.task.deadline - copying, 0))


def published(chain: Chain, higher: Sequence[tuple[Chain, int]], waiting: int) -> Busy:
    """``waiting``: the sum of MR (equation 5), ns, for a job of the task and of each task above it on its CPU."""
    own = chain.total(Need.CPU) + chain.total(Need.UNITS) + waiting
    demands = [Demand(TermKind.OWN, own, STGM_OWN)]
    for h, copies in higher:
        amount = h.total(Need.CPU) + h.total(Need.UNITS) + copies
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, STGM_OWN, h.name, h.task.period))
    return Busy(tuple(demands), lambda _: 0, frozenset(h.name for h, _ in higher))


def waits(chain: Chain, others: Above, blocking: int) -> int | None:
    """The sum of MR over the copies of a job, ns; None if a copy has no bound within the deadline."""
    windows = responses(chain, others, blocking, ()).segments[Need.BUS]
    return sum(window.reached for window in windows) if all(window.solved for window in windows) else None


def solve_stgm(found: Busy, deadline: int) -> tuple[int, bool]:
    """The least solution up to the deadline, ns, and True; if there is none, a value beyond the deadline and False."""
    start = below_solution(found.demands[0].amount, found.demands)
    if start is None:
        return deadline + 1, False
    try:
        return least_fixed_point(found.at, min(start, deadline), deadline), True
    except Diverged as diverged:
        return diverged.reached, False
