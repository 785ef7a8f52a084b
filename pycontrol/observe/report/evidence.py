# SPDX-License-Identifier: GPL-2.0
"""The document of `gpurt report` about a system: the documents of other commands, and how far each was checked."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from analysis import taskset
from analysis.answers.chosen import covering_test
from analysis.answers.growth import growth
from analysis.answers.judged import judge
from analysis.answers.loading import refuse_file
from analysis.answers.registry import find_test
from analysis.model import CpuSegment, GpuSegment, Platform, Segment, Task
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces import trace
from analysis.traces.trace import HOST, Trace
from gpurt import _gpurt
from gpurt.errors import GpurtError
from gpurt.files import read_whole
from gpurt.text import filename
from gpurt.types import Document, DocumentView
from pycontrol.link.control import connect, told_fields
from pycontrol.machine import clocks
from pycontrol.observe import documents
from pycontrol.observe.doctor import examine
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.host import Host, ask, online
from pycontrol.observe.judge import subject
from pycontrol.observe.judge.finding import Finding
from pycontrol.observe.judge.verdict import verdict
from pycontrol.observe.report import runs
from pycontrol.observe.report.assumptions import Assumption, Evidence, Support, judged_assumptions
from pycontrol.output import render

#: For larger files the report omits how far the times of single tasks may grow.
MAX_TASKS_IN_REPORT = 100
#: Facts that no bound covers, whichever test computed it.
UNCOVERED = (
    "Another machine, kernel, driver, clock rate or program than the times in the file are of, unless its clocks say.",
    "Times in the file that are too small. gpurt measures times; it does not bound them.",
    "The time from a hardware event to the release of the job that it causes.",
    "Memory, caches and buses that CPUs and GPU share, unless the file's times contain that.",
    "Faults and resets of the GPU, suspend, throttling by heat or power, and processes that are killed.",
    "Start-up, changes of mode, and changes of policy, priorities or budgets while tasks run.",
    "Programs that use the GPU without the scheduler: exempt ones, and drivers that gpurt does not control.",
    "GPUs and drivers of which docs/hardware has no run: gpurt was tried for them on virtual and fake ones only.",
    "Whether what a task computes is right.",
)


@dataclass(frozen=True)
class Inputs:
    """The inputs of the report.

    ``raw`` and ``traces``: the files' contents by name.  ``elsewhere``: the system runs on another machine.
    """

    file: TasksetFile
    raw: bytes
    traces: Sequence[tuple[Path, Trace, bytes]]
    test: str | None
    device: str | None
    elsewhere: bool
    output: Path


def inputs(
    file: Path, traces: Sequence[Path], test: str | None, device: str | None, elsewhere: bool, output: Path
) -> Inputs:  # fmt: skip
    """Reads each file once, so that its hash is of the content that is used.  Raises TasksetError and FileError."""
    raw = read_whole(file, taskset.MAX_TASKSET_BYTES, "a taskset file")
    loaded = taskset.parse(file, taskset.decoded(file, raw))
    refuse_file(loaded, [find_test(test)] if test else [], workers=True)
    found = []
    for path in traces:
        content = read_whole(path, trace.MAX_TRACE_BYTES, "a trace file")
        found.append((path, trace.parse_trace(path, content), content))
    return Inputs(loaded, raw, found, test, device, elsewhere, output)


def gather(given: Inputs) -> Document:
    """The whole document.  Raises UsageError if there is no such test, FileError for a trace of other tasks."""
    file, system = given.file, given.file.taskset
    named = [find_test(given.test)] if given.test else []
    answer = judge(file.path, system, named, notes=file.notes)
    analysis = answer.data
    test = covering_test(system, given.test).test
    few = len(system) <= MAX_TASKS_IN_REPORT
    sensitivity = growth(system, given.test, render.progress, own=few).data(file.path)
    left_out = [] if few else [f"more than {MAX_TASKS_IN_REPORT} tasks: how far single times may grow is left out; "
                               "gpurt margins has it"]  # fmt: skip
    host, known = (None, fit.Host()) if given.elsewhere else _host(given.device, file)
    objections = fit.objections(file, known)
    judged_runs = [_run(path, recorded, file, given.test) for path, recorded, _ in given.traces]
    seen = [run for run, _ in judged_runs]
    findings = [(filename(run["trace"]), told) for run, told in judged_runs if run["comparable"]]
    pairs = [(filename(path), recorded) for path, recorded, _ in given.traces]
    result = next((result for _, result in answer.results), None)
    assumptions = judged_assumptions(Evidence(
        file, test, result, known.gpus, known.latency, pairs, objections, findings, known.clocks))  # fmt: skip
    why = _why(analysis, assumptions, seen) or fit.against(objections)
    return {
        "file": file.path, "files": [given.output], "holds": not why, "why": why or None,
        "notes": [*left_out,
                  *([f"what the host would say is unchecked: {host['why']}"] if given.device and host and host["why"]
                    else []), *fit.lines(objections),
                  *(f"{one['trace']}: {note}" for one in seen for note in one["notes"])],
        "analysis": analysis, "sensitivity": sensitivity, "system": _system(file),
        "test": test.name if test else None, "title": test.title if test else None,
        "source": test.source if test else None,
        "machine": None if given.elsewhere else _machine(given.device), "host": host,
        "assumptions": assumptions, "objections": fit.data(objections), "traces": seen,
        "uncovered": [*UNCOVERED, *_left_out(file, test)],
        "inputs": [_input(file.path, given.raw), *(_input(path, raw) for path, _, raw in given.traces)],
        "versions": _versions(), "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commands": _commands(given, test),
    }  # fmt: skip


def _why(analysis: DocumentView, assumptions: Sequence[Assumption], seen: Sequence[DocumentView]) -> str:
    """Why the evidence does not show that every deadline holds; empty if it does, as far as it goes."""
    if not analysis["schedulable"]:
        return f"not proved: {analysis['why']}"
    if against := next((f"{run['trace']}: {run['against']}" for run in seen if run["against"]), ""):
        return against
    refuted = [one for one in assumptions if one.support is Support.REFUTED]
    if refuted:
        return f"an assumption does not hold: {refuted[0].assumption} {refuted[0].text}"
    return ""


def _host(device: str | None, file: TasksetFile) -> tuple[Document, Host]:
    """The host's GPUs and their update times, or ``why`` there are none; and the known facts of the host."""
    try:
        with connect(device) as control:
            host = ask(control, file)
    except GpurtError as error:  # also if this user may not ask the host
        unseen = Host(cpus=online(), clocks=[clocks.look()])
        return {"address": device, "why": str(error), "gpus": [], "latency": []}, unseen
    shown = [told_fields(one) for one in host.gpus], [documents.latency(one) for one in host.latency if one.count]
    return {"address": device, "why": None, "gpus": shown[0], "latency": shown[1]}, host


