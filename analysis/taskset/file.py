# SPDX-License-Identifier: GPL-2.0
"""The taskset file: the one description of a system that every command reads (TOML).

``load`` reports every mistake at once, each with its line.  The tables that validate files (fields.py) also generate
docs/taskset.schema.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from analysis.model import (
    DEFAULT_POLICY,
    POLICIES,
    Intensity,
    Partition,
    Platform,
    Task,
    Taskset,
    Waiting,
)
from analysis.model.callbacks import Callback
from analysis.model.platform import ISOLATED, TURNS, Yield
from analysis.taskset import chains, clocks, forks, resources, schema, threads
from analysis.taskset import partitions as partitions_of_file
from analysis.taskset.assumed import assumed
from analysis.taskset.clocks import Clocks
from analysis.taskset.fields import CHAIN, PLATFORM, RESOURCE, SHARED_PARTITION, THREAD
from analysis.taskset.lines import Path as Where
from analysis.taskset.mechanisms import unchecked
from analysis.taskset.profiles import Profiles
from analysis.taskset.schema import Field, Mistakes
from analysis.taskset.segments import check_segments, segments_of, uses_gpu
from analysis.taskset.text import document_of, read_text
from gpurt._gpurt import lib
from gpurt.enums import Form
from gpurt.errors import Problem, TasksetError
from gpurt.types import Document

#: The tables of a file.
TABLES = ("platform", "task", "thread", "partition", "chain", "resource", "gpu", "profile")
#: The fields that a table may have, where they depend on the table.
Fields: TypeAlias = Callable[[Document], dict[str, Field]]


@dataclass(frozen=True)
class Launch:
    """How a task is started: its command, its cgroup, and the group with which it owns the GPU."""

    command: tuple[str, ...] | None = None
    cgroup: str | None = None
    group: str | None = None


#: The most tasks that the message for one mistake names.
MOST_NAMED = 8


@dataclass(frozen=True)
class TasksetFile:
    """A taskset file without mistakes.

    ``launch``: by task name.  ``notes``: remarks for the user.  ``lacks``: facts that bounds need and the file lacks.
    ``unmodelled``: features of the file that no bound or simulation here supports.  Commands that print bounds refuse
    both.
    ``theta_stated``: whether the file states the cost of a context switch, by itself or as a part of epsilon.
    ``clocks``: by task, the clocks during the measurement of its times, if the file states them.
    ``workers``: problems for commands that support neither tasks with workers nor begin by yield.
    """

    path: Path
    taskset: Taskset
    launch: dict[str, Launch] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lacks: tuple[Problem, ...] = ()
    unmodelled: tuple[Problem, ...] = ()
    theta_stated: bool = False
    clocks: Mapping[str, Clocks] = field(default_factory=dict)
    workers: tuple[Problem, ...] = ()

    @cached_property
    def groups(self) -> dict[str, list[Task]]:
        """The tasks of each group, by its name."""
        found: dict[str, list[Task]] = {}
        for task in self.taskset:
            if group := self.launch.get(task.name, Launch()).group:
                found.setdefault(group, []).append(task)
        return found

    @cached_property
    def gpu_priorities(self) -> dict[str, int]:
        """The GPU priority that a host gives each task: in a group, the highest of its members that use the GPU."""
        levels = {task.name: task.segment_priority for task in self.taskset}
        for members in self.groups.values():
            highest = max((task.segment_priority for task in members if task.uses_gpu), default=0)
            levels |= {task.name: highest for task in members}
        return levels


def load(path: Path | str) -> TasksetFile:
    """Reads and checks a file.  Raises TasksetError with every mistake, FileError if it cannot be read."""
    path = Path(path)
    return parse(path, read_text(path))


def parse(path: Path, text: str) -> TasksetFile:
    """The file of that name with that text.  Raises TasksetError with every mistake."""
    tables, report = document_of(path, text)
    return from_document(path, tables, report)


def from_document(path: Path, tables: Document, report: Mistakes) -> TasksetFile:
    """The file with these tables, which another reader may have changed.  Raises TasksetError with every mistake."""
    taskset, launch, spatial = _interpret(path, tables, report)
    at_clocks = clocks.of_tasks(tables, taskset, report) if taskset and not report.problems else {}
    if report.problems or taskset is None:
        raise TasksetError(path, report.problems)
    taskset = replace(taskset, assumed=tuple(assumed(tables, taskset)))
    lacks = _lacks(tables["platform"], taskset, report)
    unmodelled = (*_grouped(tables, taskset, report), *spatial)
    stated = taskset.platform.theta_known and not tables["platform"].keys().isdisjoint(("epsilon", "theta"))
    workers = _workers(tables, taskset, report)
    return TasksetFile(path, taskset, launch, _notes(taskset), lacks, unmodelled, stated, at_clocks, workers)


def _interpret(
    path: Path, document: Document, report: Mistakes
) -> tuple[Taskset | None, dict[str, Launch], tuple[Problem, ...]]:
    for key, value in document.items():
        if key not in TABLES:
            inside = value if isinstance(value, list) else [value]
            kind = "table" if any(isinstance(one, dict) for one in inside) else "key"
            known = ", ".join(["[platform]", *(f"[[{name}]]" for name in TABLES[1:-1])]) + f" and [[{TABLES[-1]}]]"
            cure = schema.foreign(key, value, TABLES) or f"; a taskset file has {known}"
            report.add((key,), f"unknown {kind} {schema.quoted(key)}{cure}")
    if "platform" not in document:
        report.add((), "[platform] is missing: the machine that the tasks run on")
    document = chains.with_least_times(forks.spelt_out(document, report))
    profiles = Profiles(path, document, report)
    machine: object = {"cpus": schema.MAX_CPUS, "compute_units": schema.MAX_UNITS}
    if "platform" in document:
        machine = profiles.with_units(document["platform"])
    platform = _platform(machine, report)
    partitions: dict[str, Partition] = {}
    for index, values, before in _tables(document, "partition", SHARED_PARTITION, report):
        partitions_of_file.check_units(values, platform, ("partition", index), report)
        partitions_of_file.check_costs(values, ("partition", index), report)
        if len(report.problems) == before:
            partitions[values["name"]] = partitions_of_file.made_partitions(values)
    served: dict[str, Document] = {}
    for index, values, before in _tables(document, "thread", THREAD, report):
        _check_place(values, platform, ("thread", index), report)
        if len(report.problems) == before:
            served[values["name"]] = values
    threads.check_threads(document, report)
    tasks, launch, names = [], {}, _names(document.get("partition"))
    forking: list[tuple[int, Document, int]] = []
    for index, own, before in _tables(document, "task", threads.fields_of, report):
        values = threads.with_thread(own, served)
        _cross_check(values, platform, names, ("task", index), report)
        profiles.check(values, ("task", index))
        if len(report.problems) == before and values.keys() >= {"cpu", "priority"}:
            values = {**values, "segments": profiles.spelt_out(values)}
            units = platform.compute_units if platform else 1
            tasks.append(_task(values, units, partitions, served))
            if (before_workers := forks.before(values["segments"])) is not None:
                forking.append((index, values, len(segments_of(before_workers, units))))
            launch[values["name"]] = _launch(values)
    found = _tables(document, "chain", CHAIN, report)
    rows = [(at, values) for at, values, before in found if len(report.problems) == before]
    found = _tables(document, "resource", RESOURCE, report)
    held = [(at, values) for at, values, before in found if len(report.problems) == before]
    if platform is None or report.problems:
        return None, launch, ()
    forked = forks.read_forks(forking, tasks, report)
    taskset = Taskset(
        platform, forks.joined(tasks, forked), tuple(partitions.values()), chains.read_chains(rows, tasks, report),
        resources.read_resources(held, tasks, report), forked,
    )  # fmt: skip
    partitions_of_file.check_partitions(taskset, report)
    placed = None if report.problems else partitions_of_file.placed_in(taskset, report)
    return placed, launch, profiles.unmodelled()


def _tables(
    document: Document, kind: str, fields: dict[str, Field] | Fields, report: Mistakes
) -> Iterator[tuple[int, Document, int]]:
    """For each table of that kind: its index, its right fields, and the number of problems reported before it."""
    entries = document.get(kind, [])
    if not isinstance(entries, list):
        report.add((kind,), f"write [[{kind}]], with two brackets, for each {kind}")
        return
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        path = (kind, index)
        if not isinstance(entry, dict):
            report.add(path, f"a {kind} is a table; write [[{kind}]]")
            continue
        before = len(report.problems)
        if not isinstance(fields, dict):
            entry = threads.misplaced(entry, path, report)
        values = schema.read_table(entry, fields if isinstance(fields, dict) else fields(entry), path, report)
        name = values.get("name", "")
        if name in seen:
            report.add((*path, "name"), f'name: "{name}" is taken by {kind} {seen[name] + 1} already')
        elif name:
            seen[name] = index
        yield index, values, before


def _platform(value: object, report: Mistakes) -> Platform | None:
    values = schema.table_of_fields(PLATFORM).read(value, ("platform",), report)
    if values is None:
        return None
    epsilon, alpha, theta = (values.get(key) for key in ("epsilon", "alpha", "theta"))
    theta_known = theta is not None or not (epsilon or alpha) or None not in (epsilon, alpha)
    if theta is None:
        theta = epsilon - alpha if epsilon is not None and alpha is not None else 0
    if alpha is None:
        alpha = epsilon - theta if epsilon is not None else 0
    if theta < 0 or alpha < 0:
        report.add(("platform", "epsilon"), "epsilon: is alpha + theta, so it cannot be less than either")
    elif epsilon is not None and alpha + theta != epsilon:
        report.add(("platform", "epsilon"), "epsilon: is not alpha + theta; leave one of the three out")
    if values.get("begin", ISOLATED) != ISOLATED and not POLICIES[values.get("policy", DEFAULT_POLICY)].yields:
        report.add(("platform", "begin"), f'begin: {values["begin"]} goes with policy = "segment" only')
    if "yield" in values and values.get("begin", ISOLATED) == ISOLATED:
        report.add(("platform", "yield"), 'yield: goes with begin = "yield" or "turns"')
    thread_cpu, last = values.get("thread_cpu"), values["cpus"] - 1
    if thread_cpu is not None and thread_cpu > last:
        report.add(("platform", "thread_cpu"), f"thread_cpu: the platform has CPUs 0 to {last}, got {thread_cpu}")
    return Platform(
        values["cpus"], alpha, theta, values.get("time_slice", 1_024_000),
        values.get("copy_engine", True), values.get("compute_units", 0), values.get("policy", DEFAULT_POLICY),
        thread_cpu, theta_known,
        partitions_of_file.partition_sizes(values.get("units"), values.get("compute_units", 0), report),
        values.get("cross_contention", Fraction(1)), values.get("chip"),
        values.get("bus_chunk", 0), stretch=True, region=values.get("region", 0),
        cpu_latency=values.get("cpu_latency", 0), begin=values.get("begin", ISOLATED),
        yields=Yield(**values["yield"]) if "yield" in values else None,
    )  # fmt: skip


def _cross_check(
    values: Document, platform: Platform | None, names: list[str], path: Where, report: Mistakes
) -> None:  # fmt: skip
    """Checks fields against each other, as far as each is right by itself."""
    if "thread" not in values:
        _check_place(values, platform, path, report)
    if "max_period" in values and values.get("releases") == "periodic":
        report.add((*path, "max_period"), 'max_period: releases = "periodic" says already that it is the period')
    elif "period" in values and values.get("max_period", values["period"]) < values["period"]:
        report.add((*path, "max_period"), "max_period: must be at least the period")
    segments = values.get("segments")
    units = platform.compute_units if platform else 1
    check_segments(segments or [], units, values.get("period"), (*path, "segments"), report)
    _check_partition(values.get("partition"), platform, names, (*path, "partition"), report)
    user = segments is None or uses_gpu(values)
    if "gpu_priority" in values and "thread" not in values and (not user or values.get("priority") == 0):
        report.add((*path, "gpu_priority"), "gpu_priority: only a real-time task with a GPU segment has one")
    if "form" in values:
        _check_form(values, user, path, report)


def _check_place(values: Document, platform: Platform | None, path: Where, report: Mistakes) -> None:
    """The CPU of a task or thread is one of the platform's; best effort has no GPU priority."""
    if platform and values.get("cpu", 0) >= platform.cpus:
        last = platform.cpus - 1
        report.add((*path, "cpu"), f"cpu: the platform has CPUs 0 to {last}, got {values['cpu']}")
    if "order" in values and "gpu_priority" in values and values.get("priority") == 0:
        report.add((*path, "gpu_priority"), "gpu_priority: only a real-time thread has one")


