# SPDX-License-Identifier: GPL-2.0
"""Tasks whose jobs are released by the end of another task's job: their release jitter follows from its response.

Holistic analysis (Tindell and Clark 1994): jitters grow from 0 until no bound grows any more; docs/readings/chains.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from analysis.model import CpuSegment, Segment, Task, Taskset
from analysis.rta.result import Bound, Failure, Reason, Result

#: Rounds over all tasks.  Jitters grow in each round but the last, up to the deadlines.
MAX_JITTER_ROUNDS = 1000


def holistic(taskset: Taskset, run: Callable[[Taskset], Result], name: str) -> Result:
    """The verdicts of ``run`` on the taskset with the jitters that follow from its own bounds."""
    result, jitters = None, dict.fromkeys(taskset.triggers, 0)
    for _ in range(MAX_JITTER_ROUNDS):
        result = run(with_jitters(taskset, jitters))
        if not result.schedulable:
            return _withdrawn(result)
        responses = {n: v.wcrt for n, v in result.verdicts.items() if isinstance(v, Bound)}
        before, jitters = jitters, jitters_of(taskset, responses)
        if jitters == before:
            return result
    assert result is not None
    failures = {t.name: Failure(t.name, Reason.TOO_MANY_STEPS, t.deadline) for t in taskset.real_time}
    return Result(name, {**result.verdicts, **failures})


def _withdrawn(result: Result) -> Result:
    """Withdraws all bounds if one task has none: jitters that follow from it are unknown, and others may still grow."""
    cause = next(iter(result.causes or result.failures)).task
    verdicts = {
        name: Failure(name, Reason.DEPENDS_ON, one.deadline, culprit=cause) if isinstance(one, Bound) else one
        for name, one in result.verdicts.items()
    }
    return replace(result, verdicts=verdicts)


def windows(taskset: Taskset, responses: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """By task: the earliest and the latest release of a job, counted from its arrival, ns.

    A job that others release arrives with the job that begins their sequence, or with the last of several such jobs.
    If a response is unknown, the deadline stands for it.
    """
    tasks = {task.name: task for task in taskset}
    found = {name: (0, task.jitter) for name, task in tasks.items() if name not in taskset.triggers}

    def window(name: str) -> tuple[int, int]:
        if name not in found:
            ends = [ended(tasks[producer]) for producer in taskset.triggers[name]]
            found[name] = max(first for first, _ in ends), max(last for _, last in ends)
        return found[name]

    def ended(producer: Task) -> tuple[int, int]:
        first, last = window(producer.name)
        least = shortest(producer)
        return first + least, last + max(responses.get(producer.name, producer.deadline), least)

    return {name: window(name) for name in tasks}


def jitters_of(taskset: Taskset, responses: Mapping[str, int]) -> dict[str, int]:
    """J of each triggered task, ns: the width of its window."""
    found = windows(taskset, responses) if taskset.triggers else {}
    return {name: found[name][1] - found[name][0] for name in taskset.triggers}


def root_of(taskset: Taskset, name: str) -> Task:
    """The first task of the sequence that releases a task; the task itself if it has releases of its own."""
    while name in taskset.triggers:
        name = taskset.triggers[name][0]
    return next(task for task in taskset if task.name == name)


def with_jitters(taskset: Taskset, jitters: Mapping[str, int]) -> Taskset:
    """The taskset with these release jitters, and without triggers.

    A producer's job takes at least its shortest time, so the ends of two jobs are at least that far apart.
    """
    least = {task.name: shortest(task) for task in taskset}
    apart = {name: min(least[one] for one in producers) for name, producers in taskset.triggers.items()}
    tasks = tuple(
        replace(t, jitter=jitters.get(t.name, t.jitter), apart=apart.get(t.name, t.apart)) for t in taskset
    )  # fmt: skip
    return replace(taskset, tasks=tasks, chains=tuple(replace(chain, triggered=()) for chain in taskset.chains))


def shortest(task: Task) -> int:
    """B: the shortest time of a job, ns."""
    return sum(_best(segment) for segment in task.segments)


def _best(segment: Segment) -> int:
    return segment.time.best if isinstance(segment, CpuSegment) else segment.misc.best + segment.pure.best
