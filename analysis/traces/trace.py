# SPDX-License-Identifier: GPL-2.0
"""The trace of a run, simulated or real, in one format.

A trace is stored as Chrome/Perfetto trace-event JSON: ui.perfetto.dev and chrome://tracing open it.  Each CPU, each GPU
and each task has a track.  The arguments hold exact nanoseconds, so reading loses nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path

from analysis.model import CpuSegment, Task, Taskset
from analysis.model.platform import ISOLATED
from analysis.rta.regions import switching
from gpurt.errors import TRACE_FIRST, FileError
from gpurt.files import read_whole, written
from gpurt.text import filename, visible
from gpurt.types import Document

FORMAT = "gpurt-trace"
#: The version that is written, and the only one that is read: earlier ones lack facts that a verdict rests on.
TRACE_VERSION = 6
#: Track groups of the file (Chrome's process ids).
CPUS, GPUS, TASKS, BUSES = 1, 2, 3, 4
#: The word for one member of a track group.
GROUPS = {CPUS: "CPU", GPUS: "GPU", BUSES: "bus"}
MAX_TRACE_BYTES = 2**31
GZIP = b"\x1f\x8b"
#: A table of a taskset file.
_TABLE = re.compile(rb"^[ \t]*\[(?:platform|\[[ \t]*task[ \t]*\])\]", re.MULTILINE)
WRITERS = "`gpurt trace record`, `run` and `simulate` write them"
#: Entries of ``meta`` in runs.  GPU priorities by task, if the file's were not set, as JSON; whose slices TSGs had; and
#: the host's facts about itself at the begin of the run, as JSON (pycontrol/observe/fit/host.py).
PRIORITIES, SLICES, HOST = "gpu_priorities", "slices", "host"
#: Entry in the head of a file that was written during the recording (analysis.traces.partial).
PARTIAL = "partial"
#: The text that marks a trace as partial.
CUT_OFF_TRACE = "the recording was cut off after this: what came later is not in the file"


class Kind(str, Enum):
    """The meaning of an event."""

    RELEASE = "release"
    COMPLETE = "complete"
    CPU = "cpu"
    UPDATE = "update"
    GPU = "gpu"
    COPY = "copy"
    BEGIN = "begin"
    GRANT = "grant"
    PREEMPT = "preempt"
    RESUME = "resume"
    END = "end"
    OVERRUN = "overrun"
    GONE = "gone"
    COMMIT = "commit"
    LOST = "lost"
    START = "start"
    LATE = "late"
    STUCK = "stuck"
    MEMBER_DIED = "member-died"


#: Kinds whose duration is the length of an interval on a CPU or GPU, and those of them that are on a GPU.
TIMED = frozenset((Kind.CPU, Kind.UPDATE, Kind.GPU, Kind.COPY, Kind.COMMIT))
ON_GPU = frozenset((Kind.GPU, Kind.COPY, Kind.COMMIT))

@dataclass(frozen=True, slots=True)
class Event:
    """One event at ``time`` ns; CPU, UPDATE, GPU, COPY and COMMIT have a ``duration``, COMPLETE the response time.

    START: a job began to execute, ``duration`` after its release.  LATE: an agent has not carried out an order in time,
    so isolation is lost.  STUCK: the task sleeps inside its segment, the GPU executes nothing, and others wait for it.
    MEMBER_DIED: its process died while others of its group, or under the same budget, were in segments.
    ``executed``: for COMPLETE, the CPU time of the job by its own account, ns.  ``group``: the group of the event's
    client; ``user``: the number of the user who owns that group.  ``priority``: for BEGIN, the client's GPU priority.

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
    executed: int | None = None
    group: str | None = None
    user: str | None = None
    priority: int | None = None

    @property
    def process(self) -> str:
        """The number of the process in a job's event, or in that of a client's end; empty if it has none."""
        return (self.detail or "").rpartition("-")[2]


@dataclass(frozen=True, slots=True)
class Response:
    """A finished job: its number, its release and its response time, ns."""

    job: int
    release: int
    response: int


