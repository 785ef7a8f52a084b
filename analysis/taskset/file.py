# SPDX-License-Identifier: GPL-2.0
"""The taskset file: the one description of a system that every command reads (TOML).

``load`` reports every mistake at once, each with its line.  docs/taskset.schema.json is generated from the same
tables that validate (``json_schema``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.model import (
    DEFAULT_POLICY,
    FORMS,
    CpuSegment,
    GpuSegment,
    Partition,
    Platform,
    Segment,
    Task,
    Taskset,
    Waiting,
)
from analysis.taskset import schema
from analysis.taskset.lines import Path as Where
from analysis.taskset.lines import line_of, lines_of
from analysis.taskset.schema import Field, Report
from gpurt import files
from gpurt._gpurt import lib
from gpurt.enums import Form, Policy
from gpurt.errors import Problem, TasksetError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Launch:
    """How a task is started: its command, and the cgroup that it runs in."""

    command: tuple[str, ...] | None = None
    cgroup: str | None = None


@dataclass(frozen=True)
class TasksetFile:
    """A taskset file without mistakes.

    ``launch``: by task name.  ``notes`` are remarks for the user.  ``lacks``: what bounds need and the file lacks.
    """

    path: Path
    taskset: Taskset
    launch: dict[str, Launch] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lacks: tuple[Problem, ...] = ()


PLATFORM = {
    "cpus": Field(schema.integer(1, schema.MAX_CPUS), "number of CPUs", required=True),
    "epsilon": Field(schema.time(), "runlist update cost, alpha + theta"),
    "alpha": Field(schema.time(), "the part of epsilon that is not the context switch"),
    "theta": Field(schema.time(), "GPU context switch cost"),
    "time_slice": Field(schema.time(1), "time slice L of the default driver; 1024us unless given"),
    "copy_engine": Field(schema.boolean(), "whether copies run beside kernels; true unless given"),
    "compute_units": Field(schema.integer(0, 4096), "SMs or CUs of the GPU"),
    "policy": Field(schema.choice(*Policy.words()), f"how the GPU is scheduled; {DEFAULT_POLICY} unless given"),
    "thread_cpu": Field(
        schema.integer(0, schema.MAX_CPUS - 1),
        "policy job: the CPU on which the host's thread stays, as gpurt.ko's parameter says; any unless given",
    ),
}
SEGMENT = {
    "cpu": Field(schema.span(), "a CPU segment"),
    "misc": Field(schema.span(), "G^m, the CPU work of a GPU segment"),
    "gpu": Field(schema.span(), "G^e, the pure GPU work of a GPU segment"),
}
PARTITION = {
    "compute_units": Field(schema.integer(1, 4096), "how many SMs or CUs the task may use"),
    "cu_mask": Field(
        schema.string("^0x[0-9a-fA-F]{1,256}$", 'a mask such as "0xff"'),
        "which CUs the task may use",
    ),
}
_ANY_STRING = schema.string("^[^\\u0000]*$", "a string without NUL")
TASK = {
    "name": Field(
        schema.string(
            "^[A-Za-z0-9_.-]{1,64}$",
            "up to 64 letters, digits, '.', '_' and '-'",
        ),
        "the task's name, used once",
        required=True,
    ),
    "cpu": Field(schema.integer(0, schema.MAX_CPUS - 1), "the CPU it is pinned to, from 0", required=True),
    "priority": Field(
        schema.integer(0, schema.MAX_PRIORITY), "SCHED_FIFO priority 1..99, 0 for best effort", required=True
    ),
    "gpu_priority": Field(
        schema.integer(1, schema.MAX_PRIORITY), "priority of its GPU segments; its own unless given"
    ),
    "period": Field(schema.time(1), "minimum time between releases", required=True),
    "deadline": Field(schema.time(1), "relative deadline; the period unless given"),
    "waiting": Field(schema.choice("busy", "suspend"), "what it does during G^e; suspend unless given"),
    "form": Field(
        schema.choice(*Form.words()),
        "when policy boosted raises its thread; self unless given if it suspends, owner if it waits busily",
    ),
    "segments": Field(
        schema.array(schema.table(SEGMENT), "an array of segments"), "its segments in order", required=True
    ),
    "command": Field(schema.array(_ANY_STRING, "an array of strings"), "the program and its arguments"),
    "cgroup": Field(
        schema.string("^(?!.*/[.][.](/|$))/[^\\u0000]*$", "a cgroup path from / without .."),
        "cgroup v2 path to run in",
    ),
    "partition": Field(schema.table(PARTITION), "its part of the GPU"),
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a taskset file."""
    root = schema.table_schema(
        {"platform": Field(schema.table(PLATFORM), "the machine", required=True)}
    )
    root["properties"]["task"] = {"type": "array", "items": schema.table_schema(TASK), "description": "the tasks"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpurt taskset",
        **root,
    }


