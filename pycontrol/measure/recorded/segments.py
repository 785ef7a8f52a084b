# SPDX-License-Identifier: GPL-2.0
"""Segments by proof: from the first GPU work after idle to a wait that proves that all of the process's work is over.

A wait proves that of the work in its scope only.  Nearness in time proves nothing, for the clocks of CPU and GPU differ
a little.  Time can refute a wait.
"""

from __future__ import annotations

import heapq
import sqlite3
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from gpurt.text import visible
from pycontrol.measure.recorded.store import DOWNLOAD, PAGEABLE, Recording

#: How much later than the wait for it work may seem to end, ns: what the clocks of CPU and GPU were seen to differ,
#: times four.
SKEW = 5_000
LAUNCHES = """
SELECT coalesce(c.start, w.start), coalesce(c.end, w.start), c.thread, w.context, w.stream, w.start, w.end,
  c.id IS NULL, op(c.name) LIKE '%copy' FROM work AS w LEFT JOIN call AS c ON c.process = w.process AND c.id = w.id
WHERE w.process = ? ORDER BY 1
"""
WAITS = """
SELECT c.start, c.end, c.thread, c.name, op(c.name), c.result, s.context, s.stream, r.start, r.thread, c.end
FROM call AS c LEFT JOIN scope AS s ON s.process = c.process AND s.id = c.id
LEFT JOIN call AS r ON r.process = c.process AND r.id = s.record
WHERE c.process = ? AND op(c.name) NOT IN ('', 'copy', 'async copy') ORDER BY 2
"""
#: While its own copy is under way the host may copy as well, so that this part of a download is no waiting.
DOWNLOADS = f"""
SELECT c.start, c.end, c.thread, c.name, 'download', c.result, w.context, w.stream, NULL, NULL,
  min(c.end, max(c.start, w.start)) FROM work AS w JOIN call AS c ON c.process = w.process AND c.id = w.id
WHERE w.process = ? AND (w.kind = '{PAGEABLE}' AND op(c.name) LIKE '%copy'
  OR w.kind = '{DOWNLOAD}' AND op(c.name) = 'copy') ORDER BY 2
"""


@dataclass(slots=True)
class Segment:
    """A GPU segment of a process.  Times are ns.

    ``end``: when the wait that proves its end was over; None: none does.  ``busy``: how long the GPU executed its work.
    ``spent``: all other time, and the time in which its thread does not wait meanwhile: all its CPU work is in it.
    ``idle``: the part of that in which the thread waits and the GPU executes nothing.
    ``orphan``: work of it was launched before the recording began, or by a call that is not in it.
    """

    start: int
    end: int | None = None
    proof: str = ""
    busy: int = 0
    spent: int = 0
    idle: int = 0
    orphan: bool = False
    threads: set[int] = field(default_factory=set)


