# SPDX-License-Identifier: GPL-2.0
"""The verdict of a schedulability test on each task: a bound and its terms, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from gpurt.units import exact_ms


class TermKind(str, Enum):
    """The cause of delay that a term of a bound accounts for."""

    OWN = "own execution"
    UPDATES = "own runlist updates"
    BLOCKING = "blocking"
    CPU_PREEMPTION = "CPU preemption"
    GPU_PREEMPTION = "GPU preemption"
    INDIRECT_DELAY = "indirect delay"
    INTERLEAVING = "interleaved execution"
    OVERLAP = "saved by overlap"
    BUS = "copies of other tasks"
    SERVED = "jobs of its thread"
    WAKE_UPS = "wake-ups"
    PENDING = "its own jobs before"
    RELEASED = "before its release"


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a bound: ``amount`` ns, caused by ``source`` (None: the task itself).

    OVERLAP and RELEASED are negative.
    """

    kind: TermKind
    source: str | None
    amount: int
    lemma: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The worst-case response time of a task, ns; the terms add up to it.

    ``breakdown`` computes the terms only when they are read: a large taskset has millions.
    """

    task: str
    wcrt: int
    deadline: int
    breakdown: Callable[[], tuple[Term, ...]] = field(repr=False, compare=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms that the bound consists of."""
        return self.breakdown()

    @property
    def slack(self) -> int:
        """Deadline minus bound, ns; never negative."""
        return self.deadline - self.wcrt


class Reason(str, Enum):
    """Why a task has no bound."""

    ABOVE_DEADLINE = "no bound below the deadline"
    ABOVE_PERIOD = "no bound below the period"
    OVERLOAD = "no bound at all"
    GPU_ORDER = "GPU priorities out of order"
    DEPENDS_ON = "depends on a task without a bound"
    TOO_MANY_STEPS = "the search did not end"
    NO_UNITS = "no units of the GPU"
    WAITING = "waiting modes contradict each other"
    PARTITIONS = "other partitions than the test is about"
    THREAD = "the other jobs of its thread"
    PENDING = "several pending jobs"
    LATENCY = "wake-ups of threads"
    WORKERS = "tasks with workers"
    PROCESS = "threads of one process"
    BEGIN = "how GPU segments begin"
    TOO_LONG = "a job longer than the period"


#: Reasons that ``culprit`` explains in words.
_TOLD = (
    Reason.GPU_ORDER, Reason.NO_UNITS, Reason.WAITING, Reason.PARTITIONS, Reason.THREAD, Reason.PENDING,
    Reason.LATENCY, Reason.WORKERS, Reason.PROCESS, Reason.BEGIN, Reason.TOO_LONG,
)  # fmt: skip

_OF_ALL = (
    Reason.GPU_ORDER, Reason.PARTITIONS, Reason.PENDING, Reason.LATENCY, Reason.WORKERS, Reason.PROCESS, Reason.BEGIN,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """No bound within the deadline is known.  Tests are only sufficient: the task may still meet its deadline.

    ``reached``: a value of the recurrence beyond the deadline, ns; beyond the period for ABOVE_PERIOD; 0 for reasons
    without a recurrence.  ``breakdown`` computes the terms of a window as long as the deadline, when they are read.
    ``culprit``: for ABOVE_PERIOD the limit that was exceeded instead of the period; for DEPENDS_ON the task without a
    bound; for GPU_ORDER the priorities out of order; for NO_UNITS the task or kernel without units; for WAITING the
    task and its waiting mode.  For PARTITIONS, THREAD, PENDING, LATENCY, WORKERS, PROCESS and BEGIN: why the test has
    no bound.  For TOO_LONG: by how much.  OVERLOAD: the demand grows faster than time passes, so
    that the test fails for any deadline.
    """

    task: str
    reason: Reason
    deadline: int
    reached: int = 0
    breakdown: Callable[[], tuple[Term, ...]] = field(default=tuple, repr=False, compare=False)
    culprit: str | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of a window as long as the deadline; empty for reasons without a recurrence."""
        return self.breakdown()

    @property
    def largest(self) -> Term | None:
        """The largest of the terms."""
        return max(self.terms, key=lambda term: term.amount, default=None)

    def __str__(self) -> str:
        if self.reason is Reason.DEPENDS_ON:
            return f"{self.task}: no bound, because {self.culprit} has none"
        if self.reason is Reason.TOO_MANY_STEPS:
            return f"{self.task}: the search for a bound did not end; are its times in the same unit as the others?"
        if self.reason in _TOLD:
            return f"{self.task}: no bound, because {self.culprit}"
        limit = f"the deadline of {exact_ms(self.deadline)}"
        if self.reason is Reason.ABOVE_PERIOD:
            limit = self.culprit or "its period"
        passed = f"the recurrence passed it at {exact_ms(self.reached)}"
        if self.reason is Reason.OVERLOAD:
            passed += ", and grows faster than time passes"
        text = f"{self.task}: no bound below {limit} is known ({passed})"
        if largest := self.largest:
            cause = f" from {largest.source}" if largest.source else ""
            text += f"; the largest part is {largest.kind.value}{cause}, {exact_ms(largest.amount)}"
        return text


@dataclass(frozen=True, slots=True)
class BestEffort:
    """A task without a real-time priority: nothing is guaranteed to it."""

    task: str


Verdict: TypeAlias = Bound | Failure | BestEffort


@dataclass(frozen=True)
class Result:
    """The verdicts of one test on a taskset: one for each task, in the order of the taskset.

    ``units``: by task with a kernel, the units of the GPU that the task has, where tasks own units.
    """

    test: str
    verdicts: Mapping[str, Verdict]
    units: Mapping[str, int] | None = None

    @property
    def schedulable(self) -> bool:
        """Whether every real-time task has a bound within its deadline."""
        return not self.failures

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The tasks without a bound."""
        return tuple(v for v in self.verdicts.values() if isinstance(v, Failure))

    def root(self, failure: Failure) -> Failure:
        """The failure that this one follows from; itself, unless it depends on a task without a bound."""
        seen: set[str] = set()
        while failure.reason is Reason.DEPENDS_ON and failure.task not in seen:
            seen.add(failure.task)
            above = self.verdicts.get(failure.culprit or "")
            if not isinstance(above, Failure):
                break
            failure = above
        return failure

    @property
    def causes(self) -> tuple[Failure, ...]:
        """The failures that follow from no other; if there are none, those of tasks that wait for each other."""
        return tuple({one.task: one for one in map(self.root, self.failures)}.values())

    @property
    def why(self) -> str:
        """Why the test has no bound for some task: the cause and its consequences; empty if it bounds all tasks.

        Every command uses these words.  Of several causes, it names the first in the order of the taskset.
        """
        if not self.failures:
            return ""
        cause = self.causes[0]
        others = [one.task for one in self.failures if one is not cause]
        if not others or cause.reason in _OF_ALL:  # of all tasks at once
            return str(cause)
        listed = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        return f"{cause}; no bound of {listed} either"

    def wcrt(self, task: str) -> int | None:
        """The bound of a task in ns; None if it has none."""
        verdict = self.verdicts[task]
        return verdict.wcrt if isinstance(verdict, Bound) else None