@dataclass(frozen=True, slots=True)
class About:
    """The known facts about a task: its priority, 0 for best effort, and its relative deadline, ns.

    ``ended``: when the task's program ended, ns, if that was before the end of the run.
    """

    priority: int | None = None
    deadline: int | None = None
    ended: int | None = None


@dataclass(frozen=True)
class Trace:
    """Events in order of time, the facts about the run (source, policy, waiting, gpus...), and those about its tasks.

    ``until``: when the recording ended, ns, if that was after the last event.  ``counters``: by name, such as that of a
    GPU's power, (time, value) in order of time; Perfetto draws each as a track of the GPUs.
    """

    meta: Mapping[str, str]
    events: tuple[Event, ...] = field(default_factory=tuple)
    tasks: Mapping[str, About] = field(default_factory=dict)
    until: int = 0
    counters: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """When the recording or the last event ended, ns."""
        ends = (event.time + (event.duration or 0 if event.kind in TIMED else 0) for event in self.events)
        return max([self.until, *ends])

    def names(self) -> list[str]:
        """The tasks, most urgent first; tasks whose priority is unknown last."""
        found = dict.fromkeys([*self.tasks, *(event.task for event in self.events if event.task)])
        return sorted(found, key=lambda name: -_rank(self.tasks.get(name)))

    def responses(self) -> dict[str, list[Response]]:
        """Finished jobs of each task, in order of completion."""
        jobs: dict[str, list[Response]] = {}
        for event in self.events:
            if event.kind is Kind.COMPLETE and event.duration is not None:
                response = Response(event.job or 0, event.time - event.duration, event.duration)
                jobs.setdefault(event.task, []).append(response)
        return jobs

    def unfinished(self) -> dict[str, list[int]]:
        """The releases of each task's jobs that did not finish during the recording, ns."""
        finished = {(task, job.release) for task, jobs in self.responses().items() for job in jobs}
        found: dict[str, list[int]] = {}
        for event in self.events:
            if event.kind is Kind.RELEASE and (event.task, event.time) not in finished:
                found.setdefault(event.task, []).append(event.time)
        return found

    def observed_worst(self) -> dict[str, int]:
        """MORT, the maximum observed response time of each task, ns."""
        return {task: max(job.response for job in jobs) for task, jobs in self.responses().items()}

    def save(self, path: Path | str) -> None:
        """Writes the file, as a whole or not at all.  Raises FileError if that fails."""
        tasks = {name: {key: value for key, value in asdict(about).items() if value is not None}
                 for name, about in self.tasks.items()}  # fmt: skip
        head = {"format": FORMAT, "version": TRACE_VERSION, **self.meta, "tasks": tasks, "until": self.until}
        with written(path) as raw, io.TextIOWrapper(raw, encoding="utf-8") as file:
            file.write(f'{{"otherData": {json.dumps(head)},\n"displayTimeUnit": "ms",\n"traceEvents": [')
            separator = "\n"
            for entry in _entries(self):
                file.write(separator + ENCODER.encode(entry))
                separator = ",\n"
            file.write("\n]}\n")


#: json.dumps() would make an encoder for each entry, and json.dump() encodes in Python.
ENCODER = json.JSONEncoder(separators=(",", ":"))