def load(path: Path | str) -> TasksetFile:
    """Reads and checks a file.  Raises TasksetError with every mistake, FileError if it cannot be read."""
    path = Path(path)
    document, report = parse(path)
    taskset, launch = _interpret(document, report)
    if report.problems or taskset is None:
        raise TasksetError(path, report.problems)
    return TasksetFile(path, taskset, launch, _notes(taskset), _lacks(document["platform"], taskset, report))


def parse(path: Path) -> tuple[dict[str, Any], Report]:
    """A file's document, and a report that knows its lines.  Raises FileError, and TasksetError if it is not TOML."""
    text = read(path)
    try:
        return tomllib.loads(text), Report(lines_of(text))
    except tomllib.TOMLDecodeError as error:
        raise TasksetError(path, [_syntax_problem(error, text)]) from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise TasksetError(path, [Problem(1, "an integer is far too large")]) from None
    except RecursionError:
        raise TasksetError(path, [Problem(1, "nested too deeply")]) from None


def read(path: Path) -> str:
    """A file's text.  Raises FileError if it cannot be read, and TasksetError if it is not UTF-8 or empty."""
    raw = files.read(path, MAX_BYTES, "a taskset file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(line, f"byte {error.start} is not UTF-8; a taskset file is UTF-8 text")
        raise TasksetError(path, [problem]) from None
    if not text.strip():
        raise TasksetError(path, [Problem(1, "the file is empty; see examples/minimal.toml for one to start from")])
    return text


def _syntax_problem(error: Exception, text: str) -> Problem:
    """The parser's complaint, with the line that its text names."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
    message = str(error)[: found.start()] if found else str(error)
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    return Problem(line, f"not TOML: {message[:200]}")


def _interpret(document: dict[str, Any], report: Report) -> tuple[Taskset | None, dict[str, Launch]]:
    for key, value in document.items():
        if key not in ("platform", "task"):
            inside = value if isinstance(value, list) else [value]
            kind = "table" if any(isinstance(one, dict) for one in inside) else "key"
            report.add((key,), f"unknown {kind} {schema.quoted(key)}; a taskset file has [platform] and [[task]]")
    if "platform" not in document:
        report.add((), "[platform] is missing: the machine that the tasks run on")
    platform = _platform(document.get("platform", {"cpus": schema.MAX_CPUS}), report)
    entries = document.get("task", [])
    if not isinstance(entries, list):
        report.add(("task",), "write [[task]], with two brackets, for each task")
        entries = []
    tasks, launch = [], {}
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        path = ("task", index)
        if not isinstance(entry, dict):
            report.add(path, "a task is a table; write [[task]]")
            continue
        before = len(report.problems)
        values = schema.read_table(entry, TASK, path, report)
        name = values.get("name", "")
        if name in seen:
            report.add((*path, "name"), f'name: "{name}" is taken by task {seen[name] + 1} already')
        elif name:
            seen[name] = index
        _cross_check(values, platform, path, report)
        if len(report.problems) == before:
            tasks.append(_task(values))
            launch[name] = _launch(values)
    return (Taskset(platform, tuple(tasks)) if platform else None), launch


def _platform(value: object, report: Report) -> Platform | None:
    values = schema.table(PLATFORM).read(value, ("platform",), report)
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
    thread_cpu, last = values.get("thread_cpu"), values["cpus"] - 1
    if thread_cpu is not None and thread_cpu > last:
        report.add(("platform", "thread_cpu"), f"thread_cpu: the platform has CPUs 0 to {last}, got {thread_cpu}")
    return Platform(
        values["cpus"], alpha, theta, values.get("time_slice", 1_024_000),
        values.get("copy_engine", True), values.get("compute_units", 0), values.get("policy", DEFAULT_POLICY),
        thread_cpu, theta_known,
    )  # fmt: skip


def _cross_check(values: dict[str, Any], platform: Platform | None, path: Where, report: Report) -> None:
    """Checks fields against each other, as far as they are right by themselves."""
    if platform and values.get("cpu", 0) >= platform.cpus:
        last = platform.cpus - 1
        report.add((*path, "cpu"), f"cpu: the platform has CPUs 0 to {last}, got {values['cpu']}")
    if "period" in values and values.get("deadline", 0) > values["period"]:
        report.add((*path, "deadline"), "deadline: must be at most the period")
    segments = values.get("segments")
    for index, segment in enumerate(segments or []):
        if set(segment) not in ({"cpu"}, {"misc", "gpu"}):
            where = (*path, "segments", index)
            report.add(where, 'a segment is { cpu = "..." } or { misc = "...", gpu = "..." }')
    _check_partition(values.get("partition"), platform, (*path, "partition"), report)
    uses_gpu = segments is None or any("gpu" in segment for segment in segments)
    if "gpu_priority" in values and (not uses_gpu or values.get("priority") == 0):
        report.add((*path, "gpu_priority"), "gpu_priority: only a real-time task with a GPU segment has one")
    if "form" in values:
        _check_form(values, uses_gpu, path, report)


def _check_form(values: dict[str, Any], uses_gpu: bool, path: Where, report: Report) -> None:
    """A thread of form self must not spin, and form fence says what happens while it spins."""
    waiting = Waiting(values.get("waiting", "suspend"))
    if not uses_gpu or values.get("priority") == 0:
        report.add((*path, "form"), "form: only a real-time task with a GPU segment has one")
    elif Form.parse(values["form"]) not in FORMS[waiting]:
        right = " or ".join(form.word for form in FORMS[waiting])
        text = f"form: a task with waiting = {schema.quoted(waiting.value)} has form {right}, not {values['form']}"
        report.add((*path, "form"), text)


def _check_partition(values: dict[str, Any] | None, platform: Platform | None, path: Where, report: Report) -> None:
    """A part of the GPU has a CU, has only CUs that the GPU has, and no more than its mask has."""
    if values is None:
        return
    units, mask = values.get("compute_units"), int(values.get("cu_mask", "0x1"), 16)
    there = platform.compute_units if platform else 0
    if not mask:
        report.add((*path, "cu_mask"), "cu_mask: names no CU")
    elif there and mask >> there:
        report.add((*path, "cu_mask"), f"cu_mask: the platform has CUs 0 to {there - 1}")
    if there and (units or 0) > there:
        report.add((*path, "compute_units"), f"compute_units: the platform has {there}, got {units}")
    if "cu_mask" in values and 0 < mask.bit_count() < (units or 0):
        report.add((*path, "cu_mask"), f"cu_mask: has {mask.bit_count()} CUs, compute_units says {units}")


def _task(values: dict[str, Any]) -> Task:
    segments: list[Segment] = [
        CpuSegment(one["cpu"]) if "cpu" in one else GpuSegment(one["misc"], one["gpu"]) for one in values["segments"]
    ]
    period = values["period"]
    return Task(
        values["name"], values["cpu"], values["priority"], period, values.get("deadline", period), tuple(segments),
        Waiting(values.get("waiting", "suspend")), values.get("gpu_priority"), _partition(values.get("partition")),
        Form(Form.parse(values["form"])) if "form" in values else None,
    )  # fmt: skip


def _partition(values: dict[str, Any] | None) -> Partition | None:
    if values is None:
        return None
    mask = values.get("cu_mask")
    return Partition(values.get("compute_units"), int(mask, 16) if mask else None)


def _launch(values: dict[str, Any]) -> Launch:
    return Launch(tuple(values["command"]) if "command" in values else None, values.get("cgroup"))


def _notes(taskset: Taskset) -> tuple[str, ...]:
    """Remarks for the user.  An overloaded CPU is no mistake: the analyses answer that it is not schedulable."""
    notes = [*_ties(taskset), *assumptions(taskset)]
    for cpu in sorted({t.cpu for t in taskset}):
        tasks = [t for t in taskset.real_time if t.cpu == cpu]
        load = sum((t.cpu_time + t.misc_time) / t.period for t in tasks)
        if load > 1:
            notes.append(f"CPU {cpu} is loaded to {load:.0%} by CPU execution alone")
    if not taskset.tasks:
        notes.append("there are no tasks")
    return tuple(notes)


def _lacks(platform: dict[str, Any], taskset: Taskset, report: Report) -> tuple[Problem, ...]:
    """Epsilon, unless no real-time task uses the GPU.  Alpha alone is less than that by theta."""
    known = "epsilon" in platform or {"alpha", "theta"} <= platform.keys()
    if known or not any(t.uses_gpu for t in taskset.real_time):
        return ()
    text = "epsilon is missing: what a runlist update costs; gpurt status --latency shows it, and \"0ns\" says none"
    return (Problem(line_of(report.lines, ("platform",)), f"platform: {text}"),)


def assumptions(taskset: Taskset) -> Iterator[str]:
    """What every bound assumes that the user may not have meant."""
    platform = taskset.platform
    if not any(t.uses_gpu for t in taskset.real_time):
        return
    free = platform.theta_known and platform.theta == 0
    if platform.policy == "boosted":
        yield from _boosted(taskset)
    if platform.epsilon == 0:
        yield "epsilon is 0: every bound assumes that runlist updates cost nothing"
    elif free and platform.policy in ("timesliced", "lock-priority", "lock-fifo"):
        yield f"theta is 0: every bound for policy {platform.policy} assumes that context switches cost nothing"


def _boosted(taskset: Taskset) -> Iterator[str]:
    """What policy `boosted` makes of the file's costs, and what its hosts demand of the priorities."""
    if any(t.uses_gpu and t.waiting is Waiting.BUSY for t in taskset.real_time):
        if not taskset.platform.theta_known:
            yield "theta is missing in [platform]: it counts as epsilon, the most that it can be"
        yield (
            "tasks wait busily: under policy boosted the bounds are for a host that raises their threads and whose "
            "updates do not sleep, hence not for agents; gpurt apply looks at the host"
        )
    above = [(t.highest_priority, t.name) for t in taskset.real_time if t.highest_priority > lib.GPURT_NORMAL_DEFAULT]
    if not above:
        return
    most, name = max(above)
    started = f" unless started with --normal {most}" if most <= lib.GPURT_NORMAL_MAX else ""
    yield (
        f"under policy boosted hosts order priorities 1 to {lib.GPURT_NORMAL_DEFAULT}{started}, and {name} has {most}: "
        "gpurt run and apply refuse that; other numbers in the same order have the same bounds"
    )


def _ties(taskset: Taskset) -> Iterator[str]:
    """Tasks of equal priority, on a CPU or for the GPU."""
    for cpu in sorted({t.cpu for t in taskset.real_time}):
        yield from _equals(f"on CPU {cpu}", [(t.priority, t.name) for t in taskset.real_time if t.cpu == cpu])
    yield from _equals("for the GPU", [(t.segment_priority, t.name) for t in taskset.real_time if t.uses_gpu])


def _equals(where: str, tasks: list[tuple[int, str]]) -> Iterator[str]:
    for level in sorted({level for level, _ in tasks}, reverse=True):
        names = [name for other, name in tasks if other == level]
        if len(names) > 1:
            yield f"{', '.join(names)} have the same priority {where}, {level}: the one that comes first goes first"
