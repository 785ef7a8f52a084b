# SPDX-License-Identifier: GPL-2.0
"""Random tasksets with what only some tests bound: threads, pending jobs, wake-ups, workers, chains, begin by yield."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attack_search import random_system
from random_tasksets import DRAWN_PERIODS

from analysis.model import MS, US, Chain, CpuSegment, Fork, GpuSegment, Span, Task, Taskset
from analysis.model.callbacks import Callback, Order, Thread
from analysis.model.platform import TURNS, YIELD, Yield
from analysis.model.relations import beginnings
from analysis.rta import Test

#: Kinds of tasksets, and the field of a test that has bounds of each; empty: all have.
KINDS = {
    "threads": "threads", "pending": "pending", "latency": "latency", "workers": "paths", "yields": "yields",
    "turns": "yields", "chains": "",
}  # fmt: skip
#: Chains of a taskset, at most.
MAX_CHAINS = 3


@dataclass(frozen=True)
class Drawing:
    """Draws a taskset for a test, with all of these KINDS that it bounds; other processes can be sent this."""

    kinds: tuple[str, ...]

    def __call__(self, test: Test, rng: random.Random) -> Taskset:
        taskset = random_system(test, rng)
        able = {kind for kind in self.kinds if not KINDS[kind] or getattr(test, KINDS[kind])}
        if able & {"yields", "turns"}:
            taskset = with_random_yield(taskset, rng)
        if "turns" in able:
            taskset = in_turns(taskset, rng)
        if "threads" in able:
            taskset = with_random_threads(taskset, rng)
        if "pending" in able:
            taskset = with_random_pending(taskset, rng)
        if "latency" in able:
            taskset = with_latency(taskset, rng.choice([10, 50, 200]) * US)
        if "workers" in able:
            taskset = with_random_workers(taskset, rng)
            taskset = held_by_workers(taskset) if test.rules.raises and rng.random() < 0.5 else taskset
        if "chains" in able:
            taskset = with_random_chains(taskset, rng, triggers=test.pending)
        return taskset


def with_random_yield(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset where segments begin by yield, beside up to three processes that keep the GPU busy.

    In half of them one real-time task uses the GPU.  In some k is not known, in some orders take as long as if agents
    were late, in some they are nearly free.
    """
    only = rng.choice([*taskset.real_time, None]) if rng.random() < 0.7 else None
    own = tuple(_in_gaps(t, rng) if only in (None, t) or t.best_effort else _on_cpu(t) for t in taskset)
    tasks = (*own, *(_busy(f"b{i}", taskset.platform.cpus, rng) for i in range(rng.choice([0, 1, 1, 2, 3]))))
    groups = sum(t.best_effort and t.uses_gpu for t in tasks)
    theta, slice_ = (_ns(rng.choice(some)) for some in ([0, 0.05, 0.25], [0.002, 0.1, 0.5, 1]))
    alpha = theta + _ns(rng.choice([0, 0.05, 0.2, 1, 2, 30]) * rng.choice([0.2, 1]))
    found = Yield(slice_, groups, _ns(rng.choice([0, 0.02, 0.1, 0.5])), 0)
    platform = replace(taskset.platform, alpha=alpha, theta=theta, begin=YIELD, yields=found, policy="segment")
    return replace(taskset, platform=platform, tasks=tasks)