def _machine(device: str | None) -> Document:
    system = platform.uname()
    return {
        "node": system.node, "release": system.release, "build": system.version, "processor": system.machine,
        "cpus": os.cpu_count() or 0, "findings": examine(device),
    }  # fmt: skip


def _run(path: Path, recorded: Trace, file: TasksetFile, test: str | None) -> tuple[Document, Sequence[Finding]]:
    """A trace's content, the answer of `gpurt trace check` about it (``against``: its no), and its findings."""
    answer = verdict(path, recorded, file, test)
    spread, open_, known = runs.distributions(recorded, file), runs.unfinished(recorded, file), answer.data()
    tasks = {}
    for name, one in known["tasks"].items():
        count, waited = open_.get(name, (0, None))
        tasks[name] = {**one, "distribution": spread.get(name), "unfinished_jobs": count, "waited_ns": waited}
    return {
        "trace": path, "comparable": known["comparable"], "why": answer.beyond or None,
        "lost": subject.lost(recorded, file), "objections": known["objections"], "against": answer.why or None,
        "meta": {key: value for key, value in recorded.meta.items() if key != HOST}, "length_ns": recorded.end,
        "tasks": tasks, "chains": known["chains"], "notes": answer.remarks,
    }, answer.seen.findings  # fmt: skip


