# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks with several pending jobs: release jitter, and deadlines beyond periods.

One thread serves a task's jobs in the order of their releases.  While a job is pending, the thread acts as if it
executed one long job, a *chain* of jobs.  The formula of the policy bounds the end of each job of the chain.
docs/readings/pending.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.model import Segment, Task
from analysis.rta.recurrence import FRACTION_SCALE, Demand, Shared, rate_of, solve, terms_at
from analysis.rta.result import Bound, Failure, Reason, Term, TermKind, Verdict
from analysis.rta.system import Demands, System
from gpurt.units import exact_ms

#: A search gives up after this many jobs in one interval of pending jobs.
MOST_JOBS = 300
PENDING_LEMMA = "readings: pending jobs"
#: The kinds of demands that make up the least time for which a job occupies its thread.
OWN_KINDS = (TermKind.OWN, TermKind.WAKE_UPS, TermKind.UPDATES)

#: Names of the tasks that a bound rests on, in several sets.
Needs = Sequence[frozenset["str | None"]]


@dataclass(frozen=True, slots=True)
class Window:
    """From the begin of an interval in which jobs of a task are pending to the end of the last of its ``jobs``.

    ``end``: the formula's verdict on that end.  ``released``: the earliest release of the last job, ns.
    """

    jobs: int
    end: Verdict
    released: int
    needs: Needs

    def response(self) -> int:
        """The most time from the release of the last job to its end, ns."""
        assert isinstance(self.end, Bound)
        return self.end.wcrt - self.released


def verdict_of(task: Task, demands_of: Demands, system: System) -> tuple[Verdict, Needs]:
    """A formula's verdict on a task with several pending jobs, and the tasks that the verdict rests on."""
    demands = demands_of(task, system)
    if too_long := _too_long(task, demands, system):
        return too_long, needs_of(demands)
    if not system.pending:
        return solve(task, demands), needs_of(demands)
    if overload := _overload(task, demands_of, demands, system):
        return overload, needs_of(demands)
    worst: Window | None = None
    for window in _windows(task, demands_of, system):
        if isinstance(window.end, Failure):
            return _failure(task, window), window.needs
        if worst is None or window.response() > worst.response():
            worst = window
        if _over(task, window):
            terms = _terms(task, demands_of, system, worst)
            return Bound(task.name, worst.response(), task.deadline, terms), window.needs
    return Failure(task.name, Reason.TOO_MANY_STEPS, task.deadline), needs_of(demands)


def end_within(task: Task, end_of: Demands, demands_of: Demands, system: System) -> int | None:
    """The latest end of a job's last GPU segment, counted from the release, ns; None if no bound is known."""
    if not (task.pends and system.pending):
        end = solve(task, end_of(task, system))
        return end.wcrt if isinstance(end, Bound) else None
    latest = 0
    for window, until in zip(_windows(task, demands_of, system), _windows(task, end_of, system), strict=True):
        if not (isinstance(window.end, Bound) and isinstance(until.end, Bound)):
            return None
        latest = max(latest, until.response())
        if _over(task, window):
            return latest
    return None


def _windows(task: Task, demands_of: Demands, system: System) -> Iterator[Window]:
    """The window of one job, of two, and so on."""
    for jobs in range(1, MOST_JOBS + 1):
        released = task.released(jobs - 1)
        limit = released + task.deadline
        chain = replace(chain_of([task] * jobs), deadline=limit, period=limit)
        demands = demands_of(chain, system)
        yield Window(jobs, solve(chain, demands), released, needs_of(demands))


def _over(task: Task, window: Window) -> bool:
    """Whether all jobs of the window are over before the next one can be released."""
    assert isinstance(window.end, Bound)
    return window.end.wcrt <= task.released(window.jobs)


def _too_long(task: Task, demands: Sequence[Demand | Shared], system: System) -> Failure | None:
    """The failure of a task whose jobs alone take longer than its period: each job is later than the previous.

    Other tasks count its jobs; for that, the most that they charge for one job must not exceed the period either.
    """
    own = sum(d.amount for d in demands if isinstance(d, Demand) and d.kind in OWN_KINDS)
    if system.pending:
        own = max(own, task.cpu_time + task.gpu_time + 2 * system.epsilon * task.eta)
    if own <= task.period:
        return None
    turns = -(-own // task.period)
    why = (
        f"a job takes its one thread {exact_ms(own)}, and one is released each {exact_ms(task.period)}: each job can "
        f"be later than the one before by {exact_ms(own - task.period)}, without end; it is a pipeline of several "
        f"threads: write each of its stages as a task of a [[chain]], or {turns} tasks of {turns} threads that take "
        f"turns, each with period {exact_ms(turns * task.period)}"
    )
    return Failure(task.name, Reason.TOO_LONG, task.deadline, own, culprit=why)


def _overload(
    task: Task, demands_of: Demands, demands: Sequence[Demand | Shared], system: System
) -> Failure | None:  # fmt: skip
    """The failure of a task that is later with each job, because demand exceeds the time that passes; else None.

    Other tasks' jobs take ``rate`` of the time.  Beside them one more job takes at least ``own / (1 - rate)``.
    """
    own = constant_of(demands_of(chain_of([task] * 2), system)) - constant_of(demands)
    rate = rate_of(demands)
    if rate >= FRACTION_SCALE:
        return None  # solve() returns the failure
    taken = own * FRACTION_SCALE // (FRACTION_SCALE - rate)
    if taken <= task.period:
        return None
    later = taken - task.period
    reached = taken + max((task.deadline - taken) // later + 1, 0) * later
    return Failure(task.name, Reason.OVERLOAD, task.deadline, reached, lambda: terms_at(demands, task.deadline))


def constant_of(demands: Sequence[Demand | Shared]) -> int:
    """The sum of the demands that come from no other task, ns."""
    return sum(d.amount for d in demands if isinstance(d, Demand) and d.source is None)


def _failure(task: Task, window: Window) -> Failure:
    """The window's failure, restated as a failure of its last job."""
    assert isinstance(window.end, Failure)
    return replace(window.end, deadline=task.deadline, reached=max(window.end.reached - window.released, 0))


def _terms(task: Task, demands_of: Demands, system: System, window: Window) -> Callable[[], tuple[Term, ...]]:
    """The terms of the bound: one job's own part, the earlier jobs, the other tasks, minus the release."""

    def terms() -> tuple[Term, ...]:
        assert isinstance(window.end, Bound)
        one = [d for d in demands_of(task, system) if isinstance(d, Demand) and d.source is None]
        own = [Term(d.kind, None, d.amount, d.lemma) for d in one]
        before = sum(t.amount for t in window.end.terms if t.source is None) - sum(term.amount for term in own)
        others = [term for term in window.end.terms if term.source is not None]
        extra = [Term(TermKind.PENDING, None, before, PENDING_LEMMA),
                 Term(TermKind.RELEASED, None, -window.released, PENDING_LEMMA)]  # fmt: skip
        return tuple(term for term in (*own, *extra, *others) if term.amount)

    return terms


def chain_of(jobs: Sequence[Task]) -> Task:
    """A task whose single job consists of these jobs, one after another."""
    segments: tuple[Segment, ...] = tuple(segment for job in jobs for segment in job.segments)
    return replace(jobs[0], segments=segments)


def needs_of(demands: Sequence[Demand | Shared]) -> Needs:
    """The tasks that a bound rests on, in several sets."""
    single = frozenset(d.source for d in demands if isinstance(d, Demand) and d.rests_on_source)
    return [single, *(d.sources for d in demands if isinstance(d, Shared))]
