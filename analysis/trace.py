# SPDX-License-Identifier: GPL-2.0
"""The trace: what happened in a run, simulated or real, in one format.

A trace is stored as Chrome/Perfetto trace-event JSON (open it at ui.perfetto.dev or chrome://tracing), with a
track for each CPU, each GPU and each task.  The arguments hold exact nanoseconds, so that nothing is lost on reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from gpurt.errors import FileError
from gpurt.files import read
from gpurt.text import filename, visible

FORMAT = "gpurt-trace"
VERSION = 1
#: Track groups of the file (Chrome's process ids).
CPUS, GPUS, TASKS = 1, 2, 3
MAX_BYTES = 2**31


class Kind(str, Enum):
    """What an event says."""

    RELEASE = "release"
    COMPLETE = "complete"
    CPU = "cpu"
    UPDATE = "update"
    GPU = "gpu"
    BEGIN = "begin"
    GRANT = "grant"
    PREEMPT = "preempt"
    RESUME = "resume"
    END = "end"
    OVERRUN = "overrun"
    GONE = "gone"
    COMMIT = "commit"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Event:
    """One event at ``time`` ns; CPU, UPDATE, GPU and COMMIT have a ``duration``, COMPLETE the response time.

    ``task`` is empty if an event concerns all tasks or none.
    """

    time: int
    kind: Kind
    task: str = ""
    job: int | None = None
    duration: int | None = None
    cpu: int | None = None
    gpu: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A finished job: its number, when it was released and how long it took, ns."""

    job: int
    release: int
    response: int


@dataclass(frozen=True)
class Trace:
    """Events in order of time, and what is known about the run: source, policy, waiting, taskset."""

    meta: Mapping[str, str]
    events: tuple[Event, ...] = field(default_factory=tuple)

    def responses(self) -> dict[str, list[Response]]:
        """Finished jobs of each task, in order of completion."""
        jobs: dict[str, list[Response]] = {}
        for event in self.events:
            if event.kind is Kind.COMPLETE and event.duration is not None:
                response = Response(event.job or 0, event.time - event.duration, event.duration)
                jobs.setdefault(event.task, []).append(response)
        return jobs

    def observed_worst(self) -> dict[str, int]:
        """MORT, the maximum observed response time of each task, ns."""
        return {task: max(job.response for job in jobs) for task, jobs in self.responses().items()}

    def save(self, path: Path | str) -> None:
        """Writes the file.  Raises FileError if that fails."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"otherData": ')
                json.dump({"format": FORMAT, "version": VERSION, **self.meta}, file)
                file.write(',\n"displayTimeUnit": "ms",\n"traceEvents": [')
                separator = "\n"
                for entry in self._entries():
                    file.write(separator)
                    json.dump(entry, file, separators=(",", ":"))
                    separator = ",\n"
                file.write("\n]}\n")
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from None

    def _entries(self) -> Iterator[dict[str, Any]]:
        tasks = {name: index for index, name in enumerate(dict.fromkeys(e.task for e in self.events if e.task))}
        for pid, name in ((CPUS, "CPUs"), (GPUS, "GPUs"), (TASKS, "tasks")):
            yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for name, index in tasks.items():
            yield {"ph": "M", "pid": TASKS, "tid": index, "name": "thread_name", "args": {"name": name}}
        for event in self.events:
            yield _to_chrome(event, tasks)


def _to_chrome(event: Event, tasks: Mapping[str, int]) -> dict[str, Any]:
    """A trace-event entry: an interval if something executes, otherwise an instant."""
    args: dict[str, Any] = {"ns": event.time, "kind": event.kind.value}
    for name in ("task", "job", "duration", "cpu", "gpu", "detail"):
        value = getattr(event, name)
        if value not in (None, ""):
            args[name] = value
    label = f"{event.task} #{event.job}" if event.job is not None else event.task or event.kind.value
    entry: dict[str, Any] = {"name": label, "cat": event.kind.value, "ts": event.time / 1000, "args": args}
    if event.kind in (Kind.CPU, Kind.UPDATE, Kind.GPU, Kind.COMMIT) and event.duration is not None:
        entry["ph"] = "X"
        entry["dur"] = event.duration / 1000
        on_gpu = event.kind in (Kind.GPU, Kind.COMMIT)
        entry["pid"], entry["tid"] = (GPUS, event.gpu or 0) if on_gpu else (CPUS, event.cpu or 0)
        if event.kind in (Kind.COMMIT, Kind.UPDATE):
            entry["name"] = f"runlist update ({event.detail or event.task or 'everyone'})"
    else:
        entry |= {"ph": "i", "s": "t", "pid": TASKS, "tid": tasks.get(event.task, len(tasks))}
        entry["name"] = event.kind.value
    return entry


def load(path: Path | str) -> Trace:
    """Reads a trace.  Raises FileError if the file cannot be read or is not a trace of gpurt."""
    try:
        document = json.loads(read(path, MAX_BYTES, "a trace file"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{filename(path)}: is not a complete JSON file: {visible(error)[:100]}") from None
    other = document.get("otherData") if isinstance(document, dict) else None
    if not isinstance(other, dict) or other.get("format") != FORMAT:
        raise FileError(f"{filename(path)}: is not a trace of gpurt; `gpurt trace`, `run` and `simulate` write them")
    if other.get("version") != VERSION:
        raise FileError(f"{filename(path)}: is of format version {other.get('version')}, this gpurt reads {VERSION}")
    meta = {key: str(value) for key, value in other.items() if key not in ("format", "version")}
    try:
        return Trace(meta, tuple(_from_chrome(document["traceEvents"])))
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{filename(path)}: is a damaged trace: {_damage(error)}") from None


def _damage(error: Exception) -> str:
    return f"an event lacks {error}" if isinstance(error, KeyError) else str(error)


def _from_chrome(entries: Iterable[dict[str, Any]]) -> Iterator[Event]:
    for entry in entries:
        if entry["ph"] == "M":
            continue
        args = dict(entry["args"])
        time, kind = args.pop("ns"), Kind(args.pop("kind"))
        if not isinstance(time, int):
            raise TypeError(f"time {time!r}")
        yield Event(time, kind, **args)
