# SPDX-License-Identifier: GPL-2.0
"""Facts about a failed test: tasks that miss a deadline in a simulated schedule, and commands that would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain

from analysis.answers.choose import passing
from analysis.answers.periods import periods
from analysis.answers.registry import find_test
from analysis.answers.sensitivity import FACTOR_STEPS, Grows, bisected, changed, own_times, slowed
from analysis.answers.verdict import proved
from analysis.chains.bounds import bound_of
from analysis.model import POLICIES, Task, Taskset
from analysis.model.conflicts import under
from analysis.rta import Result, Test
from analysis.rta.regions import switching
from analysis.rta.result import Reason
from analysis.simulation.simulate import Options, SimulationError, default_horizon, worst_over_offsets
from gpurt.units import exact_ms

#: The number of simulated runs, and the most jobs of each.
RUNS, MOST_JOBS = 50, 20_000
#: Large tasksets are simulated in fewer runs: the time for each job grows with the number of tasks.
MAX_STEPS_SIMULATED = 4_000_000
#: The search gives a task a thread of its own only if its thread serves at most this many: each needs two verdicts.
MOST_SERVED = 8


def missed(taskset: Taskset, result: Result) -> list[str]:
    """The tasks without a bound that miss a deadline in a simulated schedule; an empty list proves nothing.

    Partitions with policies of their own are not simulated, and neither are tasksets that would take long.
    """
    policies = {part.policy or taskset.platform.policy for part in taskset.parts} | {*taskset.policies}
    horizon = default_horizon(taskset)
    jobs = sum(horizon // task.period for task in taskset)
    if len(policies) > 1 or any(POLICIES[one].units for one in policies) or jobs > MOST_JOBS:
        return []
    options = Options(taskset.policies[0], job_cpu=taskset.platform.thread_cpu or 0)
    simulated = switching(under(taskset, options.policy, everywhere=True) or taskset)
    try:
        runs = min(RUNS, max(1, MAX_STEPS_SIMULATED // (jobs * len(taskset) + 1)))
        seen = worst_over_offsets(simulated, options, runs).tasks
    except SimulationError:
        return []
    return [one.task for one in result.failures if seen[one.task].misses]


def helps(test: Test, taskset: Taskset, result: Result) -> Iterator[str]:
    """The commands that would help where the test fails, each with its effect or its answer."""
    if not taskset.forks:  # the other commands refuse workers
        if test.assignable and not test.assigns and _assignable(test, taskset):
            yield "gpurt plan priorities --write: GPU priorities are known with which every deadline holds"
            return
        if passing(taskset):
            yield "gpurt plan modes: with other policies or waiting modes every deadline holds"
    if test.rules.units and any(one.reason is Reason.GPU_ORDER for one in result.failures):
        return  # the test refuses the file, whatever its times are
    yield from _apart(test, taskset, result)
    yield from _punctual(test, taskset)
    one = None if taskset.forks else least(test, taskset)
    if one:
        yield (
            f"gpurt margins: {one.task}'s {one.what.words} alone has to shrink to {one.percent} %, from "
            f"{exact_ms(one.now)} to {exact_ms(one.most)}, for every deadline to hold; it has the others"
        )
    elif proved(test, slowed(taskset, Fraction(1, FACTOR_STEPS))):
        yield "gpurt margins: it says how much of which time has to go"
    elif any(one.factor is not None for one in periods(test, taskset)):
        yield "gpurt margins: it says which period has to be another"
    elif result.schedulable:
        yield from _parts(taskset, result)


def _punctual(test: Test, taskset: Taskset) -> Iterator[str]:
    """A task without whose jitter every deadline would hold; else all tasks with jitter, if that holds without any."""
    late = [task.name for task in taskset if task.jitter]
    for names in ([one] for one in late), (late,):
        for gone in names:
            tasks = tuple(replace(task, jitter=0) if task.name in gone else task for task in taskset)
            if gone and proved(test, replace(taskset, tasks=tasks)):
                yield f"less jitter of {', '.join(gone)}: without any every deadline holds"
                return


def _parts(taskset: Taskset, result: Result) -> Iterator[str]:
    """The largest part of the bound of the first chain that exceeds its limit."""
    for found in (bound_of(one, taskset, result) for one in taskset.chains):
        for key in (key for key, one in found.latencies.items() if not one.holds):
            most = max(found.latencies[key].parts, key=lambda part: part.amount)
            what = f"{exact_ms(most.amount)}, {most.task}: {most.lemma.partition(', ')[2]}"
            yield f"a smaller part of {key} (gpurt analyze --explain {found.chain.name}); the largest is {what}"
            return


def _apart(test: Test, taskset: Taskset, result: Result) -> Iterator[str]:
    """A task of a shared thread, if every deadline would hold with a thread of its own.  None if no such task is found.

    If both use the GPU, it needs its own process: threads of one process delay each other there.
    """
    late = {one.task for one in result.failures}
    several = [served for served in taskset.threads.values()
               if len(served) <= MOST_SERVED and late & {task.name for task in served}]  # fmt: skip
    trials = ((task, served, step) for served in several
              for task in sorted(served, key=lambda one: one.name not in late) for step in (1, -1))  # fmt: skip
    for task, served, step in trials:
        if not proved(test, _alone(taskset, task, step)):
            continue
        siblings = [one for one in served if one is not task]
        what = "process" if task.uses_gpu and any(one.uses_gpu for one in siblings) else "thread"
        word = "above" if step > 0 else "below"
        yield (f"a {what} of its own for {task.name}, of a priority {word} that of "
               f"{', '.join(one.name for one in siblings)}: every deadline holds then")  # fmt: skip
        return


def _alone(taskset: Taskset, task: Task, step: int) -> Taskset:
    """The taskset with the task on a thread of its own, at a unique priority one step from the old one."""
    levels = [(2 * one.priority, 2 * one.segment_priority) for one in taskset]
    at = taskset.tasks.index(task)
    levels[at] = levels[at][0] + step, levels[at][1] + step
    places = {level: place for place, level in enumerate(sorted({0, *chain(*levels)}))}
    tasks = [replace(one, priority=places[cpu], gpu_priority=places[gpu])
             for one, (cpu, gpu) in zip(taskset, levels, strict=True)]  # fmt: skip
    tasks[at] = replace(tasks[at], thread=None, rank=0, callback=None)
    return replace(taskset, tasks=tuple(tasks))


def _assignable(test: Test, taskset: Taskset) -> bool:
    """Whether the test passes with some GPU priorities."""
    try:
        found = test.assign(taskset).priorities or {}
    except ValueError:
        return False
    return bool(found) and proved(find_test(test.base), taskset.with_gpu_priorities(found))


#: A taskset with more times than these is not searched: each time needs up to nine verdicts.
MOST_TIMES = 16
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Less:
    """A time of ``now`` ns that has to shrink to ``percent`` of itself, which is ``most`` ns."""

    task: str
    what: Grows
    now: int
    percent: int

    @property
    def most(self) -> int:
        """The time after shrinking, ns."""
        return -(-self.now * self.percent // _WHOLE)


def least(test: Test, taskset: Taskset) -> Less | None:
    """The smallest change, in percent, of a single time with which the test passes.

    None if no single change suffices, or if a few quick verdicts cannot find one.
    """
    times = own_times(taskset)
    if len(times) > MOST_TIMES or test.rules.units:
        return None
    found: Less | None = None
    for name, what, now in times:
        more = found.percent + 1 if found else 0
        percent = bisected(partial(_passes, test, taskset, name, what), more, _WHOLE)
        if percent is not None and percent < _WHOLE:
            found = Less(name, what, now, percent)
    return found


def _passes(test: Test, taskset: Taskset, name: str, what: Grows, percent: int) -> bool:
    return proved(test, changed(taskset, name, what, Fraction(percent, _WHOLE)))
