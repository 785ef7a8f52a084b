# SPDX-License-Identifier: GPL-2.0
"""Tasks that the end of another task's job releases: their release jitter follows from that task's response.

Holistic analysis (Tindell and Clark 1994): jitters grow from 0 until no bound grows any more.  docs/readings/chains.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from analysis.model import CpuSegment, Segment, Task, Taskset
from analysis.rta.result import Bound, Failure, Reason, Result

#: Rounds of all tasks.  Jitters grow in each but the last, up to the deadlines.
MOST_ROUNDS = 1000


def holistic(taskset: Taskset, run: Callable[[Taskset], Result], name: str) -> Result:
    """The verdicts of ``run`` on the taskset with the jitters that follow from its own bounds."""
    result, jitters = None, dict.fromkeys(taskset.triggers, 0)
    for _ in range(MOST_ROUNDS):
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
    """No bound where one task has none: jitters that follow from it are unknown, and others may still have grown."""
    cause = next(iter(result.causes or result.failures)).task
    verdicts = {
        name: Failure(name, Reason.DEPENDS_ON, one.deadline, culprit=cause) if isinstance(one, Bound) else one
        for name, one in result.verdicts.items()
    }
    return replace(result, verdicts=verdicts)


def jitters_of(taskset: Taskset, responses: Mapping[str, int]) -> dict[str, int]:
    """J of each triggered task: that of its producer, and by how much the producer's jobs differ in length, ns.

    A task without a response has its deadline.
    """
    tasks = {task.name: task for task in taskset}
    found: dict[str, int] = {}

    def jitter(name: str) -> int:
        if name not in taskset.triggers:
            return tasks[name].jitter
        if name not in found:
            producer = tasks[taskset.triggers[name]]
            response = responses.get(producer.name, producer.deadline)
            found[name] = jitter(producer.name) + max(response - shortest(producer), 0)
        return found[name]

    return {name: jitter(name) for name in taskset.triggers}


def with_jitters(taskset: Taskset, jitters: Mapping[str, int]) -> Taskset:
    """The taskset with these release jitters, and with no task that another one releases."""
    tasks = tuple(replace(t, jitter=jitters.get(t.name, t.jitter)) for t in taskset)
    return replace(taskset, tasks=tasks, chains=tuple(replace(chain, triggered=()) for chain in taskset.chains))


def shortest(task: Task) -> int:
    """B: how long a job takes at least, ns."""
    return sum(_best(segment) for segment in task.segments)


def _best(segment: Segment) -> int:
    return segment.time.best if isinstance(segment, CpuSegment) else segment.misc.best + segment.pure.best
