# SPDX-License-Identifier: GPL-2.0
"""The common form of every bound, R = sum over demands of ceil((R + J) / T) * e, and the search for its least solution.

Some demands are constant.  A test lists the demands of a task (a function of type ``analysis.rta.system.Demands``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from analysis.model import Task
from analysis.model.fixed_point import MAX_SEARCH_STEPS, Diverged, least_fixed_point
from analysis.rta.result import Bound, Failure, Reason, Term, TermKind, Verdict


@dataclass(frozen=True, slots=True)
class Demand:
    """``amount`` ns for each job of ``source`` that can execute in the window; once if ``period`` is 0.

    ``cap``: the largest total, ns; 0: no cap.  ``instead``: demands whose sum bounds the same delay; the smaller total
    counts.  ``relied``: the bound holds only if the source has a bound too, even if the amount is 0.
    """

    kind: TermKind
    amount: int
    lemma: str
    source: str | None = None
    period: int = 0
    jitter: int = 0
    cap: int = 0
    relied: bool = False
    instead: tuple[Demand, ...] = ()

    def at(self, window: int) -> int:
        """The total in a window of that length, ns."""
        total = self._alone(window)
        return min(total, sum(d.at(window) for d in self.instead)) if self.instead else total

    def _alone(self, window: int) -> int:
        if not self.period:
            return self.amount
        total = -(-(window + self.jitter) // self.period) * self.amount
        return min(total, self.cap) if self.cap else total

    def parts(self, window: int) -> tuple[Demand, ...]:
        """The demands whose sum is the total in that window: the demand itself, or those in ``instead``."""
        if self.instead and sum(d.at(window) for d in self.instead) < self._alone(window):
            return self.instead
        return (replace(self, instead=()),) if self.instead else (self,)

    @property
    def limited(self) -> bool:
        """Whether a cap or ``instead`` may limit the total, so that more jobs do not always add to it."""
        return bool(self.cap or self.instead)

    @property
    def rests_on_source(self) -> bool:
        """Whether the source must have a bound.  A constant needs none: a late job requests no more than others."""
        return self.source is not None and (self.relied or (self.amount > 0 and self.period > 0))


class Unbounded(Exception):
    """Raised by a test: the task named ``culprit`` can delay the analysed task without limit."""

    def __init__(self, culprit: str) -> None:
        super().__init__(culprit)
        self.culprit = culprit


class Shared:
    """Demands that many tasks have in common, added up once; immutable."""

    __slots__ = ("capped", "carried", "constant", "demands", "rate", "rows", "sources")

    def __init__(self, demands: Iterable[Demand]) -> None:
        self.demands = tuple(demands)
        self.constant = sum(d.amount for d in self.demands if not d.period)
        self.rows = tuple((d.period, d.jitter, d.amount) for d in self.demands if d.period and not d.limited)
        self.capped = tuple(d for d in self.demands if d.limited)
        self.sources = frozenset(d.source for d in self.demands if d.rests_on_source)
        self.rate, self.carried = _slope(self.demands)

    def at(self, window: int) -> int:
        """Their total in a window of that length, ns."""
        total = sum(-(-(window + jitter) // period) * amount for period, jitter, amount in self.rows)
        return self.constant + total + sum(d.at(window) for d in self.capped)

    def terms(self, window: int) -> list[Term]:
        """Its parts in a window of that length, which add up to the total."""
        return [Term(d.kind, d.source, d.at(window), d.lemma) for d in self.demands]


class OneAtATime(Shared):
    """Capped demands of tasks that one thread serves: one task at a time delays, so together at most the largest cap.

    ``thread``: the thread's name; the term names it instead of tasks where the largest cap is less than their total.
    """

    __slots__ = ("cap", "thread")

    def __init__(self, thread: str, demands: Iterable[Demand]) -> None:
        super().__init__(demands)
        self.thread, self.cap = thread, max(d.cap for d in self.demands)

    def at(self, window: int) -> int:
        """Their total in a window of that length, ns."""
        return min(self.cap, super().at(window))

    def terms(self, window: int) -> list[Term]:
        """A term for each task, or one for the thread."""
        if super().at(window) <= self.cap:
            return super().terms(window)
        first = self.demands[0]
        return [Term(first.kind, self.thread, self.cap, first.lemma)]


#: Fractions are added as integers, scaled by this.
FRACTION_SCALE = 1 << 64


def _slope(demands: Sequence[Demand]) -> tuple[int, int]:
    """The sums of e / T and of J e / T over demands that recur without end, times FRACTION_SCALE, rounded down."""
    recurring = [d for d in demands if d.period and not d.limited]
    rate = sum(d.amount * FRACTION_SCALE // d.period for d in recurring)
    return rate, sum(d.amount * d.jitter * FRACTION_SCALE // d.period for d in recurring)


def solve(task: Task, demands: Sequence[Demand | Shared]) -> Verdict:
    """The least solution of the task's recurrence within its deadline, and within its period.

    A job without any demand of its own still waits for its turn.  It also waits behind a job that is released at the
    instant at which it would complete itself.  Therefore its window is one ns longer.
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
        if diverged.steps >= MAX_SEARCH_STEPS:
            return Failure(task.name, Reason.TOO_MANY_STEPS, task.deadline, diverged.reached)
        return _missed(task, demands, diverged.reached, start is None)
    if wcrt > limit:
        return _missed(task, demands, wcrt, False)
    return Bound(task.name, wcrt, task.deadline, lambda: terms_at(demands, wcrt + closed))


def _missed(task: Task, demands: Sequence[Demand | Shared], reached: int, overload: bool) -> Failure:
    reason = Reason.OVERLOAD if overload else Reason.ABOVE_DEADLINE
    if reached <= task.deadline:
        reason = Reason.ABOVE_PERIOD
    window = min(reached, task.deadline)
    return Failure(task.name, reason, task.deadline, reached, lambda: terms_at(demands, window))


def below_solution(constant: int, demands: Sequence[Demand | Shared]) -> int | None:
    """A lower bound of the solution, from ceil(y) >= y; None if demand exceeds every window.

    With U the sum of e / T, every solution is at least (constant + sum of J e / T) / (1 - U).  A search from a lower
    value takes very many steps if U is near 1.  Every rounding is down, so that this stays a lower bound.
    """
    rate, carried = _slopes(demands)
    if rate >= FRACTION_SCALE:
        return None
    return (constant * FRACTION_SCALE + carried) // (FRACTION_SCALE - rate)


def rate_of(demands: Sequence[Demand | Shared]) -> int:
    """U, the sum of e / T over demands that recur without end, times FRACTION_SCALE, rounded down."""
    return _slopes(demands)[0]


def _slopes(demands: Sequence[Demand | Shared]) -> tuple[int, int]:
    rate, carried = _slope([d for d in demands if isinstance(d, Demand)])
    for shared in demands:
        if isinstance(shared, Shared):
            rate, carried = rate + shared.rate, carried + shared.carried
    return rate, carried


def terms_at(demands: Sequence[Demand | Shared], window: int) -> tuple[Term, ...]:
    """The total of each demand in a window, except those that are 0."""
    terms: list[Term] = []
    for entry in demands:
        if isinstance(entry, Shared):
            terms += entry.terms(window)
        else:
            terms += (Term(d.kind, d.source, d.at(window), d.lemma) for d in entry.parts(window))
    return tuple(term for term in terms if term.amount)
