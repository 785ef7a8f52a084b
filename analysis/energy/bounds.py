# SPDX-License-Identifier: GPL-2.0
"""Response-time bounds for one job at a time on the whole GPU: non-preemptive fixed priorities, or first come.

The other run-time policies here have no guarantee, and early completion can make their jobs late (docs/energy.md).
"""

from __future__ import annotations

from fractions import Fraction

from analysis.energy.policies import Order, UnitsRule
from analysis.energy.setup import Setup

#: After this many steps of a fixed point, or releases of a busy period, the search gives up: there is no bound then.
MAX_ENERGY_STEPS = 100_000


def energy_bounds(setup: Setup) -> list[int | None] | None:
    """A bound on each task's response time, ns, or None; None for all if the policy has no test.

    Tasks may be sporadic.  The bound assumes that late jobs run, which covers policies that skip them.
    """
    if setup.rule is not UnitsRule.WHOLE or setup.policy.order is Order.EDF:
        return None
    tasks, gpu = setup.system.tasks, setup.system.gpus[0]
    costs = [task.on(0).whole_job(gpu.whole) for task in tasks]
    periods = [task.period for task in tasks]
    if setup.policy.order is Order.FIFO:
        bound = _first_come(costs, periods)
        return [bound] * len(tasks)
    return [_fixed_priority(index, costs, periods) for index in range(len(tasks))]


def _busy(costs: list[int], periods: list[int], blocking: int) -> int | None:
    """The longest busy period of tasks released together after ``blocking``; None if it has no end."""
    if sum(Fraction(cost, period) for cost, period in zip(costs, periods, strict=True)) > 1:
        return None
    length = blocking + sum(costs)
    for _ in range(MAX_ENERGY_STEPS):
        demand = blocking + sum(-(-length // period) * cost for cost, period in zip(costs, periods, strict=True))
        if demand == length:
            return length
        length = demand
    return None


def _fixed_priority(index: int, costs: list[int], periods: list[int]) -> int | None:
    """Non-preemptive fixed priorities on one resource: the longest response of the jobs in a busy period.

    A job that has started is not stopped.  w: the latest start of job q; jobs released at w still go first.  Among
    equal periods the job that comes first goes first, so each task counts as above the other.
    """
    above = [j for j, period in enumerate(periods) if period <= periods[index] and j != index]
    below = [j for j, period in enumerate(periods) if period > periods[index]]
    blocking = max((costs[j] for j in below), default=0)
    level = [*above, index]
    busy = _busy([costs[j] for j in level], [periods[j] for j in level], blocking)
    if busy is None:
        return None
    worst = 0
    if busy > MAX_ENERGY_STEPS * periods[index]:
        return None
    for q in range(-(-busy // periods[index])):
        start, then = -1, blocking + q * costs[index]
        while then != start:  # ends within the busy period, unless the task takes no time and never gets its turn
            if then > busy:
                return None
            start = then
            then = blocking + q * costs[index] + sum((start // periods[h] + 1) * costs[h] for h in above)
        worst = max(worst, start + costs[index] - q * periods[index])
    return worst


def _first_come(costs: list[int], periods: list[int]) -> int | None:
    """First come first served: the demand up to a release, minus the time since the busy period began."""
    busy = _busy(costs, periods, 0)
    if busy is None:
        return None
    if busy > MAX_ENERGY_STEPS * min(periods):
        return None
    instants = {k * period for period in periods for k in range(-(-busy // period))}
    asked = (sum((a // p + 1) * c for c, p in zip(costs, periods, strict=True)) - a for a in instants)
    return max(asked, default=0)  # empty if no task takes any time