def in_turns(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset, whose segments begin by yield, where some best-effort processes take turns, or all."""
    values = taskset.platform.yields
    assert values is not None
    values = replace(values, groups=rng.randint(min(values.groups, 1), values.groups))
    return replace(taskset, platform=replace(taskset.platform, begin=TURNS, yields=values))


def _busy(name: str, cpus: int, rng: random.Random) -> Task:
    """Best effort that has work for the GPU nearly always."""
    period = rng.choice(DRAWN_PERIODS) * MS
    worst = int(period * rng.uniform(0.05, 1.2))
    work = GpuSegment(Span.exactly(0), Span(worst, worst // 2), ready=rng.choice([1, 3]))
    return Task(name, rng.randrange(cpus), 0, period, period, (work,))


def _in_gaps(task: Task, rng: random.Random) -> Task:
    """The task with segments that become ready several times, or nobody knows how often."""
    segments = (replace(s, ready=rng.choice([None, 1, 1, 2, 3, 5])) if isinstance(s, GpuSegment) else s
                for s in task.segments)  # fmt: skip
    return replace(task, segments=tuple(segments))


def _on_cpu(task: Task) -> Task:
    """The task without what it does on the GPU."""
    return replace(task, segments=tuple(CpuSegment(s.misc) if isinstance(s, GpuSegment) else s for s in task.segments))


def with_random_threads(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with up to two threads in a random order, each of which serves up to four of its real-time tasks."""
    tasks = list(taskset)
    left = [t.name for t in taskset.real_time]
    rng.shuffle(left)
    for number in range(rng.choice([1, 1, 2])):
        names, left = left[: rng.randint(2, 4)], left[4:]
        tasks = _served(tasks, names, Thread(f"thread{number}", rng.choice(list(Order))), rng)
    return replace(taskset, tasks=tuple(tasks))


def _served(tasks: list[Task], names: list[str], thread: Thread, rng: random.Random) -> list[Task]:
    """The named tasks on one thread, which has the CPU and the priorities of the first."""
    first = next((t for t in tasks if t.name in names), None)
    timers = rng.randint(0, len(names))
    made = []
    for task in tasks:
        if task.name not in names or first is None:
            made.append(task)
            continue
        rank = names.index(task.name)
        timer = rank < timers if thread.order is Order.LIVE_TIMERS else rng.random() < 0.5
        made.append(replace(
            task, cpu=first.cpu, priority=first.priority, gpu_priority=first.gpu_priority, partition=first.partition,
            thread=thread, rank=rank, callback=Callback.TIMER if timer else Callback.SUBSCRIPTION,
        ))  # fmt: skip
    return made


def with_random_pending(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with release jitter and deadlines beyond the period for some of its tasks, in whole ms."""
    return replace(taskset, tasks=tuple(_pending(task, rng) for task in taskset))


def with_latency(taskset: Taskset, latency: int) -> Taskset:
    """The taskset on a platform whose wake-ups take up to ``latency`` ns."""
    return replace(taskset, platform=replace(taskset.platform, cpu_latency=latency))


def _pending(task: Task, rng: random.Random) -> Task:
    if rng.random() < 0.35:
        return task
    period = task.period // MS
    most = rng.choice([0, period // 3, period // 2, period, 2 * period])
    deadline = task.deadline if rng.random() < 0.3 else rng.choice([2, 3, 4]) * task.period
    return replace(task, jitter=rng.randint(0, most) * MS, deadline=deadline)


def with_random_workers(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset, one or two of whose real-time tasks have others as workers, all of them with its period."""
    left = [t.name for t in taskset.real_time]
    rng.shuffle(left)
    forks, made = [], {t.name: t for t in taskset}
    for _ in range(rng.choice([1, 1, 2])):
        names, left = left[: rng.randint(2, 4)], left[4:]
        if len(names) < 2:
            break
        parent = made[names[0]]
        after = rng.randint(0, len(parent.segments))
        forks.append(Fork(parent.name, after, tuple(names[1:])))
        for name in names:
            made[name] = replace(
                made[name], period=parent.period, deadline=parent.deadline, gpu_priority=parent.segment_priority
            )
    return replace(taskset, tasks=tuple(made[t.name] for t in taskset), forks=tuple(forks))


def held_by_workers(taskset: Taskset) -> Taskset:
    """The taskset in which each task with workers is inside a segment while these execute."""
    at = {fork.task: fork.after for fork in taskset.forks}
    whole = GpuSegment(Span(0, 0), Span(0, 0))
    tasks = tuple(
        replace(t, segments=(*t.segments[: at[t.name]], whole, *t.segments[at[t.name] :])) if t.name in at else t
        for t in taskset
    )
    return replace(taskset, tasks=tasks, forks=tuple(replace(fork, hold=True) for fork in taskset.forks))


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


def _ns(ms: float) -> int:
    return round(ms * MS)