def _check_form(values: Document, user: bool, path: Where, report: Mistakes) -> None:
    """A thread of form self must not spin, and form fence is only for threads that spin."""
    waiting = Waiting(values.get("waiting", Waiting.SUSPEND))
    if not user or values.get("priority") == 0:
        report.add((*path, "form"), "form: only a real-time task with a GPU segment has one")
    elif Form.parse(values["form"]) not in waiting.forms:
        right = " or ".join(form.word for form in waiting.forms)
        text = f"form: a task with waiting = {schema.quoted(waiting.value)} has form {right}, not {values['form']}"
        report.add((*path, "form"), text)


def _names(partitions: object) -> list[str]:
    """The names of all [[partition]] tables, including those with mistakes, which are reported elsewhere."""
    entries = [entry for entry in partitions if isinstance(entry, dict)] if isinstance(partitions, list) else []
    return [entry["name"] for entry in entries if isinstance(entry.get("name"), str)]


def _check_partition(
    given: Document | str | None, platform: Platform | None, names: list[str], path: Where, report: Mistakes
) -> None:  # fmt: skip
    """A task is in one of the file's partitions, or has a part of its own in a file without any."""
    if not isinstance(given, str):
        partitions_of_file.check_units(given, platform, path, report)
        return
    if given not in names:
        there = f"there are {', '.join(names)}"[:200] if names else "the file has no [[partition]]"
        report.add(path, f"partition: no [[partition]] is called {schema.quoted(given)}; {there}")