def _system(file: TasksetFile) -> Document:
    taskset = file.taskset
    return {
        "platform": _platform(taskset.platform), "tasks": {task.name: _task(task, file) for task in taskset},
        "partitions": [{"name": part.name, "compute_units": part.size} for part in taskset.partitions],
        "groups": [
            {"task": fork.task, "workers": fork.workers, "group": file.launch[fork.task].group, "hold": fork.hold,
             "after": fork.after} for fork in taskset.forks
        ],
    }  # fmt: skip


def _platform(one: Platform) -> Document:
    """The platform.  Theta is omitted if the file has none of its own; alpha includes it then."""
    theta = {"theta_ns": one.theta} if one.theta_known else {}
    return {
        "policy": one.policy, "cpus": one.cpus, "epsilon_ns": one.epsilon, "alpha_ns": one.alpha, **theta,
        "slice_ns": one.time_slice, "copy_engine": one.copy_engine, "compute_units": one.compute_units,
        "thread_cpu": one.thread_cpu,
    }  # fmt: skip


def _task(task: Task, file: TasksetFile) -> Document:
    return {
        "cpu": task.cpu, "priority": task.priority,
        "gpu_priority": None if task.best_effort or not task.uses_gpu else task.segment_priority,
        "best_effort": task.best_effort, "period_ns": task.period, "deadline_ns": task.deadline,
        "waiting": task.waiting, "partition": task.partition.name if task.partition else None,
        "cpu_ns": task.cpu_time, "misc_ns": task.misc_time, "pure_ns": task.pure_time,
        "sequence": [_segment(one) for one in task.segments],
        "program": list(file.launch[task.name].command or ()) if task.name in file.launch else [],
    }  # fmt: skip


def _segment(one: Segment) -> Document:
    if isinstance(one, CpuSegment):
        return {"unit": "CPU", "worst_ns": one.time.worst, "best_ns": one.time.best}
    gpu: GpuSegment = one
    return {
        "unit": "GPU", "misc_worst_ns": gpu.misc.worst, "misc_best_ns": gpu.misc.best, "worst_ns": gpu.pure.worst,
        "best_ns": gpu.pure.best,
    }  # fmt: skip


def _left_out(file: TasksetFile, test: Test | None) -> list[str]:
    """Further things that this file's bounds omit."""
    found = []
    if names := [task.name for task in file.taskset if task.best_effort]:
        found.append(f"Best-effort tasks, to which nothing is guaranteed: {', '.join(names)}.")
    if test is None:
        found.append("This system as a whole: there is no bound of any task.")
    return found


def _input(path: Path, raw: bytes) -> Document:
    return {"input": path, "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}


def _versions() -> dict[str, str]:
    """Versions, and the hash of the compiled part, which has the scheduler and the fast analyses."""
    import _cffi_backend  # Debian packages it separately, without what version() reads

    compiled = Path(str(_gpurt.__file__))
    packages = {name: version(name) for name in ("gpurt", "numpy", "jinja2")} | {"cffi": _cffi_backend.__version__}
    return {
        **packages, "Python": platform.python_version(),
        f"SHA-256 of {compiled.name}": hashlib.sha256(compiled.read_bytes()).hexdigest(),
    }  # fmt: skip


def _commands(given: Inputs, test: Test | None) -> list[str]:
    """The commands that make the report, and each of its parts, again.

    A name that only an open descriptor has is valid in this process only.
    """
    file, named = given.file.path, ["--test", given.test] if given.test else []
    device = ["--device", given.device] if given.device and not given.elsewhere else []
    traces = [path for path, _, _ in given.traces]
    words: list[Sequence[object]] = [
        ["sha256sum", file, *traces],
        ["gpurt", "analyze", file, *named, "--json"],
        ["gpurt", "margins", file, *named, "--json"],
        *(["gpurt", "trace", "check", path, file, *(["--test", test.name] if test else []), "--json"]
          for path in traces),
        *([] if given.elsewhere else [["gpurt", *device, "doctor", "--json"],
                                      ["gpurt", *device, "status", "latency", "--json"]]),
        ["gpurt", *device, "report", file, *named, *(word for path in traces for word in ("--trace", path)),
         *(["--elsewhere"] if given.elsewhere else []), "-o", given.output],
    ]  # fmt: skip
    return [shlex.join(map(str, one)) for one in words]
