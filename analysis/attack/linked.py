# SPDX-License-Identifier: GPL-2.0
"""Tasksets with chains, to attack bounds with: sampled and triggered links, forks and joins of these."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from analysis.chains.bounds import bound_of
from analysis.chains.observed import MEASURE_KEYS
from analysis.model import Chain, Task, Taskset
from analysis.model.relations import beginnings
from analysis.rta import Result

#: Chains of a taskset, at most.
MAX_CHAINS = 3
#: Stands for a time that nothing bounds, ns.
ENDLESS_NS = 2**62
#: The longest reaction, age and age at an output of a chain, ns.
Times: TypeAlias = tuple[int, int, int]


def with_random_chains(taskset: Taskset, rng: random.Random, *, triggers: bool = True) -> Taskset:
    """The taskset with chains of its tasks; ``triggers``: ends of jobs release others where no task has workers."""
    names = [t.name for t in taskset.real_time if t.name not in taskset.started]
    if len(names) < 2:
        return taskset
    rng.shuffle(names)
    released = _released(names, rng) if triggers and not taskset.forks else {}
    chains = []
    for number, path in enumerate(_paths(names, released, rng)[:MAX_CHAINS]):
        consumers = tuple(b for a, b in pairwise(path) if a in released.get(b, ()))
        chains.append(Chain(f"c{number}", path, rng.random() < 0.3, triggered=consumers))
    kept: dict[str, Sequence[str]] = {}
    for one in chains:
        for producer, consumer in pairwise(one.tasks):
            if consumer in one.triggered:
                kept[consumer] = (*kept.get(consumer, ()), producer)
    return _with_periods(replace(taskset, chains=tuple(chains)), kept, rng)


def _released(names: Sequence[str], rng: random.Random) -> dict[str, tuple[str, ...]]:
    """By task, one or two earlier tasks that release it; both have the same first task."""
    found: dict[str, tuple[str, ...]] = {}
    for at, name in enumerate(names[1:], 1):
        if rng.random() < 0.6:
            first = rng.choice(names[:at])
            root = _root(first, found)
            mates = [one for one in names[:at] if one != first and _root(one, found) == root]
            found[name] = (first, rng.choice(mates)) if mates and rng.random() < 0.5 else (first,)
    return found


def _root(name: str, released: Mapping[str, Sequence[str]]) -> str:
    return min(beginnings(released).get(name, {name}))


def _paths(
    names: Sequence[str], released: Mapping[str, Sequence[str]], rng: random.Random
) -> list[tuple[str, ...]]:  # fmt: skip
    """All ways along triggered links, some of them with a sampled link before or after."""

    def ways(name: str) -> Iterator[tuple[str, ...]]:
        for producer in released.get(name, ()):
            yield from ((*way, name) for way in ways(producer))
        if name not in released:
            yield (name,)

    used = {producer for producers in released.values() for producer in producers}
    found = []
    for way in (way for name in names if name not in used for way in ways(name)):
        others = [one for one in names if one not in way]
        before = [one for one in others if one not in released]
        if before and rng.random() < 0.4:
            way = (rng.choice(before), *way)
        after = [one for one in others if one not in way and not {*way} & {*released.get(one, ())}]
        if after and (len(way) < 2 or rng.random() < 0.4):
            way = (*way, rng.choice(after))
        found += [way] if len(way) > 1 else []
    return found


def _with_periods(taskset: Taskset, released: Mapping[str, Sequence[str]], rng: random.Random) -> Taskset:
    """Gives tasks that others release the period of the first task, and all others a longest distance of arrivals."""
    known = {t.name: t for t in taskset}
    parents = {name: fork.task for fork in taskset.forks for name in fork.workers}
    chained = {name for one in taskset.chains for name in one.tasks}
    gaps = {t.name: t.period + rng.choice([0, 0, 0, t.period // 2]) for t in taskset}

    def made(task: Task) -> Task:
        if task.name in released:
            root = known[_root(task.name, released)]
            times = rng.choice([1, 1, 2, 3])
            return replace(task, period=root.period, deadline=times * root.period, jitter=0, max_period=None)
        if task.name in parents or task.name not in chained:
            return task
        return replace(task, max_period=max(gaps[task.name], task.period))

    return replace(taskset, tasks=tuple(map(made, taskset)))


def limits_of(taskset: Taskset, result: Result) -> dict[str, Times]:
    """The bounds of chains that follow from those of their tasks, ns; ENDLESS_NS where there is none."""
    found = {}
    for one in taskset.chains:
        known = bound_of(one, taskset, result).latencies
        reaction, age, at_output = (known[key].bound if key in known else ENDLESS_NS for key in MEASURE_KEYS)
        found[one.name] = reaction, age, at_output
    return found


def named(chains: Mapping[str, Times]) -> dict[str, int]:
    """Times of chains by chain and key; without those that nothing bounds."""
    keyed = ((name, zip(MEASURE_KEYS, one, strict=True)) for name, one in chains.items())
    times = ((f"{name}: {key}", time) for name, one in keyed for key, time in one)
    return {name: time for name, time in times if time < ENDLESS_NS}