def _task(
    values: Document, units: int, partitions: dict[str, Partition], served: dict[str, Document]
) -> Task:  # fmt: skip
    """``units``: of the platform.  ``partitions`` and ``served`` (the threads): only entries without mistakes.

    A file with mistakes is refused anyway.
    """
    period: int = values["period"]
    given = values.get("partition")
    return Task(
        values["name"], values["cpu"], values["priority"], period, values.get("deadline", period),
        segments_of(values["segments"], units),
        Waiting(values.get("waiting", Waiting.SUSPEND)), values.get("gpu_priority"),
        partitions_of_file.made_partitions(given) if isinstance(given, dict) else partitions.get(given or ""),
        Form(Form.parse(values["form"])) if "form" in values else None,
        Intensity(values["intensity"]) if "intensity" in values else None, values.get("conflict", Fraction(1)),
        threads.thread_of_table(served[values["thread"]]) if values.get("thread") in served else None,
        values.get("rank", 0),
        Callback(values["kind"]) if "kind" in values else None, values.get("jitter", 0),
        values.get("max_period", period if values.get("releases") == "periodic" else None), values.get("process"),
    )  # fmt: skip


def _launch(values: Document) -> Launch:
    return Launch(tuple(values["command"]) if "command" in values else None, values.get("cgroup"), values.get("group"))


