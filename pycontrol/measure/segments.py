# SPDX-License-Identifier: GPL-2.0
"""The GPU segments of one run of a program and their jobs, from the host's events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gpurt.enums import EventKind
from gpurt.errors import RuntimeFailure
from gpurt.text import visible
from gpurt.units import format_time
from pycontrol.link.control import EventRecord
from pycontrol.observe.trace.trace import merge

Interval = tuple[int, int]
#: A cut-off segment or job is suspicious from this multiple of the longest complete one on.
HANGS = 2
#: The events of a client's segments, in order of time.
STEPS = frozenset((EventKind.BEGIN, EventKind.GRANT, EventKind.RESUME, EventKind.PREEMPT, EventKind.END))


@dataclass(frozen=True, slots=True)
class Segment:
    """A GPU segment from its begin to its end, ns of CLOCK_MONOTONIC.

    ``pure``, G^e: how long it owned the GPU and had work on it.  ``misc``, G^m: how long it owned the GPU
    otherwise.  If the host does not see work, ``misc`` is None, and ``pure`` is all the time that it owned the
    GPU.  Both include runlist updates and context switches in that time; ``least`` has both times without these, 0 if
    unknown.  ``work``: whether the segment had any.
    """

    client: tuple[int, int]
    begin: int
    end: int
    priority: int
    misc: int | None
    pure: int
    work: bool
    least: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """The segments of a job in order, its CPU time and its length, ns; None if the program did not report it."""

    segments: tuple[Segment, ...]
    cpu: int | None = None
    length: int | None = None

    @property
    def slept(self) -> float | None:
        """The share of its GPU work's time during which its thread was on no CPU; None: unknown, or no GPU work."""
        work = sum(one.pure for one in self.segments)
        return None if self.cpu is None or self.length is None or not work else max(self.length - self.cpu, 0) / work

    @property
    def surely_slept(self) -> float | None:
        """The share that the thread slept at least inside its segments.

        It counts all the time off its CPU that may lie outside of the segments as outside.
        """
        if self.slept is None or self.cpu is None or self.length is None:
            return None
        work, away = sum(one.pure for one in self.segments), self.length - self.inside - self.cpu
        return self.slept if 10 * away <= work else max(self.inside - self.cpu, 0) / work

    @property
    def inside(self) -> int:
        """How long it was in segments, ns."""
        return sum(one.end - one.begin for one in self.segments)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a run.  ``task``: the program's name of the task; empty if it reports no jobs.

    ``outside``: how many segments belong to no job.  ``apart``: the least distance of two successive releases,
    ns.  ``distances``: the number of distances.  These two are None and 0 if the program reports at most one
    job.  ``beside``: other tasks whose jobs it reports; ``at_once``: whether such a job overlapped a job of ``task``.
    """

    jobs: tuple[MeasuredJob, ...]
    task: str = ""
    outside: int = 0
    apart: int | None = None
    distances: int = 0
    beside: tuple[str, ...] = ()
    at_once: bool = False


@dataclass
class _OpenPart:
    """A segment that has begun."""

    begin: int
    priority: int
    owned: list[Interval] = field(default_factory=list)
    works: list[Interval] = field(default_factory=list)
    since: int | None = None

    def closed(self, client: tuple[int, int], end: int, costs: Costs) -> Segment:
        """The finished segment."""
        owned = sum(stop - start for start, stop in self.owned)
        if costs.theta is None:
            return Segment(client, self.begin, end, self.priority, None, owned, True, (0, 0))
        pure = sum(_overlap(merged, self.owned) for merged in merge(self.works))
        updates = sum(_overlap(span, self.owned) for span in costs.within(client[0], self.begin, end))
        switches = costs.theta * len(self.owned)
        least = max(owned - pure - updates, 0), max(pure - updates - switches, 0)
        return Segment(client, self.begin, end, self.priority, owned - pure, pure, bool(self.works), least)


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of the host's own work: a context switch, ns (None if the host does not see work), and all its updates.

    ``updates``: by GPU, sorted.
    """

    theta: int | None
    updates: Mapping[int, Sequence[Interval]]

    @staticmethod
    def of(records: Iterable[EventRecord], theta: int | None) -> Costs:
        """The costs in a run, from all its events."""
        found: dict[int, list[Interval]] = {}
        for one in records:
            if one.kind is EventKind.COMMIT:
                found.setdefault(one.gpu, []).append((one.time_ns, one.time_ns + one.latency_ns))
        return Costs(theta, {gpu: merge(spans) for gpu, spans in found.items()})

    def within(self, gpu: int, begin: int, end: int) -> Sequence[Interval]:
        """The updates that may lie between two times."""
        spans = self.updates.get(gpu, ())
        first = max(bisect_right(spans, (begin, 0)) - 1, 0)
        return spans[first : bisect_right(spans, (end, 0))]


