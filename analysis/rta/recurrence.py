# SPDX-License-Identifier: GPL-2.0
"""The common form of every bound, R = sum over demands of ceil((R + J) / T) * e, and the search for its least solution.

Some demands are constant.  A test lists the demands of a task (a function of type ``analysis.rta.system.Demands``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.fixed_point import MAX_STEPS, Diverged, least_fixed_point
from analysis.model import Task
from analysis.rta.result import Bound, Failure, Kind, Reason, Term, Verdict


@dataclass(frozen=True, slots=True)
class Demand:
    """``amount`` ns a job of ``source``, for every job that can execute in the window; once if period is 0.

    ``cap``: never more than that together, unless 0.  ``relied``: the bound rests on the source having one even
    where the amount is 0.
    """

    kind: Kind
    amount: int
    lemma: str
    source: str | None = None
    period: int = 0
    jitter: int = 0
    cap: int = 0
    relied: bool = False

    def at(self, window: int) -> int:
        """What it comes to in a window of that length, ns."""
        if not self.period:
            return self.amount
        total = -(-(window + self.jitter) // self.period) * self.amount
        return min(total, self.cap) if self.cap else total

    @property
    def rests_on_source(self) -> bool:
        """Whether the source must have a bound; one request of it is as long whether it is late or not."""
        return self.source is not None and (self.relied or (self.amount > 0 and self.period > 0))


class Unbounded(Exception):
    """Raised by an analysis: the task named ``culprit`` can delay the task analysed for any time."""

    def __init__(self, culprit: str) -> None:
        super().__init__(culprit)
        self.culprit = culprit


class Shared:
    """Demands that many tasks have in common, as one; immutable."""

    __slots__ = ("capped", "carried", "constant", "demands", "rate", "rows", "sources")

    def __init__(self, demands: Iterable[Demand]) -> None:
        self.demands = tuple(demands)
        self.constant = sum(d.amount for d in self.demands if not d.period)
        self.rows = tuple((d.period, d.jitter, d.amount) for d in self.demands if d.period and not d.cap)
        self.capped = tuple(d for d in self.demands if d.cap)
        self.sources = frozenset(d.source for d in self.demands if d.rests_on_source)
        self.rate, self.carried = _slope(self.demands)

    def at(self, window: int) -> int:
        """What they come to together in a window of that length, ns."""
        total = sum(-(-(window + jitter) // period) * amount for period, jitter, amount in self.rows)
        return self.constant + total + sum(d.at(window) for d in self.capped)


#: Times 2^64: what integer arithmetic needs to add fractions of time.
SCALE = 1 << 64


def _slope(demands: Sequence[Demand]) -> tuple[int, int]:
    """The sums of e / T and of J e / T over demands that recur without end, times SCALE, rounded down."""
    recurring = [d for d in demands if d.period and not d.cap]
    rate = sum(d.amount * SCALE // d.period for d in recurring)
    return rate, sum(d.amount * d.jitter * SCALE // d.period for d in recurring)


def solve(task: Task, demands: Sequence[Demand | Shared]) -> Verdict:
    """The least solution of the task's recurrence within its deadline, and within its period.

    A job without any demand of its own still waits for its turn, also behind a job that is released as it would
    complete: its window is one ns longer.
    """
    constant = sum(d.constant if isinstance(d, Shared) else 0 if d.period else d.amount for d in demands)
    closed = 0 if constant else 1
    limit = min(task.deadline, task.period)

    def total(window: int) -> int:
        return sum(demand.at(window + closed) for demand in demands)

    start = below_solution(constant, demands)
    try:
        wcrt = least_fixed_point(total, max(constant, limit if start is None else min(start, limit)), limit)
    except Diverged as diverged:
        if diverged.steps >= MAX_STEPS:
            return Failure(task.name, Reason.TOO_MANY_STEPS, task.deadline, diverged.reached)
        return _missed(task, demands, diverged.reached, start is None)
    if wcrt > limit:
        return _missed(task, demands, wcrt, False)
    return Bound(task.name, wcrt, task.deadline, lambda: terms_at(demands, wcrt + closed))


def _missed(task: Task, demands: Sequence[Demand | Shared], reached: int, overload: bool) -> Failure:
    terms = terms_at(demands, min(reached, task.deadline))
    largest = max(terms, key=lambda term: term.amount, default=None)
    reason = Reason.OVERLOAD if overload else Reason.DEADLINE_MISSED
    if reached <= task.deadline:
        reason = Reason.PERIOD_EXCEEDED
    return Failure(task.name, reason, task.deadline, reached, largest)


def below_solution(constant: int, demands: Sequence[Demand | Shared]) -> int | None:
    """A lower bound of the solution, from ceil(y) >= y; None where the demand outgrows every window.

    With U the sum of e / T, every solution is at least (constant + sum of J e / T) / (1 - U).  Without this a
    search near U = 1 would creep.  Rounded down throughout, so that it stays a bound.
    """
    rate, carried = _slope([d for d in demands if isinstance(d, Demand)])
    for shared in demands:
        if isinstance(shared, Shared):
            rate, carried = rate + shared.rate, carried + shared.carried
    if rate >= SCALE:
        return None
    return (constant * SCALE + carried) // (SCALE - rate)


def terms_at(demands: Sequence[Demand | Shared], window: int) -> tuple[Term, ...]:
    """What each demand comes to in a window; those that come to nothing are left out."""
    single = (d for entry in demands for d in (entry.demands if isinstance(entry, Shared) else (entry,)))
    terms = (Term(d.kind, d.source, d.at(window), d.lemma) for d in single)
    return tuple(term for term in terms if term.amount)
