# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks whose jobs one thread serves, one at a time (docs/readings/threads.md).

Until a job of such a task is over, its thread is like a task that executes one job after another: the *chain*.  The
chain has the segments of all jobs that the thread can serve meanwhile, and the formula of the policy bounds it.  The
thread's order decides which jobs these are.  Formulas leave out the tasks that the thread itself serves (System.hpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.model import CpuSegment, Span, Task
from analysis.model.callbacks import Callback, Order, Thread
from analysis.rta import forkjoin, pending
from analysis.rta.pending import Needs, chain_of
from analysis.rta.recurrence import Demand, solve
from analysis.rta.result import Bound, Failure, Reason, Term, TermKind, Verdict
from analysis.rta.system import Demands, System
from gpurt.units import exact_ms

COLLAPSE = "readings: threads, one job of each"
PICKED = {
    Order.PRIORITY: "readings: threads, priority",
    Order.ROS2: "readings: threads, ros2",
    Order.LIVE_TIMERS: "readings: threads, ros2-live-timers",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A response time that no job of the task exceeds, ns, whatever its deadline."""

    wcrt: int
    terms: Callable[[], tuple[Term, ...]]
    needs: Needs


@dataclass(frozen=True, slots=True)
class Company:
    """Jobs that the thread can serve from a job's release until it is over.

    ``once``: one job of each task.  ``first``: one job of one of these tasks, which the thread has begun already.
    ``recurring``: all jobs that can be released meanwhile, up to the number if one is given.
    """

    once: tuple[Task, ...] = ()
    first: tuple[Task, ...] = ()
    recurring: tuple[tuple[Task, int | None], ...] = ()


def verdict_of_threads(
    task: Task, demands_of: Demands, system: System, instead: Demands | None = None,
    paths: forkjoin.Paths | None = None,
) -> tuple[Verdict, Needs]:  # fmt: skip
    """A formula's verdict on a task, and the tasks that it rests on; the verdict of ``instead`` if there is no bound.

    ``paths``: the formula of tasks with workers.  Raises Unbounded if the formula does.
    """
    if paths and task.name in system.taskset.forked:
        return forkjoin.verdict_of_workers(task, paths, system)
    served = system.taskset.served_with(task)
    if len(served) > 1:
        return Chains(served, demands_of, system).verdict(task)
    if task.pends:
        return pending.verdict_of(task, demands_of, system)
    demands = demands_of(task, system)
    verdict = solve(task, demands)
    if instead and not isinstance(verdict, Bound) and (others := instead(task, system)):
        second = solve(task, others)
        if isinstance(second, Bound):
            return second, pending.needs_of(others)
    return verdict, pending.needs_of(demands)


class Chains:
    """The tasks that one thread serves, in the order of their ranks, under one formula."""

    def __init__(self, served: Sequence[Task], demands_of: Demands, system: System) -> None:
        level = min((task.segment_priority for task in served if task.uses_gpu), default=None)
        # A task without GPU work may have no GPU priority; its chain then has the priority of the others' segments.
        self.served = [replace(_longer(task), gpu_priority=level) for task in served]
        self.demands_of, self.system = demands_of, system
        self._own: dict[str, int] = {}
        self._claims: dict[str, Claim | Failure] = {}

    @property
    def thread(self) -> Thread:
        """The thread."""
        thread = self.served[0].thread
        assert thread is not None
        return thread

    def verdict(self, task: Task) -> tuple[Verdict, Needs]:
        """The bound of one task, if its claim is within its deadline."""
        claim = self.claim(task.name)
        if isinstance(claim, Failure):
            return claim, []
        if claim.wcrt > task.deadline:
            return Failure(task.name, Reason.ABOVE_DEADLINE, task.deadline, claim.wcrt, claim.terms), claim.needs
        return Bound(task.name, claim.wcrt, task.deadline, claim.terms), claim.needs

    def claim(self, name: str) -> Claim | Failure:
        """The least claim that applies to a task; the failure if none applies."""
        if name not in self._claims:
            task = next(t for t in self.served if t.name == name)
            found = [self._collapsed(task), *self._picked(task)]
            claims = [one for one in found if isinstance(one, Claim)]
            self._claims[name] = min(claims, key=lambda one: one.wcrt) if claims else found[-1]
        return self._claims[name]

    def _collapsed(self, task: Task) -> Claim | Failure:
        """Theorem 1: one job of each task, provided that no second job of any is released meanwhile."""
        others = Company(once=tuple(t for t in self.served if t is not task))
        shortest = min(t.released(1) for t in self.served)
        found = self._least(task, others, shortest, COLLAPSE)
        if isinstance(found, Claim) or self.thread.order.ranked:
            return found
        least = min(self.served, key=lambda t: t.released(1))
        less = "the period" if not least.jitter else "the period less the jitter"
        why = (
            f"one job of each task of thread {self.thread.name} can take longer than {less} of {least.name}, and order "
            f"{self.thread.order.value} has no bound then"
        )
        return Failure(task.name, Reason.THREAD, task.deadline, culprit=why)

    def _picked(self, task: Task) -> list[Claim | Failure]:
        """Theorems 2 to 4: the jobs that the thread's order picks earlier."""
        if not self.thread.order.ranked:
            return []
        company = self._company(task)
        for j, most in company.recurring:
            if most is None and isinstance(self.claim(j.name), Failure):
                return [Failure(task.name, Reason.DEPENDS_ON, task.deadline, culprit=j.name)]
        if not company.first:
            return [self._least(task, company, task.released(1), PICKED[self.thread.order])]
        each = [
            self._least(task, replace(company, once=(one,)), task.released(1), PICKED[self.thread.order])
            for one in company.first
        ]
        return [_worst(each)]

    def _company(self, task: Task) -> Company:
        at = self.served.index(task)
        before, after = tuple(self.served[:at]), tuple(self.served[at + 1 :])
        if self.thread.order is Order.ROS2:
            return Company(once=after, recurring=tuple((j, 2) for j in before))
        if self.thread.order is Order.PRIORITY or task.callback is Callback.TIMER:
            return Company(first=after, recurring=tuple((j, None) for j in before))
        twice = ((j, None if j.callback is Callback.TIMER else 2) for j in before)
        return Company(once=after, recurring=tuple(twice))

    def _least(self, task: Task, company: Company, limit: int, lemma: str) -> Claim | Failure:
        """The least solution up to ``limit``: the numbers of jobs and their window grow in turns."""
        counts, before = self._counts(company, 1), None
        verdict: Verdict = Failure(task.name, Reason.TOO_MANY_STEPS, task.deadline)
        while counts != before:
            jobs = [*company.once, *(j for j, _ in company.recurring for _ in range(counts[j.name]))]
            chain = replace(chain_of([task, *jobs]), deadline=limit, period=limit)
            demands = self.demands_of(chain, self.system)
            verdict = solve(chain, demands)
            if not isinstance(verdict, Bound):
                assert isinstance(verdict, Failure)
                late = verdict.reason is Reason.ABOVE_DEADLINE and verdict.reached <= task.deadline
                reason = Reason.ABOVE_PERIOD if late else verdict.reason
                time = exact_ms(task.period - task.jitter)
                less = f"the {time} to its next release (period less jitter)" if late and task.jitter else None
                return Failure(task.name, reason, task.deadline, verdict.reached,
                               self._parts(task, company, counts, verdict, lemma), less)  # fmt: skip
            before, counts = counts, self._counts(company, verdict.wcrt)
        assert isinstance(verdict, Bound)
        needs = [*pending.needs_of(demands), *self._rests_on(company)]
        return Claim(verdict.wcrt, self._parts(task, company, counts, verdict, lemma), needs)

    def _counts(self, company: Company, window: int) -> dict[str, int]:
        """The number of jobs of each recurring task that have any part in a window of that length (readings: L3)."""
        return {j.name: self._count(j, most, window) for j, most in company.recurring}

    def _count(self, j: Task, most: int | None, window: int) -> int:
        claim = self.claim(j.name)
        if isinstance(claim, Failure):
            assert most is not None
            return most
        count = -(-(window + j.jitter + max(claim.wcrt - self.own(j), 0)) // j.period)
        return count if most is None else min(count, most)

    def _rests_on(self, company: Company) -> Needs:
        claims = [self.claim(j.name) for j, _ in company.recurring]
        return [one for claim in claims if isinstance(claim, Claim) for one in claim.needs]

    def own(self, task: Task) -> int:
        """e: by how much one more job of the task lengthens a chain that no other task delays, ns."""
        if task.name not in self._own:
            one, two = (pending.constant_of(self.demands_of(chain_of([task] * n), self.system)) for n in (1, 2))
            self._own[task.name] = two - one
        return self._own[task.name]

    def _constant(self, chain: Task) -> list[Demand]:
        """The demands that no other task causes."""
        return [d for d in self.demands_of(chain, self.system) if isinstance(d, Demand) and d.source is None]

    def _parts(
        self, task: Task, company: Company, counts: dict[str, int], chain: Bound | Failure, lemma: str
    ) -> Callable[[], tuple[Term, ...]]:
        total = {t.name: 1 for t in company.once} | counts
        return lambda: self._terms(task, total, chain, lemma)

    def _terms(self, task: Task, counts: Mapping[str, int], chain: Bound | Failure, lemma: str) -> tuple[Term, ...]:
        """The terms of the chain's verdict: the task's own part, the jobs served earlier, the times of other tasks."""
        own = [Term(d.kind, None, d.amount, d.lemma) for d in self._constant(task) if d.amount]
        served = [
            Term(TermKind.SERVED, t.name, counts[t.name] * self.own(t), lemma)
            for t in self.served
            if counts.get(t.name) and self.own(t)
        ]
        return (*own, *served, *(term for term in chain.terms if term.source is not None))


def _worst(claims: Sequence[Claim | Failure]) -> Claim | Failure:
    """The verdict that holds whichever job the thread has begun: a failure if there is one, else the largest claim."""
    failures = [one for one in claims if isinstance(one, Failure)]
    if failures:
        return max(failures, key=lambda one: one.reached)
    found = [one for one in claims if isinstance(one, Claim)]
    worst = max(found, key=lambda one: one.wcrt)
    return replace(worst, needs=[names for one in found for names in one.needs])


def _longer(task: Task) -> Task:
    """The task; with 1 ns on the CPU if its jobs take no time.

    A job without any time still waits for a job that is released at the instant at which it would be over.
    """
    if task.cpu_time + task.gpu_time:
        return task
    return replace(task, segments=(*task.segments, CpuSegment(Span.exactly(1))))