def segments(records: Sequence[EventRecord], costs: Costs, cut: bool = False) -> list[Segment]:
    """The segments in the order of their begins.

    Time in which a segment does not own the GPU counts for neither part, so other clients do not lengthen them.

    Args:
        records: the events of the program's process.
        costs: the host's costs in the run.
        cut: whether the program was ended early: then an unfinished segment is omitted.

    Raises:
        RuntimeFailure: the time of a segment is not known: work went on after its end, it had not ended, or a clock
            went back.  Or a segment that was cut off may be by far the longest.
    """
    found: list[Segment] = []
    now: dict[tuple[int, int], _OpenPart] = {}
    latest: dict[tuple[int, int], int] = {}
    for one in records:
        client = one.gpu, one.client
        if one.kind in STEPS:
            if one.time_ns < latest.get(client, 0):
                raise RuntimeFailure("the host's clock went back: no time of the run is known; measure again")
            latest[client] = one.time_ns
        if one.kind is EventKind.BEGIN:
            if client in now:
                raise RuntimeFailure("a GPU segment began before the one before it had ended: events are missing")
            now[client] = _OpenPart(one.time_ns, one.priority)
        elif one.kind is EventKind.WORK:
            _work(one, now.get(client), found)
        elif client in now:
            here = now[client]
            if one.kind in (EventKind.GRANT, EventKind.RESUME):
                here.since = one.time_ns if here.since is None else here.since
            elif one.kind in (EventKind.PREEMPT, EventKind.END) and here.since is not None:
                here.owned.append((here.since, one.time_ns))
                here.since = None
            if one.kind is EventKind.END:
                found.append(now.pop(client).closed(client, one.time_ns, costs))
    if now and not cut:
        raise RuntimeFailure(
            "a GPU segment had not ended when the program did, so that its time is not known: end each segment"
        )
    over = max((one.time_ns for one in records), default=0)
    _check_cut("a GPU segment", [over - one.begin for one in now.values()], [one.end - one.begin for one in found])
    return sorted(found, key=lambda one: one.begin)


def _check_cut(what: str, cut: Sequence[int], whole: Sequence[int]) -> None:
    """Raises RuntimeFailure if a part was cut off after more than HANGS times the longest complete part."""
    longest, seen = max(cut, default=0), max(whole, default=0)
    if whole and longest > HANGS * seen:
        raise RuntimeFailure(
            f"when the program was ended (--duration), {what} had taken {format_time(longest)} and had not ended, and "
            f"none that did took longer than {format_time(seen)}: it is in no time, and may be the longest; let the "
            "program run for longer, or see why it hangs"
        )


def _work(one: EventRecord, here: _OpenPart | None, found: Sequence[Segment]) -> None:
    """Adds a completed item of work to the open segment."""
    submitted = one.time_ns - one.latency_ns
    client = one.gpu, one.client
    last = next((segment for segment in reversed(found) if segment.client == client), None)
    if last and last.begin <= submitted < last.end < one.time_ns:
        raise RuntimeFailure(
            "GPU work went on after the end of its segment, so that its time is not known; wait for the work before "
            "the end (drain, or stream=), and measure again"
        )
    if here is not None:
        here.works.append((submitted, one.time_ns))


def _overlap(span: Interval, others: Iterable[Interval]) -> int:
    return sum(max(0, min(span[1], end) - max(span[0], start)) for start, end in others)


def jobs(
    records: Sequence[EventRecord], found: Sequence[Segment], task: str | None, per_job: int | None, cut: bool
) -> Jobs:
    """The jobs that the program reported; else jobs of ``per_job`` segments each, by default of one segment.

    Args:
        records: the events of the program's process.
        found: its segments.
        task: the task whose jobs count, if the program reports jobs of several tasks.
        per_job: how many segments a job has, if the program reports no jobs.
        cut: whether the program was ended early: then an incomplete last job is omitted.

    Raises:
        RuntimeFailure: it is not clear to which job a segment belongs.
    """
    said = sorted({one.task for one in records if one.kind is EventKind.JOB_BEGIN and one.task})
    if not said:
        return _counted(found, task, per_job, cut)
    if per_job is not None:
        raise RuntimeFailure(f"the program announces its jobs (of {_names(said)}): --segments says less; leave it out")
    if task is None and len(said) > 1:
        raise RuntimeFailure(f"the program announces jobs of {_names(said)}; choose one with --task")
    if task is not None and task not in said:
        raise RuntimeFailure(f"the program announces no jobs of {visible(task)}, only of {_names(said)}")
    task = task or said[0]
    beside = tuple(one for one in said if one != task)
    return replace(_announced(records, found, task, cut), beside=beside, at_once=_at_once(records, task))


