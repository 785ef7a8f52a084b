# SPDX-License-Identifier: GPL-2.0
"""Relations between tasks: chains, workers, and resources of CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Chain:
    """A sequence of tasks: each reads the previous task's last value, or the end of that task's job releases it.

    ``triggered``: the released tasks.  ``event``: the event to which the chain reacts releases the first task; else the
    first task samples it.  ``max_reaction``, ``max_age`` and ``max_age_at_output``: limits, ns; None: no limit.
    """

    name: str
    tasks: tuple[str, ...]
    event: bool = False
    max_reaction: int | None = None
    max_age: int | None = None
    max_age_at_output: int | None = None
    triggered: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """The chain, cut where a task samples: the first task of each unit has releases of its own."""
        units: list[tuple[str, ...]] = []
        for name in self.tasks:
            if name in self.triggered:
                units[-1] = (*units[-1], name)
            else:
                units.append((name,))
        return tuple(units)

    @property
    def limits(self) -> dict[str, int]:
        """The file's limits, ns by key."""
        keyed = {key: getattr(self, key) for key in ("max_reaction", "max_age", "max_age_at_output")}
        return {key: limit for key, limit in keyed.items() if limit is not None}


def releases(chains: Iterable[Chain]) -> dict[str, tuple[str, ...]]:
    """For each triggered task: the tasks whose jobs with the same number must all end before its job is released."""
    found: dict[str, dict[str, None]] = {}
    for chain in chains:
        for producer, consumer in pairwise(chain.tasks):
            if consumer in chain.triggered:
                found.setdefault(consumer, {})[producer] = None
    return {consumer: tuple(producers) for consumer, producers in found.items()}


def beginnings(released: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """For each triggered task, the first tasks of the sequences that release it.  A task in a circle is among its own
    first tasks."""
    found = {}
    for name in released:
        seen, left = set[str](), list(released[name])
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += released.get(one, ())
        found[name] = frozenset(one for one in seen if one not in released or one == name)
    return found


@dataclass(frozen=True, slots=True)
class Fork:
    """A task whose jobs start workers, and sleep until all of them are done; they and the task are one group.

    ``after``: the number of the task's segments before its workers.  Workers have the task's period and deadline, and
    their responses count from the release of its job.  All members have one GPU priority.  ``hold``: the task is inside
    segment number ``after`` while its workers execute, and all members are raised while they own the GPU.
    """

    task: str
    after: int
    workers: tuple[str, ...]
    hold: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        """The task and its workers."""
        return (self.task, *self.workers)


@dataclass(frozen=True, slots=True)
class Assumed:
    """The file lacks ``key``, and bounds assume ``text`` of these ``tasks``; without tasks, of the platform."""

    key: str
    tasks: tuple[str, ...]
    text: str


class Protocol(str, Enum):
    """What happens while one task requests a resource that another task holds."""

    INHERITANCE = "inheritance"
    CEILING = "ceiling"
    SPIN = "spin"


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section of a task's CPU segments: at most ``time`` ns, at most ``times`` times a job."""

    task: str
    time: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that one task at a time can hold, on one CPU, or on several if tasks spin for it."""

    name: str
    protocol: Protocol
    sections: tuple[Section, ...]