def _notes(taskset: Taskset) -> tuple[str, ...]:
    """Remarks for the user.  An overloaded CPU is no mistake: the analyses answer that it is not schedulable."""
    notes = [*_ties(taskset), *unchecked(taskset), *assumptions(taskset)]
    for cpu in sorted({t.cpu for t in taskset}):
        tasks = [t for t in taskset.real_time if t.cpu == cpu]
        load = sum((t.cpu_time + t.misc_time) / t.period for t in tasks)
        if load > 1:
            notes.append(f"CPU {cpu} is loaded to {load:.0%} by CPU execution alone")
    if not taskset.tasks:
        notes.append("there are no tasks")
    return tuple(notes)


def _lacks(platform: Document, taskset: Taskset, report: Mistakes) -> tuple[Problem, ...]:
    """Epsilon, unless no task uses the GPU; alpha alone is not enough.  For begin by yield, also theta and yield.

    Under policies lock-*, best effort updates runlists, too, on CPUs of real-time tasks that use no GPU.
    """
    users = [task for task in taskset.real_time if task.uses_gpu]
    if users and taskset.platform.begin != ISOLATED and (missing := {"theta", "yield"} - platform.keys()):
        why = "is missing, which bounds of begin by yield need"
        return tuple(report.problem(("platform",), f"platform: {key} {why}") for key in sorted(missing))
    known = "epsilon" in platform or {"alpha", "theta"} <= platform.keys()
    if not known and taskset.real_time and any(task.uses_gpu for task in taskset):
        text = 'epsilon is missing: what a runlist update costs; gpurt status latency shows it, and "0ns" says none'
        return (report.problem(("platform",), f"platform: {text}"),)
    return ()