def _at_once(records: Sequence[EventRecord], task: str) -> bool:
    """Whether a job of another task overlapped a job of the task."""
    here: set[str] = set()
    for one in records:
        if one.kind is EventKind.JOB_BEGIN:
            here.add(one.task)
            if task in here and len(here) > 1:
                return True
        elif one.kind is EventKind.JOB_END:
            here.discard(one.task)
    return False


def _names(tasks: Iterable[str]) -> str:
    return ", ".join(map(visible, tasks))


def _announced(records: Sequence[EventRecord], found: Sequence[Segment], task: str, cut: bool) -> Jobs:
    begun: dict[int, EventRecord] = {}
    spans: list[tuple[int, int, int | None]] = []
    for one in records:
        if one.task != task:
            continue
        if one.kind is EventKind.JOB_BEGIN:
            if before := begun.get(one.client):
                raise _endless(task, before)
            begun[one.client] = one
        elif one.kind is EventKind.JOB_END:
            first = begun.pop(one.client, None)
            if first is None or first.job != one.job:
                raise RuntimeFailure(f"job {one.job} of {visible(task)} ended, and had not begun: events are missing")
            spans.append((first.time_ns, one.time_ns, one.cpu_ns or None))
    if begun and not cut:
        raise _endless(task, next(iter(begun.values())))
    over = max((one.time_ns for one in records), default=0)
    _check_cut(f"a job of {visible(task)}", [over - one.time_ns for one in begun.values()],
               [end - start for start, end, _ in spans])  # fmt: skip
    spans.sort()
    released = sorted(one.time_ns - one.latency_ns for one in records
                      if one.task == task and one.kind is EventKind.JOB_BEGIN)  # fmt: skip
    distances = [later - earlier for earlier, later in pairwise(released)]
    if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
        raise RuntimeFailure(f"jobs of {visible(task)} overlap, so that no segment can be said to be of one of them")
    inside: list[list[Segment]] = [[] for _ in spans]
    for part in found:
        at = bisect_right(spans, part.begin, key=lambda span: span[0]) - 1
        if at >= 0 and part.end <= spans[at][1]:
            inside[at].append(part)
        elif (at >= 0 and part.begin < spans[at][1]) or (at + 1 < len(spans) and spans[at + 1][0] < part.end):
            raise RuntimeFailure(
                f"a GPU segment goes across the begin or the end of a job of {visible(task)}, so that its time is no "
                "job's; begin and end it within one job"
            )
    made = tuple(
        MeasuredJob(tuple(row), cpu, end - start) for row, (start, end, cpu) in zip(inside, spans, strict=True)
    )
    outside = len(found) - sum(map(len, inside))
    return Jobs(made, task, outside, min(distances, default=None), len(distances))


def _endless(task: str, begun: EventRecord) -> RuntimeFailure:
    return RuntimeFailure(
        f"job {begun.job} of {visible(task)} did not end, so that its times are not known, and it may be the longest: "
        "end each job"
    )


def _counted(found: Sequence[Segment], task: str | None, per_job: int | None, cut: bool) -> Jobs:
    if task is not None:
        raise RuntimeFailure(f"the program announces no jobs, so none of {visible(task)}: leave --task out")
    if len(threads := {one.client for one in found}) > 1:
        raise RuntimeFailure(
            f"{len(threads)} clients of the program have GPU segments, and it announces no jobs: have it announce them "
            "(gpurt.job, gpurt_job_begin), or measure one thread at a time"
        )
    size = per_job or 1
    whole, rest = divmod(len(found), size)
    if rest and not cut:
        raise RuntimeFailure(f"{len(found)} GPU segments are no whole number of jobs of --segments {size}")
    return Jobs(tuple(MeasuredJob(tuple(found[at * size : (at + 1) * size])) for at in range(whole)), outside=rest)
