# SPDX-License-Identifier: GPL-2.0
"""Supply bound functions of TSGs, and the work that several tasks get done in one TSG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.partition.inside import SporadicTask, demand

#: After this many deadlines, a taskset counts as not schedulable.
MOST_DEADLINES = 20_000


@dataclass(frozen=True, slots=True)
class Supply:
    """Turns of ``slice`` ns, at most ``gap`` ns apart, while there is work."""

    slice: int
    gap: int

    def by(self, window: int) -> int:
        """sbf: the least execution in any window of that length in which there always is work, ns."""
        period = self.slice + self.gap
        return window // period * self.slice + max(0, window % period - self.gap)

    def least(self, work: int) -> int:
        """The shortest window whose supply is at least ``work``, ns: work + ceil(work / slice) gap."""
        return work + self.turns(work) * self.gap

    def turns(self, work: int) -> int:
        """The most turns that the work takes."""
        return -(-work // self.slice)


def response(supply: Supply, work: int, others: Callable[[int], int], limit: int) -> int:
    """The latest end of ``work``, ns: least t with sbf(t) >= work + others(t); a value beyond ``limit`` if later.

    ``others``: the work that goes first in a window of that length, monotone.
    """
    if not work:
        return 0
    try:
        return least_fixed_point(lambda t: supply.least(work + others(t)), supply.least(work), limit)
    except Diverged as diverged:
        return max(diverged.reached, limit + 1)


def edf_supplied(jobs: Sequence[SporadicTask], supply: Supply) -> bool:
    """Whether preemptive EDF misses no deadline: dbf(t) <= sbf(t) at each deadline t (Shin and Lee, RTSS'03).

    Jobs are released exactly when they arrive.  A lower bound of sbf(t) is s/(s+g) (t - g).  Deadlines therefore matter
    up to (sum of (T_i - D_i) U_i + g s/(s+g)) / (s/(s+g) - U).  False also if there are more than MOST_DEADLINES.
    """
    share = Fraction(supply.slice, supply.slice + supply.gap)
    load = sum((Fraction(job.cost, job.period) for job in jobs), Fraction())
    if load >= share:
        return False
    late = sum((Fraction((job.period - job.deadline) * job.cost, job.period) for job in jobs), Fraction())
    until = max(int((late + supply.gap * share) / (share - load)), *(job.deadline for job in jobs))
    if sum((until - job.deadline) // job.period + 1 for job in jobs) > MOST_DEADLINES:
        return False
    points = {at for job in jobs for at in range(job.deadline, until + 1, job.period)}
    return all(demand(jobs, at) <= supply.by(at) for at in points)
