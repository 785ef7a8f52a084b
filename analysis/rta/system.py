# SPDX-License-Identifier: GPL-2.0
"""The common form of the recurrences, and the sets of tasks that they speak of.

Every analysis here has the form R_i = sum over demands of ceil((R_i + J) / T) * e, some demands being constant;
an analysis is a function that lists the demands of a task, and what is in this module solves them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from analysis.fixed_point import MAX_STEPS, Diverged, least_fixed_point
from analysis.model import Task, Taskset
from analysis.rta.result import BestEffort, Bound, Failure, Kind, Reason, Result, Term, Verdict


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


@dataclass(frozen=True)
class System:
    """A taskset while it is analysed: the bounds found so far are the higher tasks' response times."""

    taskset: Taskset
    known: Mapping[str, int] = field(default_factory=dict)
    _shared: dict[Hashable, Shared] = field(default_factory=dict, repr=False, compare=False)

    def shared(self, key: Hashable, make: Callable[[], Iterable[Demand]]) -> Shared:
        """The demands that ``make`` returns, made once for each key."""
        if key not in self._shared:
            self._shared[key] = Shared(make())
        return self._shared[key]

    @property
    def epsilon(self) -> int:
        """Runlist update cost, ns."""
        return self.taskset.platform.epsilon

    @cached_property
    def _by_cpu(self) -> dict[int, list[Task]]:
        by_cpu: dict[int, list[Task]] = {}
        for task in self.taskset.real_time:
            by_cpu.setdefault(task.cpu, []).append(task)
        return by_cpu

    @cached_property
    def gpu_tasks(self) -> tuple[Task, ...]:
        """The real-time tasks that use the GPU."""
        return tuple(t for t in self.taskset.real_time if t.uses_gpu)

    @cached_property
    def gpu_users(self) -> int:
        """How many tasks use the GPU, best effort included."""
        return sum(t.uses_gpu for t in self.taskset)

    def on_cpu(self, cpu: int) -> Sequence[Task]:
        """The real-time tasks of a CPU, most urgent first."""
        return self._by_cpu.get(cpu, [])

    def hpp(self, task: Task) -> list[Task]:
        """hpp(tau_i): the tasks on its CPU that can preempt it; an equal may come first, so it counts."""
        return [h for h in self.on_cpu(task.cpu) if h is not task and h.priority >= task.priority]

    def outranked(self, task: Task) -> list[Task]:
        """The GPU-using tasks of any CPU whose segments have a lower GPU priority, best effort included."""
        return [t for t in self.taskset if t.uses_gpu and t.segment_priority < task.segment_priority]

    def lower_on_cpu(self, task: Task) -> list[Task]:
        """The GPU-using tasks of its CPU with a lower CPU priority, best effort included."""
        return [t for t in self.taskset if t.uses_gpu and t.cpu == task.cpu and t.priority < task.priority]

    def remote_hpg(self, task: Task) -> list[Task]:
        """The GPU-using tasks of other CPUs whose GPU segments have at least the task's GPU priority."""
        return self.remote_owners(task.cpu, task.segment_priority)

    def remote_owners(self, cpu: int, level: int) -> list[Task]:
        """The GPU-using tasks of CPUs other than ``cpu`` of at least GPU priority ``level``."""
        return [h for h in self.gpu_tasks if h.cpu != cpu and h.segment_priority >= level]

    def jitter(self, task: Task, execution: int) -> int:
        """R_h - e, how late a job's last ``execution`` ns can begin; D_h stands in for an unknown R_h."""
        return max(self.known.get(task.name, task.deadline) - execution, 0)


def gpu_disorder(taskset: Taskset) -> str | None:
    """Why no bound holds under these GPU priorities (ECRTS'24, section 5.3); None if they are in order.

    Who preempts a task on its CPU must outrank it on the GPU as well, or the two can wait for each other.
    """
    lowest: dict[int, Task] = {}
    equals: list[Task] = []
    for task in taskset:
        if task.uses_gpu and task.best_effort is (task.segment_priority > 0):
            return f"{task.name} is real-time on only one of CPU and GPU"
    for task in (t for t in taskset.real_time if t.uses_gpu):
        if equals and equals[0].priority != task.priority:
            for h in equals:
                lowest[h.cpu] = min(lowest.get(h.cpu, h), h, key=lambda t: t.segment_priority)
            equals = []
        equals.append(task)
        above = lowest.get(task.cpu)
        if above is not None and above.segment_priority <= task.segment_priority:
            return f"{above.name} preempts {task.name} on their CPU but does not outrank it on the GPU"
    return None


