# SPDX-License-Identifier: GPL-2.0
"""Bounds of chains with sampled links, on top of the bounds of their tasks.  docs/readings/chains.md has the proofs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from analysis.model import Chain, Task, Taskset
from analysis.rta.result import Result
from gpurt.units import exact_ms

GAP = "readings: chains, the next release"
RESPONSE = "readings: chains, its response"
EXEMPT = "readings: chains, a more urgent producer that never sleeps"


@dataclass(frozen=True, slots=True)
class Part:
    """A task's part of a bound, ns, and the reason for it."""

    task: str
    amount: int
    lemma: str


@dataclass(frozen=True)
class Latency:
    """A bound and its parts, which add up to it; ``limit``: what the file allows, ns; None: it states none."""

    parts: tuple[Part, ...]
    limit: int | None

    @property
    def bound(self) -> int:
        """The sum of the parts, ns."""
        return sum(part.amount for part in self.parts)

    @property
    def holds(self) -> bool:
        """Whether the bound is within what the file allows."""
        return self.limit is None or self.bound <= self.limit


@dataclass(frozen=True)
class Bounded:
    """The bounds of a chain by the file's keys, or ``why`` there are none."""

    chain: Chain
    latencies: dict[str, Latency]
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether every bound is known, and within its limit."""
        return not self.why and all(one.holds for one in self.latencies.values())

    @property
    def objection(self) -> str:
        """Why what the file allows is not proved; empty if it is, or if it allows anything."""
        if self.why:
            return f"chain {self.chain.name}: {self.why}" if self.chain.limited else ""
        for key, one in self.latencies.items():
            if one.limit is not None and not one.holds:
                allowed = f"and the file allows {exact_ms(one.limit)}"
                return f"chain {self.chain.name}: {key} can be {exact_ms(one.bound)}, {allowed}"
        return ""


def bound_of(chain: Chain, taskset: Taskset, result: Result) -> Bounded:
    """The chain's bounds, from those that a test has of the taskset's tasks."""
    tasks = [next(t for t in taskset if t.name == name) for name in chain.tasks]
    responses: dict[str, int] = {}
    for task in tasks:
        wcrt = result.wcrt(task.name)
        if wcrt is None:
            return Bounded(chain, {}, f"{task.name} has no bound")
        responses[task.name] = wcrt
    latencies = {"max_reaction": Latency(_reaction(chain, tasks, taskset, responses), chain.max_reaction)}
    first = tasks[0].longest_gap
    if first is not None:
        output = _at_output(tasks, taskset, responses)
        age = (Part(tasks[-1].name, _gap(tasks[-1]), GAP), *output)
        latencies["max_age"] = Latency(age, chain.max_age)
        latencies["max_age_at_output"] = Latency(output, chain.max_age_at_output)
    return Bounded(chain, latencies)


def _reaction(chain: Chain, tasks: list[Task], taskset: Taskset, responses: dict[str, int]) -> tuple[Part, ...]:
    """From an event to the end of the last job: to each next release, and to its end."""
    parts = [] if chain.event else [Part(tasks[0].name, _gap(tasks[0]), GAP)]
    for producer, consumer in pairwise(tasks):
        response, gap = responses[producer.name], _gap(consumer)
        if never_between(producer, consumer, taskset):
            parts.append(Part(consumer.name, max(response, gap), EXEMPT))
        else:
            parts += [Part(producer.name, response, RESPONSE), Part(consumer.name, gap, GAP)]
    return (*parts, Part(tasks[-1].name, responses[tasks[-1].name], RESPONSE))


def _at_output(tasks: list[Task], taskset: Taskset, responses: dict[str, int]) -> tuple[Part, ...]:
    """From the end of the last job back to the start of the first: to each job that ended before a start."""
    parts = [Part(tasks[-1].name, responses[tasks[-1].name], RESPONSE)]
    for producer, consumer in pairwise(tasks):
        exempt = never_between(producer, consumer, taskset)
        parts.append(Part(producer.name, _gap(producer), EXEMPT if exempt else GAP))
        if not exempt:
            parts.append(Part(producer.name, responses[producer.name], RESPONSE))
    return tuple(parts)


def never_between(producer: Task, consumer: Task, taskset: Taskset) -> bool:
    """Whether no job of the consumer starts while one of the producer is pending.

    So it is on one CPU if the producer is more urgent there and never sleeps.  One that uses the GPU may sleep, or wait
    for its turn, and then the consumer starts in the gap and reads what is old.
    """
    alone = len(taskset.served_with(producer)) == 1
    return producer.cpu == consumer.cpu and producer.priority > consumer.priority and alone and not producer.uses_gpu


def _gap(task: Task) -> int:
    gap = task.longest_gap
    assert gap is not None  # files without it are refused where it counts
    return gap
