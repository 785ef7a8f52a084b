# SPDX-License-Identifier: GPL-2.0
"""Bounds of chains, on top of the bounds of their tasks.  docs/readings/chains.md has the proofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.model import Chain, Task, Taskset
from analysis.rta.result import Result
from analysis.rta.triggered import root_of, windows
from gpurt.units import exact_ms

GAP = "readings: chains, the next release"
RESPONSE = "readings: chains, its response"
JOINED = "readings: chains, other tasks that release it"
EXEMPT = "readings: chains, a more urgent producer that never sleeps"


@dataclass(frozen=True, slots=True)
class Part:
    """A task's part of a bound, ns, and the reason for it."""

    task: str
    amount: int
    lemma: str


@dataclass(frozen=True)
class Latency:
    """A bound and its parts, which add up to it; ``limit``: the file's limit, ns; None: the file states none."""

    parts: tuple[Part, ...]
    limit: int | None

    @property
    def bound(self) -> int:
        """The sum of the parts, ns."""
        return sum(part.amount for part in self.parts)

    @property
    def holds(self) -> bool:
        """Whether the bound is within the file's limit."""
        return self.limit is None or self.bound <= self.limit


@dataclass(frozen=True)
class Bounded:
    """The bounds of a chain by the file's keys; ``why``: the reason if there are none."""

    chain: Chain
    latencies: dict[str, Latency]
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether every bound is known, and within its limit."""
        return not self.why and all(one.holds for one in self.latencies.values())

    @property
    def objection(self) -> str:
        """Why the chain's limits are not proved; empty if they are, or if the file states none."""
        if self.why:
            return f"chain {self.chain.name}: {self.why}" if self.chain.limits else ""
        for key, one in self.latencies.items():
            if one.limit is not None and not one.holds:
                allowed = f"and the file allows {exact_ms(one.limit)}"
                return f"chain {self.chain.name}: {key} can be {exact_ms(one.bound)}, {allowed}"
        return ""


def bound_of(chain: Chain, taskset: Taskset, result: Result) -> Bounded:
    """The chain's bounds, from a test's bounds for the taskset's tasks."""
    found = {task.name: wcrt for task in taskset if (wcrt := result.wcrt(task.name)) is not None}
    return bounded_chains(chain, taskset, found)


def bounded_chains(chain: Chain, taskset: Taskset, responses: Mapping[str, int]) -> Bounded:
    """The chain's bounds, from bounds of tasks by name, ns."""
    if lacking := [name for name in chain.tasks if name not in responses]:
        return Bounded(chain, {}, f"{lacking[0]} has no bound")
    known = {task.name: task for task in taskset}
    found = windows(taskset, responses)
    units = [Unit(tuple(known[name] for name in names), responses, taskset, found) for names in chain.units]
    latencies = {"max_reaction": Latency(_reaction(chain, units, taskset), chain.max_reaction)}
    if root_of(taskset, units[0].head.name).max_period is not None:
        output = _at_output(units, taskset)
        age = (units[-1].gap, *output)
        latencies["max_age"] = Latency(age, chain.max_age)
        latencies["max_age_at_output"] = Latency(output, chain.max_age_at_output)
    return Bounded(chain, latencies)


@dataclass(frozen=True)
class Unit:
    """A sequence of tasks: the end of each releases the next, perhaps together with the ends of other tasks.

    ``responses``: bounds of tasks, ns.  ``windows``: when each task is released, ns.
    """

    tasks: tuple[Task, ...]
    responses: Mapping[str, int]
    taskset: Taskset
    windows: Mapping[str, tuple[int, int]]

    @property
    def head(self) -> Task:
        """The unit's first task: it has releases of its own, or others release it and it reads the previous unit."""
        return self.tasks[0]

    @property
    def gap(self) -> Part:
        """The longest time to the head's next release."""
        root, (first, last) = root_of(self.taskset, self.head.name), self.windows[self.head.name]
        assert root.max_period is not None  # where it counts, files without it are refused
        return Part(self.head.name, root.max_period + last - first, GAP)

    @property
    def ends(self) -> tuple[Part, ...]:
        """The longest time from the head's release to the end of the last task."""
        parts, reached = [], 0
        for task in self.tasks:
            response = self._response(task)
            if (wait := self.reach(task) - reached - response) > 0:
                parts.append(Part(task.name, wait, JOINED))
            parts.append(Part(task.name, response, RESPONSE))
            reached = self.reach(task)
        return tuple(parts)

    def _response(self, task: Task) -> int:
        return self.responses.get(task.name, task.deadline)

    def reach(self, task: Task) -> int:
        """The time from the release of the head's job to the end of the task's job that has the same arrival."""
        if task.name == self.head.name:
            return self._response(task)
        if task.name not in self.taskset.triggers:
            return task.jitter + self._response(task) - self.windows[self.head.name][0]
        producers = [one for one in self.taskset if one.name in self.taskset.triggers[task.name]]
        return self._response(task) + max(map(self.reach, producers))


def _exempt(producer: Unit, consumer: Unit, taskset: Taskset) -> bool:
    alone = len(producer.tasks) == len(consumer.tasks) == 1
    return alone and never_between(producer.head, consumer.head, taskset)


def _reaction(chain: Chain, units: Sequence[Unit], taskset: Taskset) -> tuple[Part, ...]:
    """The time from an event to the end of the last job: for each task, until its next release and that job's end."""
    parts = [] if chain.event else [units[0].gap]
    for producer, consumer in pairwise(units):
        if _exempt(producer, consumer, taskset):
            amount = max(producer.ends[0].amount, consumer.gap.amount)
            parts.append(Part(consumer.head.name, amount, EXEMPT))
        else:
            parts += [*producer.ends, consumer.gap]
    return (*parts, *units[-1].ends)


def _at_output(units: Sequence[Unit], taskset: Taskset) -> tuple[Part, ...]:
    """The time from the start of the first job to the end of the last: each job ended before the next one's start."""
    parts = list(units[-1].ends)
    for producer, consumer in pairwise(units):
        if _exempt(producer, consumer, taskset):
            parts.append(Part(producer.head.name, producer.gap.amount, EXEMPT))
        else:
            parts += [producer.gap, *producer.ends]
    return tuple(parts)


def never_between(producer: Task, consumer: Task, taskset: Taskset) -> bool:
    """Whether no job of the consumer starts while a job of the producer is pending.

    On one CPU this is so if the producer is more urgent there and never sleeps.  A producer sleeps while it waits for
    the GPU, for workers, or for its turn in a thread.  Then the consumer starts in the gap and reads an old value.
    """
    above = producer.cpu == consumer.cpu and producer.priority > consumer.priority
    return above and len(taskset.served_with(producer)) == 1 and not taskset.sleeps(producer)