def gpu_equals(taskset: Taskset, wherever: bool) -> str | None:
    """Why no bound holds where a task that waits for the GPU keeps its CPU from an equal; None if one can.

    Under policy `job` one of the two can be given the GPU while the other spins for it, and so it is where one
    sleeps as it owns the GPU and the other spins: ``wherever``.  Where all spin under `segment`, that takes an owner
    that sleeps at the update lock when its segment ends, hence users on other CPUs.
    """
    seen: dict[tuple[int, int], str] = {}
    cpus = {t.cpu for t in taskset if t.uses_gpu}
    for task in (t for t in taskset.real_time if t.uses_gpu):
        other = seen.setdefault((task.cpu, task.priority), task.name)
        contended = len(cpus) > 1
        if other != task.name and (wherever or contended):
            return f"{other} and {task.name} use the GPU and have the same priority on their CPU"
    return None


#: What an analysis is: the demands that make up the response time of a task.
Demands: TypeAlias = Callable[[Task, System], "Sequence[Demand | Shared]"]


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


def analyse(name: str, demands_of: Demands, taskset: Taskset, *, assume_deadlines: bool = False) -> Result:
    """Runs an analysis over a taskset, most urgent task first.

    With ``assume_deadlines`` no response time is used in another's jitter: D_h is (section 6.4).  A bound that
    rests on a task without one is withdrawn: its jitter assumed that the task meets its deadline.
    """
    verdicts: dict[str, Verdict] = {t.name: BestEffort(t.name) for t in taskset if t.best_effort}
    needs: dict[str, list[frozenset[str | None]]] = {}
    failed: set[str | None] = set()
    lost_on: dict[int, str] = {}  # whoever comes after these on their CPU is preempted by them
    known: dict[str, int] = {}
    pending: list[Task] = []
    system = System(taskset, known)
    for task in taskset.real_time:
        if pending and pending[0].priority != task.priority:
            _settle(pending, verdicts, known, assume_deadlines)
            pending = []
        lost = lost_on.get(task.cpu)
        demands: Sequence[Demand | Shared] = ()
        if lost is None:
            try:
                demands = demands_of(task, system)
                needs[task.name] = _needs(demands)
                lost = _culprit(needs[task.name], failed)
            except Unbounded as unbounded:
                lost = unbounded.culprit
        verdict = verdicts[task.name] = _depends(task, lost) if lost else solve(task, demands)
        if isinstance(verdict, Failure):
            failed.add(task.name)
            if task.cpu_time or task.misc_time:
                lost_on.setdefault(task.cpu, task.name)
        pending.append(task)
    _withdraw(taskset, verdicts, needs, failed)
    return Result(name, {t.name: verdicts[t.name] for t in taskset})


def _settle(tasks: list[Task], verdicts: dict[str, Verdict], known: dict[str, int], never: bool) -> None:
    """Response times become known to lower priorities only: equals bound each other by deadlines."""
    for task in tasks:
        verdict = verdicts[task.name]
        if isinstance(verdict, Bound) and not never:
            known[task.name] = verdict.wcrt


def _depends(task: Task, culprit: str) -> Failure:
    return Failure(task.name, Reason.DEPENDS_ON, task.deadline, culprit=culprit)


def _needs(demands: Sequence[Demand | Shared]) -> list[frozenset[str | None]]:
    """The tasks whose response times a bound rests on."""
    single = frozenset(d.source for d in demands if isinstance(d, Demand) and d.rests_on_source)
    return [single, *(d.sources for d in demands if isinstance(d, Shared))]


def _culprit(needs: Sequence[frozenset[str | None]], failed: AbstractSet[str | None]) -> str | None:
    """One of the tasks without a bound that a task needs, the first by name; None if there is none."""
    lost = [name for names in needs if not names.isdisjoint(failed) for name in names & failed if name]
    return min(lost, default=None)


def _withdraw(
    taskset: Taskset,
    verdicts: dict[str, Verdict],
    needs: Mapping[str, Sequence[frozenset[str | None]]],
    failed: set[str | None],
) -> None:
    """Turns bounds that assumed a failed task's deadline into failures, until nothing changes."""
    bounded = [t for t in taskset.real_time if isinstance(verdicts[t.name], Bound)]
    changed = True
    while changed:
        changed = False
        for task in bounded:
            culprit = None if task.name in failed else _culprit(needs[task.name], failed)
            if culprit:
                verdicts[task.name] = _depends(task, culprit)
                failed.add(task.name)
                changed = True