class Replay:
    """Goes through the launches and waits of a process, in order of time.

    ``waits``: by call and by what it proves, how many there were, and how long in all, ns.  ``skew``, ``early``: how
    much later than its wait work seemed to end, and how much before its launch to begin, at most, ns.  ``never``: by
    stream, how much work no wait is for.
    """

    def __init__(self, recording: Recording, process: int) -> None:
        self.recording, self.process = recording, process
        self.waits: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.skew = self.early = 0
        found = recording.rows("SELECT DISTINCT context, stream FROM work WHERE process = ?", process)
        self.places = [(str(context), stream) for context, stream in found]
        #: A context by its own number: ids of contexts are unique in a process, or else it is unknown which it is.
        self.contexts = {context: context for context, _ in self.places}
        numbers = Counter(context.partition("/")[2] for context in self.contexts)
        self.contexts |= {context.partition("/")[2]: context for context in [*self.contexts]
                          if numbers[context.partition("/")[2]] == 1}  # fmt: skip
        #: By stream, the work that no wait has proved to be over: its launch's begin, end and thread, and its end.
        self.pending: dict[tuple[str, int], deque[tuple[int, int, int | None, int]]] = defaultdict(deque)
        self.here: Segment | None = None
        self.work, self.waited = (array("q"), array("q")), (array("q"), array("q"))
        #: By thread, when it waited for its GPU work.
        self.asleep: dict[int, tuple[array[int], array[int]]] = defaultdict(lambda: (array("q"), array("q")))
        self.segments = list(self._segments())
        left = [(*place, len(work)) for place, work in self.pending.items() if work]
        self.never = {visible(f"stream {stream} of device/context {place}"): many for place, stream, many in left}

    def _segments(self) -> Iterator[Segment]:
        """The segments, the last of which may have no end."""
        rows = self.recording.data.execute
        streams = [
            ((row[0], 0 if row[8] else 2, row) for row in rows(LAUNCHES, (self.process,))),
            ((row[1], 1, row) for row in rows(WAITS, (self.process,))),
            ((row[1], 1, row) for row in rows(DOWNLOADS, (self.process,))),
        ]
        for _, order, row in heapq.merge(*streams, key=lambda one: one[:2]):
            if order != 1:
                self._launch(row)
            elif (closed := self._wait(row)) is not None:
                yield closed
        if self.here:
            self._measure(self.here)
            yield self.here

    def _launch(self, row: sqlite3.Row) -> None:
        start, end, thread, context, stream, begun, done, orphan, _ = row
        if self.here is None:
            self.here = Segment(start)
            self.work, self.waited = (array("q"), array("q")), (array("q"), array("q"))
        self.pending[context, stream].append((start, end, thread, done))
        self.early = max(self.early, start - begun)
        self.here.orphan = self.here.orphan or bool(orphan)
        if thread is not None:
            self.here.threads.add(thread)
        self.work[0].append(begun)
        self.work[1].append(done)

    def _wait(self, row: sqlite3.Row) -> Segment | None:
        """Takes the work away that a wait proves to be over; the segment that it ends, if it ends one."""
        start, end, thread, name, kind = row[:5]
        places, why = self._scope(row)
        bound = (row[8], row[9]) if kind.startswith("event") else (start, thread)
        over = {place: [*takewhile(partial(_before, *bound), self.pending[place])] for place in places}
        latest = max((done for those in over.values() for *_, done in those), default=-(2**62))
        if latest > end + SKEW + self.recording.resolution:
            over, latest, why = {}, -(2**62), "nothing: time refutes it"
        self.skew = max(self.skew, latest - end)
        said = self.waits[name, why]
        said[0] += 1
        said[1] += end - start
        if self.here is None:
            return None
        if "query" not in kind:
            for spans in (self.waited, self.asleep[thread]):
                spans[0].append(start)
                spans[1].append(row[10])
            self.here.threads.add(thread)
        for place, those in over.items():
            for _ in those:
                self.pending[place].popleft()
        if any(self.pending.values()):
            return None
        closed, self.here = self.here, None
        closed.end, closed.proof = end, why
        self._measure(closed)
        return closed

    def _scope(self, row: sqlite3.Row) -> tuple[list[tuple[str, int]], str]:
        """The streams whose earlier work a wait proves complete, and the proof in words; or none, and why."""
        kind, result, context, stream, record = row[4:9]
        if result:
            return [], "nothing: the work was not over" if "query" in kind else "nothing: it failed"
        if "query" in kind and result is None:
            return [], "nothing: its result is not recorded"
        if context is not None:
            context = self.contexts.get(str(context))
        if kind == "device":
            wanted = {context} if context else {place[0] for place in self.places}
            if len(wanted) > 1:
                return [], "nothing: it is of an unknown device"
            return [place for place in self.places if place[0] in wanted], "the device"
        if kind.startswith("event"):
            known = record is not None and stream is not None
            return ([(context, stream)], "an event") if known else ([], "nothing: its event's record is unknown")
        if stream is not None and context is not None:
            return [(context, stream)], "a download" if kind == "download" else "its stream"
        only = len(self.places) == 1
        return (self.places, "the only stream") if only else ([], "nothing: it is of an unknown stream")

    def _measure(self, segment: Segment) -> None:
        """Divides the time of a segment.  Where several threads act, all of it may be CPU work."""
        end = max(self.work[1]) if segment.end is None else segment.end
        busy, waits = (merged_intervals(zip(*spans, strict=True)) for spans in (self.work, self.waited))
        asleep = both(busy, waits)
        segment.busy = sum(until - begin for begin, until in busy)
        segment.idle = both(waits, [(segment.start, end)]) - asleep
        segment.spent = end - segment.start - (asleep if len(segment.threads) == 1 else 0)


def _before(at: int, thread: int, one: tuple[int, int, int | None, int]) -> bool:
    """Whether work was launched before a call of that thread: on another thread, its launch must have returned."""
    return one[0] <= at if one[2] == thread else one[1] <= at


def merged_intervals(spans: Iterable[tuple[int, ...]]) -> list[tuple[int, int]]:
    """The intervals that cover the same time and do not overlap, in order."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def both(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """How long both cover the time."""
    total = at = 0
    for begin, end in one:
        while at < len(other) and other[at][1] <= begin:
            at += 1
        then = at
        while then < len(other) and other[then][0] < end:
            total += min(end, other[then][1]) - max(begin, other[then][0])
            then += 1
    return total