def traced_times(tasks: Iterable[Task]) -> str:
    """The ``times`` of a trace in which tasks executed for the times of a file: a hash of these times, in any order.

    The hash covers names, periods and worst cases.  A run with other times says nothing about these times.
    """
    found = sorted(
        (task.name, task.period, [(one.time.worst,) if isinstance(one, CpuSegment) else (one.misc.worst, one.pure.worst)
                                  for one in task.segments]) for task in tasks
    )  # fmt: skip
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def placed_of(tasks: Taskset) -> str:
    """The ``placed`` of a trace: a hash of where and how urgently tasks execute, in any order.

    The hash covers names, CPUs, GPU priorities, partitions, how TSGs share time, waiting modes, stated forms, threads
    that serve several tasks, processes, workers, triggers, release jitter, resources, and begin by yield.  If
    any of these differ, the run is of another system.
    """
    found = sorted(
        (task.name, task.cpu, task.segment_priority, task.partition.name if task.partition else "", task.waiting.value,
         *([] if task.form is None else [task.form.word]),
         *([] if task.thread is None else [task.thread.name, task.thread.order.value, task.rank]),
         *([] if task.process is None else ["process", task.process]),
         *([f"jitter {task.jitter}"] if task.jitter else []),
         *([f"released by {' '.join(sorted(before))}"] if (before := tasks.triggers.get(task.name)) else []))
        for task in tasks
    )  # fmt: skip
    forks = [repr((one.task, one.after, one.workers, one.hold)) for one in tasks.forks]
    held = [repr((one.name, one.protocol.value, sorted((s.task, s.time, s.times) for s in one.sections)))
            for one in tasks.resources]  # fmt: skip
    turns = [repr((part.name, part.slice, part.interleave, part.shared and part.shared.value))
             for part in tasks.partitions if part.in_time]  # fmt: skip
    begins = [] if tasks.platform.begin == ISOLATED else [tasks.platform.begin]
    more = "".join(sorted([*forks, *held, *turns, *begins]))
    return hashlib.sha256(f"{found!r}{more}".encode()).hexdigest()[:16]


def costs_of(taskset: Taskset) -> str:
    """The ``costs`` of a simulated trace: a hash of all its costs beside the tasks' own work.

    The hash covers updates and switches (with their region), also those of partitions, slices, wake-ups, chunks of
    copies, slow-downs by other partitions, and begin by yield.  A run in which these cost less proves nothing.
    """
    system = switching(taskset)
    one = system.platform
    costs = (one.alpha, one.theta, one.time_slice, one.stretch, one.cpu_latency, one.bus_chunk, one.cross_contention,
             one.yields, sorted((part.name or "", *one.costs(part)) for part in system.partitions))  # fmt: skip
    return hashlib.sha256(repr(costs).encode()).hexdigest()[:16]


def _rank(about: About | None) -> int:
    return -1 if about is None or about.priority is None else about.priority


def lanes(events: Sequence[Event]) -> list[int]:
    """For each event with a duration, its lane on its CPU or GPU; 0 for other events.

    Events in one lane do not overlap: Perfetto drops intervals of a track that overlap without nesting.
    """
    ends: dict[tuple[int, int], list[int]] = {}
    found = []
    for event in events:
        lane = 0
        if event.kind in TIMED and event.duration is not None:
            taken = ends.setdefault(place(event), [])
            lane = next((lane for lane, end in enumerate(taken) if end <= event.time), len(taken))
            taken[lane:lane + 1] = [event.time + event.duration]  # fmt: skip
        found.append(lane)
    return found


def preemptors(events: Sequence[Event]) -> dict[int, str]:
    """For each preemption, by its index: the task that gained the GPU, if the events show it.

    The scheduler reports the task that loses the GPU, and at the same time on the same GPU the task that gains it.
    """
    found = {}
    for index, event in enumerate(events):
        after = index + 1
        while event.kind is Kind.PREEMPT and after < len(events) and events[after].time == event.time:
            later = events[after]
            if later.gpu == event.gpu and later.kind in (Kind.GRANT, Kind.RESUME):
                found[index] = later.task
                break
            after += 1
    return found


def place(event: Event) -> tuple[int, int]:
    """The group and the number of the CPU, GPU or bus on which an event with a duration is shown."""
    if event.kind is Kind.COPY:
        return BUSES, event.gpu or 0
    return (GPUS, event.gpu or 0) if event.kind in ON_GPU else (CPUS, event.cpu or 0)