def _grouped(tables: Document, taskset: Taskset, report: Mistakes) -> tuple[Problem, ...]:
    """Groups: the members own the GPU together (docs/readings/groups.md).

    Bounds and simulations support groups of a task and its workers only.
    """
    why = "no bound is known for groups, except of a task and its workers; `gpurt run` has their programs join them"
    members = [
        (kind, at, one) for kind in ("task", "thread") for at, one in enumerate(tables.get(kind, [])) if "group" in one
    ]
    known = {fork.task: fork for fork in taskset.forks}
    homes = {one["group"]: known[one["name"]] for kind, _, one in members if kind == "task" and one["name"] in known}
    return tuple(
        report.problem((kind, at, "group"), f"{kind} {one['name']}: group {one['group']}: {why}")
        for kind, at, one in members
        if kind == "thread" or one["group"] not in homes or one["name"] != homes[one["group"]].task
    )


def _workers(tables: Document, taskset: Taskset, report: Mistakes) -> tuple[Problem, ...]:
    """The tasks with workers, and begin by yield, for commands that support neither."""
    places = {one["name"]: at for at, one in enumerate(tables.get("task", []))}
    why = (
        "no plan is for them, and `gpurt run FILE` starts none (`gpurt run --group` does); analyze, apply, attack, "
        "margins, report, simulate, trace check and watch know them"
    )
    found = [
        report.problem(("task", places[one.task], "segments"), f"task {one.task}: workers: {why}")
        for one in taskset.forks
    ]
    if taskset.platform.begin != ISOLATED:
        why = "no plan and no virtual GPU has it; analyze, attack, margins, report, simulate and trace check know it"
        found.append(report.problem(("platform", "begin"), f"platform: begin by {taskset.platform.begin}: {why}"))
    return tuple(found)


#: The assumption of the bounds for policy timesliced (docs/readings/gcaps.md, "Round robin").
TURNS_ASSUMED = (
    "under policy timesliced every bound assumes that a GPU segment hands over all its GPU work at once; a program "
    "that waits, or launches more, in between needs a GPU segment in the file for each piece"
)


#: The assumption of the bounds for begin by yield (docs/readings/yield.md, "The model").
YIELDS = (
    "segments begin by yield: bounds assume that each process on the GPU has an agent and one group for kernels, none "
    "comes, no agent is late; that priorities are set, or were seen before; that segments of the most urgent task are "
    "kernels of one stream, and begun by its library; and that the host and the agents' threads take no time of the "
    "tasks' CPUs"
)

#: The assumption about m where best-effort processes take turns.
TURNS_COUNTED = (
    "best-effort processes take turns: [platform.yield] has one group for all that do, and one for each that marks its "
    "segments itself or has a group, a budget or an exemption; none of them changes while a real-time task executes"
)


