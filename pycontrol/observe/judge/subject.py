# SPDX-License-Identifier: GPL-2.0
"""The subject of a trace: whether it is of the file's tasks, and whether bounds apply to its run."""

from __future__ import annotations

from analysis.model import Task, Waiting
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces.trace import HOST, Kind, Trace, costs_of, placed_of, traced_times
from gpurt.text import visible
from gpurt.units import exact_ms
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.fit import Code
from pycontrol.observe.judge.seen import commands_of, meaning

#: Objections after which no test's bounds apply to a run.  All other objections are about the policy and the modes.
OF_ANY_TEST = (Code.CPUS, Code.FIFO, Code.SHAPES, Code.PARTITIONS)


def of_another_taskset(recorded: Trace, file: TasksetFile) -> str:
    """Why the trace is not of this taskset; empty if nothing shows that.

    Traces of `gpurt run` and `gpurt simulate` have every task's deadline and priority.  Traces of `gpurt trace record`
    have neither, and only know processes.
    """
    known = {name: about for name, about in recorded.tasks.items() if about.deadline is not None}
    tasks, simulated = {task.name: task for task in file.taskset}, recorded.meta.get("clock") == "virtual"
    for name in known:
        if name not in tasks:
            return f"it has task {visible(name)}, which the file lacks"
    for name, task in tasks.items() if known or simulated else ():
        if name not in known:
            return f"it lacks the file's task {visible(name)}"
        there = known[name]
        if there.deadline != task.deadline:
            was, now = exact_ms(there.deadline or 0), exact_ms(task.deadline)
            return f"{visible(name)} has a deadline of {was} there, and of {now} in the file"
        if there.priority is not None and there.priority != task.priority:
            return f"{visible(name)} has priority {there.priority} there, and {task.priority} in the file"
    run = known and HOST in recorded.meta  # else nothing is known of its host, which is an objection
    facts = {"policy", "waiting", "times", "placed"} if run or simulated else set()
    facts |= {"costs"} if simulated else {"scheduling", "placement"} if run else set()
    if lacking := sorted(facts - recorded.meta.keys()):
        return f"it does not say {lacking[0]}"
    if (times := recorded.meta.get("times")) is not None and times != traced_times(_made_up(recorded, file)):
        return "its tasks have other periods or worst-case times than the file's, by which they executed"
    if (placed := recorded.meta.get("placed")) is not None and placed != placed_of(file.taskset):
        return (
            "its tasks have other CPUs, GPU priorities, partitions or waiting modes than the file's, or have other "
            "processes, workers, resources or releases"
        )
    costs = None if file.lacks else recorded.meta.get("costs")  # the file states no costs
    if costs is not None and costs != costs_of(file.taskset):
        return "it was simulated with other updates, switches, wake-ups, slices or chunks of copies than the file's"
    return ""


def _made_up(recorded: Trace, file: TasksetFile) -> list[Task]:
    """The file's tasks that have no program: such a run executes them for as long as the file says."""
    simulated = recorded.meta.get("source") == "simulator"
    return [task for task in file.taskset if simulated or not file.launch[task.name].command]


def beyond_the_bounds(recorded: Trace, file: TasksetFile, test: Test | None) -> str:
    """Why the test's bounds do not apply to the recorded run; empty if they do."""
    if test is None:
        return "there are no bounds to compare with"
    if (policy := recorded.meta.get("policy")) != test.policy:
        return f"the run was under policy {visible(policy or 'unknown')}, the bounds are for policy {test.policy}"
    found = fit.objections(file, fit.of_trace(recorded, file))
    if why := fit.against(one for one in found if one.code in OF_ANY_TEST):
        return why
    waiting = recorded.meta.get("waiting")
    modes = [mode.value for mode in Waiting]
    users = [task for task in file.taskset.real_time if task.uses_gpu]
    if waiting in modes and any((test.waiting or task.waiting).value != waiting for task in users):
        return f"in the run every task waited in mode {waiting}, which is not what the bounds are for"
    if waiting not in modes and test.waiting and any(task.waiting is not test.waiting for task in users):
        return f"the bounds are for tasks that all wait in mode {test.waiting.value}, and the run's did not"
    return ""


def lost(recorded: Trace, file: TasksetFile) -> int:
    """How many times events were lost during the recording, except losses of one client that is no task."""
    lost = [event.task for event in recorded.events if event.kind is Kind.LOST]
    command_of = commands_of(recorded)
    return sum(not task or meaning(file, task, command_of) is not None for task in lost)