class _Tracks:
    """The file's tracks: their ids, in the order in which they are shown, and their names.

    Thread ids are above the process ids, and none is used twice.  Perfetto takes a thread with the id of its process
    for the process itself.  Perfetto before release 52 named threads by their id alone.
    """

    def __init__(self, trace: Trace) -> None:
        self._lanes = lanes(trace.events)
        used = {
            (*place(event), lane)
            for event, lane in zip(trace.events, self._lanes, strict=True)
            if event.kind in TIMED and event.duration is not None
        }
        self._tasks = {name: (TASKS, number, 0) for number, name in enumerate([*trace.names(), ""])}
        keys = sorted(used | set(self._tasks.values()))
        self._ids = {key: number for number, key in enumerate(keys, 10)}

    def of(self, event: Event, index: int) -> tuple[int, int]:
        """The process id and the thread id of the event with this index."""
        key = self._tasks[event.task]
        if event.kind in TIMED and event.duration is not None:
            key = (*place(event), self._lanes[index])
        return key[0], self._ids[key]

    def entries(self) -> Iterator[Document]:
        """The metadata entries that name the tracks and put them into order."""
        groups = [(CPUS, "CPUs"), (GPUS, "GPUs"), (TASKS, "tasks")]
        if any(key[0] == BUSES for key in self._ids):
            groups.append((BUSES, "buses"))
        for pid, name in groups:
            yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
            yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
        names = {key: name or "all tasks" for name, key in self._tasks.items()}
        for key, tid in self._ids.items():
            group, number, lane = key
            unit = f"{GROUPS.get(group, 'GPU')} {number}"
            name = names.get(key) or (f"{unit} ({lane + 1})" if lane else unit)
            yield {"ph": "M", "pid": group, "tid": tid, "name": "thread_name", "args": {"name": name}}
            yield {"ph": "M", "pid": group, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _entries(trace: Trace) -> Iterator[Document]:
    tracks, winners = _Tracks(trace), preemptors(trace.events)
    yield from tracks.entries()
    for index, event in enumerate(trace.events):
        pid, tid = tracks.of(event, index)
        yield to_chrome(event, winners.get(index)) | {"pid": pid, "tid": tid}
    for name, values in trace.counters.items():
        for time, value in values:
            args = {"value": value}
            yield {"ph": "C", "pid": GPUS, "name": name, "ts": _us(time), "args": args, "ns": time}


def to_chrome(event: Event, by: str | None) -> Document:
    """A trace-event entry without its track: an interval if something executes, otherwise an instant."""
    args: Document = {"ns": event.time, "kind": event.kind.value}
    for name in ("task", "job", "duration", "cpu", "gpu", "detail", "executed", "group", "user", "priority"):
        value = getattr(event, name)
        if value not in (None, ""):
            args[name] = value
    if by:
        args["by"] = by
    entry: Document = {"name": _label(event, by), "cat": event.kind.value, "ts": _us(event.time), "args": args}
    if event.kind in TIMED and event.duration is not None:
        return entry | {"ph": "X", "dur": _us(event.duration)}
    return entry | {"ph": "i", "s": "t"}


def _label(event: Event, by: str | None) -> str:
    if event.kind in (Kind.COMMIT, Kind.UPDATE):
        return f"runlist update ({event.detail or event.task or 'everyone'})"
    if event.kind is Kind.PREEMPT and by:
        return f"{event.task or 'all'} preempted by {by}"
    if event.kind in TIMED and event.duration is not None:
        return f"{event.task} #{event.job}" if event.job is not None else event.task or str(event.kind.value)
    return str(event.kind.value)


def _us(ns: int) -> float:
    """A time in us, as Chrome has it.  Perfetto cuts fractions of a nanosecond off, so it must not be below ``ns``."""
    us = ns / 1000
    return us if int(us * 1000) >= ns else math.nextafter(us, math.inf)


def load_trace(path: Path | str) -> Trace:
    """Reads a trace.  Raises FileError if the file cannot be read or is not a trace of gpurt."""
    return parse_trace(path, read_whole(path, MAX_TRACE_BYTES, "a trace file"))


def parse_trace(path: Path | str, raw: bytes) -> Trace:
    """The trace of that name with that content, perhaps gzipped.  Raises FileError if it is not a trace of gpurt."""
    try:
        document = json.loads(_closed(_expanded(path, raw)))
    except (ValueError, RecursionError) as error:
        if _TABLE.search(raw):
            raise FileError(f"{filename(path)}: is no trace, but a taskset file; {TRACE_FIRST}") from None
        raise FileError(f"{filename(path)}: is not a complete JSON file: {visible(error)[:100]}") from None
    other = document.get("otherData") if isinstance(document, dict) else None
    if not isinstance(other, dict) or other.get("format") != FORMAT:
        raise FileError(f"{filename(path)}: is not a trace of gpurt; {WRITERS}")
    if other.get("version") != TRACE_VERSION:
        theirs = f"is of format version {visible(other.get('version'))[:20]}"
        raise FileError(f"{filename(path)}: {theirs}, and this gpurt reads {TRACE_VERSION}; record it again")
    own = ("format", "version", "tasks", "until", PARTIAL)
    meta = {key: str(value) for key, value in other.items() if key not in own}
    try:
        whole: Document = {"tasks": {}, "until": 0} | other if PARTIAL in other else other
        tasks = {str(name): _about(about) for name, about in whole["tasks"].items()}
        entries, until = document["traceEvents"], int(whole["until"])
        events = tuple(_from_chrome(entries))
        if PARTIAL in other:
            end = Event(_last(events), Kind.LOST, detail=CUT_OFF_TRACE)
            events = (*sorted(events, key=lambda event: event.time), end)
        return Trace(meta, events, tasks, until, _counters(entries))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{filename(path)}: is a damaged trace: {_damage(error)}") from None


def _expanded(path: Path | str, raw: bytes) -> bytes:
    """The content of a gzipped file, uncompressed, since trace viewers take such files; any other content unchanged."""
    if not raw.startswith(GZIP):
        return raw
    expander = zlib.decompressobj(wbits=31)
    try:
        text = expander.decompress(raw, MAX_TRACE_BYTES)
    except zlib.error as error:
        raise FileError(f"{filename(path)}: is a damaged gzip file: {visible(error)[:100]}") from None
    if not expander.eof:
        larger = f"expands to more than {MAX_TRACE_BYTES >> 20} MiB"
        why = larger if expander.unconsumed_tail else "is a gzip file that was cut off"
        raise FileError(f"{filename(path)}: {why}; is it a trace?")
    return text


def _closed(raw: bytes) -> bytes:
    """The complete content of a file that was written during the recording, without a last line that was cut off."""
    head, _, rest = raw.partition(b"\n")
    if f'"{PARTIAL}": "yes"'.encode() not in head or raw.endswith(b"]}\n"):
        return raw
    begin, *entries = rest.split(b"\n")
    try:
        json.loads(entries[-1] if entries else b"0")
    except ValueError:
        entries.pop()
    return b"\n".join([head, begin, *entries]).removesuffix(b",") + b"\n]}"


def _last(events: Sequence[Event]) -> int:
    return max((event.time for event in events), default=0)


def _damage(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _about(known: Document) -> About:
    if wrong := [value for value in known.values() if not isinstance(value, int)]:
        raise TypeError(f"number {wrong[0]!r}")
    return About(**known)


def _counters(entries: Iterable[Document]) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for entry in entries:
        if entry["ph"] == "C":
            time, value = entry["ns"], entry["args"]["value"]
            if type(time) is not int or type(value) is not int:
                raise TypeError(f"a counter's value {value!r:.40}")
            found.setdefault(str(entry["name"]), []).append((time, value))
    return {name: tuple(values) for name, values in found.items()}


def _from_chrome(entries: Iterable[Document]) -> Iterator[Event]:
    for entry in entries:
        if entry["ph"] in ("M", "C"):
            continue
        args = dict(entry["args"])
        args.pop("by", None)
        time, kind = args.pop("ns"), Kind(args.pop("kind"))
        if type(time) is not int:
            raise TypeError(f"time {time!r:.40}")
        for name in ("job", "duration", "cpu", "gpu", "executed", "priority"):
            value = args.get(name)
            if value is not None and (type(value) is not int or value < 0):
                raise TypeError(f"{name} {value!r:.40}")
        if kind in TIMED | {Kind.START, Kind.COMPLETE} and args.get("duration") is None:
            raise KeyError("duration")
        for name in ("task", "detail", "group", "user"):
            if not isinstance(args.get(name, ""), str):
                raise TypeError(f"{name} {args[name]!r:.40}")
        yield Event(time, kind, **args)