def assumptions(taskset: Taskset) -> Iterator[str]:
    """Assumptions of all bounds, which the user may not have intended."""
    platform = taskset.platform
    for name, producers in taskset.triggers.items():
        if len(producers) > 1:
            yield (
                f"{name} is released once by {' and '.join(producers)}: its job waits for their jobs of its number; "
                "where it has a job for each message, each topic has a task of its own (docs/manual/chains.md)"
            )
    if not any(t.uses_gpu for t in taskset.real_time):
        return
    free = platform.theta_known and platform.theta == 0
    if taskset.partitioned:
        yield (
            "several partitions: where they share CPUs, bounds assume that the task which begins or ends a segment "
            "executes the runlist's update on its own CPU, which hosts with agents, and drivers that sleep, do not do"
        )
    if any(one.raises for one in taskset.rules):
        yield from _boosted(taskset)
    for fork in taskset.forks:
        if fork.hold:
            yield (
                f"{fork.task} holds a segment while its workers execute: bounds assume that each of these threads has "
                "joined their group with GPURT_GROUP_ALL, and that alpha includes raising all of them"
            )
    if any(one.turns for one in taskset.rules):
        yield TURNS_ASSUMED
    if platform.begin != ISOLATED:
        yield YIELDS
    if platform.begin == TURNS:
        yield TURNS_COUNTED
    if platform.epsilon == 0:
        yield "epsilon is 0: every bound assumes that runlist updates cost nothing"
    elif free and ((known := POLICIES[platform.policy]).turns or known.locks):
        yield f"theta is 0: every bound for policy {platform.policy} assumes that context switches cost nothing"


def _boosted(taskset: Taskset) -> Iterator[str]:
    """What `boosted` reads from the file's costs, and what its hosts need of the priorities."""
    if any(t.spins() for t in taskset.real_time):
        if not taskset.platform.theta_known:
            yield "theta is missing in [platform]: it counts as epsilon, the most that it can be"
        yield (
            "tasks wait busily: under policy boosted the bounds are for a host that raises their threads and whose "
            "updates do not sleep, hence not for agents; gpurt apply looks at the host"
        )
    most, above = beyond_normal(taskset, lib.GPURT_NORMAL_DEFAULT)
    if not above:
        return
    started = f" unless started with --normal {most}" if most <= lib.GPURT_NORMAL_MAX else ""
    yield (
        f"under policy boosted hosts order priorities 1 to {lib.GPURT_NORMAL_DEFAULT}{started}, and {above}: "
        "gpurt run and apply refuse that; other numbers in the same order have the same bounds"
    )


def beyond_normal(taskset: Taskset, normal: int) -> tuple[int, str]:
    """The highest priority of all, and the tasks and threads with one above ``normal``, in words; empty if none."""
    levels: dict[str, int] = {}
    for task in taskset.real_time:
        levels[_served_by(task)] = max(task.highest_priority, levels.get(_served_by(task), 0))
    above = sorted(((level, name) for name, level in levels.items() if level > normal), reverse=True)
    named = [f"{name} has {level}" for level, name in above[:MOST_NAMED]]
    more = [f"{len(above) - MOST_NAMED} more"] if len(above) > MOST_NAMED else []
    return max(levels.values(), default=0), " and ".join([*named, *more])


def _ties(taskset: Taskset) -> Iterator[str]:
    """Tasks of equal priority, on a CPU or for the GPU."""
    for cpu in sorted({t.cpu for t in taskset.real_time}):
        yield from _equals(f"on CPU {cpu}", [(t.priority, _served_by(t)) for t in taskset.real_time if t.cpu == cpu])
    users = [t for t in taskset.real_time if t.uses_gpu]
    yield from _equals("for the GPU", [(t.segment_priority, _owner(t, taskset)) for t in users])


def _served_by(task: Task) -> str:
    return f"thread {task.thread.name}" if task.thread else task.name


def _owner(task: Task, taskset: Taskset) -> str:
    fork = taskset.forked.get(task.name)
    return f"the group of {fork.task}" if fork else _served_by(task)


def _equals(where: str, tasks: list[tuple[int, str]]) -> Iterator[str]:
    for level in sorted({level for level, _ in tasks}, reverse=True):
        names = list(dict.fromkeys(name for other, name in tasks if other == level))
        if len(names) > 1:
            yield f"{', '.join(names)} have the same priority {where}, {level}: the one that comes first goes first"
