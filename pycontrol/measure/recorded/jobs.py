# SPDX-License-Identifier: GPL-2.0
"""Jobs of a recording: windows of a process, from the begin of a range to its end, or to the begin of the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pycontrol.measure.recorded.segments import Segment
from pycontrol.measure.recorded.store import Recording

#: The marks of jobs: ranges; without ranges, calls of one name, or calls that launch kernels of one name.
NAMED = {
    "range": "SELECT name, start, end FROM mark WHERE process = ? ORDER BY start, end DESC",
    "call": "SELECT name, start, end FROM call WHERE process = ? ORDER BY start, end DESC",
    "kernel": "SELECT w.name, c.start, c.end FROM work AS w JOIN call AS c ON c.process = w.process AND c.id = w.id "
              "WHERE w.process = ? ORDER BY c.start, c.end DESC",
}  # fmt: skip


def _plain(name: str) -> str:
    """A name without the numbers that it carries."""
    return re.sub(r"\d+", "#", name)


@dataclass(slots=True)
class RecordedJob:
    """A job: its number among those of the recording, from 1; when it began and ended, ns; its GPU segments."""

    number: int
    start: int
    end: int
    segments: list[Segment] = field(default_factory=list)

    def spans(self) -> Iterator[int]:
        """Its CPU segments: before, between and after its GPU segments; ns."""
        at = self.start
        for segment in self.segments:
            yield max(segment.start - at, 0)
            at = segment.end or at
        yield max(self.end - at, 0)


@dataclass(slots=True)
class RecordedJobs:
    """The jobs of a process, in order of time: ``all`` that were recorded, and ``jobs``, those that count.

    ``what``: what a job begins with, a "range", a "call" or a "kernel"; ``how``: where it ends, in words.
    ``crossing``: the numbers of jobs whose begin or end a segment crosses; ``never``: such a segment has no end, or
    lasts for several jobs.
    ``outside``: segments in no job.  ``left``: why jobs were left out, in words.
    """

    what: str
    all: Sequence[RecordedJob]
    how: str = ""
    jobs: list[RecordedJob] = field(default_factory=list)
    crossing: list[int] = field(default_factory=list)
    never: bool = False
    outside: list[Segment] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def distances(those: Sequence[RecordedJob]) -> tuple[int, int, int] | None:
    """The shortest, median and longest time between two begins, ns; None for a single job."""
    apart = sorted(other.start - one.start for one, other in pairwise(those))
    return (apart[0], apart[len(apart) // 2], apart[-1]) if apart else None


def _add(those: list[RecordedJob], start: int, end: int) -> None:
    """Adds a range; a range inside another one of its name counts as a part of that."""
    if not those or end > those[-1].end or start >= those[-1].end:
        those.append(RecordedJob(len(those) + 1, start, end))


def offered(recording: Recording, process: int) -> dict[str, list[RecordedJob]]:
    """The ranges of a process by their names without numbers, the longest total time first."""
    found: dict[str, list[RecordedJob]] = {}
    for name, start, end in recording.data.execute(NAMED["range"], (process,)):
        _add(found.setdefault(_plain(name), []), start, end)
    return dict(sorted(found.items(), key=lambda one: sum(job.start - job.end for job in one[1])))


def chosen_jobs(offers: Mapping[str, Sequence[RecordedJob]]) -> str:
    """The jobs that need no choice: the profiler's steps, or the only name; "": the user has to say."""
    several = [name for name, those in offers.items() if len(those) > 1]
    step = _plain("ProfilerStep#1")
    return step if step in several else several[0] if len(offers) == len(several) == 1 else ""


def job_windows(recording: Recording, process: int, job: str) -> tuple[str, list[RecordedJob]]:
    """The kind of thing that has the name, "range", "call" or "kernel", and where these are; "" if nothing has it.

    A name counts as it is, without its numbers, or as a regular expression.
    """
    try:
        pattern = re.compile(job)
    except re.error:  # a name
        pattern = re.compile(re.escape(job))
    for what, query in NAMED.items():
        found: list[RecordedJob] = []
        for name, start, end in recording.data.execute(query, (process,)):
            if job in (name, _plain(name)) or pattern.fullmatch(name):
                _add(found, start, end)
        if found:
            return what, found
    return "", []


def divided(what: str, those: Sequence[RecordedJob], segments: Sequence[Segment], slack: int) -> RecordedJobs:
    """The jobs: each from the begin of a range to its end if no segment crosses that, else to the next begin.

    ``slack``: what the recording's clock rounds, ns.
    """
    found = None
    if what == "range":
        found = RecordedJobs(what, those, "from the begin of a range to its end")
        found = _divided(found, [one.end for one in those], segments, slack)
    if found is None or found.crossing:
        how = "from one begin to the next; a job ends with its range or its last segment, whichever is later"
        again = _divided(RecordedJobs(what, those, how), [one.start for one in those[1:]], segments, slack)
        again.left.append("the last one: where it ends is not in the recording")
        if found is None or not again.crossing:
            return again
    return found


def _divided(found: RecordedJobs, limits: Sequence[int], segments: Sequence[Segment], slack: int) -> RecordedJobs:
    """Puts each segment into the job that it begins in, if it ends before that one's limit."""
    made = [replace(one, segments=[]) for one in found.all[: len(limits)]]
    cut, at, open_end = False, 0, len(limits) == len(found.all)
    crossing = set[int]()
    for segment in segments:
        while at < len(made) and limits[at] <= segment.start:
            at += 1
        inside = at < len(made) and made[at].start <= segment.start + slack
        if segment.end is None and inside and open_end and at == len(made) - 1:
            cut = True  # the recording may end before a wait that it had
        elif segment.end is not None and inside and segment.end <= limits[at] + slack:
            made[at].segments.append(segment)
            made[at].end = max(made[at].end, segment.end)
        elif not inside and (at == len(made) or (segment.end or 2**63) <= made[at].start + slack):
            found.outside.append(segment)
        else:
            last = at
            while last < len(made) and (segment.end is None or made[last].start < segment.end):
                last += 1
            crossing.update(range(at + 1, last + 1))
            found.never = found.never or segment.end is None or last - at > 2
    orphans = [one.number for one in made if any(segment.orphan for segment in one.segments)]
    if orphans:
        first = "the first one" if orphans == [1] else f"{len(orphans)} jobs ({numbers(orphans)})"
        found.left.append(f"{first}: GPU work in it was launched before the recording began, or by an unknown call")
    if cut:
        found.left.append("the last one: no wait of the recording proves that its GPU work was over")
    found.jobs = [one for one in made[: len(made) - cut] if one.number not in crossing and one.number not in orphans]
    found.crossing = sorted(crossing)
    return found


def numbers(those: Sequence[int], most: int = 5) -> str:
    """Numbers of jobs, the first few."""
    return ", ".join(f"#{one}" for one in those[:most]) + (", ..." if len(those) > most else "")
