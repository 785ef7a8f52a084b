# SPDX-License-Identifier: GPL-2.0
"""A process of a recording that uses the GPU: its jobs, the reasons against a task, and the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from analysis.taskset import task_name
from gpurt.text import visible
from gpurt.units import UNKNOWN_TIME, format_time
from pycontrol.measure.entry import percent
from pycontrol.measure.recorded import jobs
from pycontrol.measure.recorded.segments import Replay, both, merged_intervals
from pycontrol.measure.recorded.store import Recording
from pycontrol.measure.summary import enlarged
from pycontrol.output import render

#: The share of a wait for the GPU that a thread was on its CPU: from the first on it waits busily, up to the second
#: suspended.
BUSY, SUSPENDED = Fraction(9, 10), Fraction(1, 10)
#: How much before its launch work may seem to begin, ns, until clocks count as wrong.
EARLY = 1_000_000
APART = "begins were {} to {} ms apart, {} in the middle: no period, for a loop that waits for itself has none"
LAUNCHED_SQL = ("SELECT c.start, w.end - w.start FROM work AS w JOIN call AS c ON c.process = w.process "
                "AND c.id = w.id WHERE w.process = ? ORDER BY c.start")  # fmt: skip
#: Nothing bounds a time from below: the profiler, other threads and other GPU work may be in each that was seen.
SPAN = '{{ worst = "{}", best = "0ns" }}'


@dataclass(frozen=True, slots=True)
class Value:
    """The longest and the shortest time of a part of each job, ns, and the number of the job that had the longest.

    ``what``: "cpu", "misc", "idle" or "gpu"; ``segment``: which, from 1.
    """

    what: str
    segment: int
    worst: int
    best: int
    job: int


class Account:
    """A process of a recording: its jobs, if they are known, and what speaks against a task.

    ``job``: the name of its jobs; "": nothing says it.  ``spins``: how long threads were on a CPU while they waited for
    the GPU, and how long they waited, ns; None: not recorded.
    """

    def __init__(self, recording: Recording, process: int, job: str | None) -> None:
        self.recording, self.process = recording, process
        self.replay = Replay(recording, process)
        self.offered = jobs.offered(recording, process)
        self.job = job or jobs.chosen_jobs(self.offered)
        what, those = jobs.job_windows(recording, process, self.job) if self.job else ("", [])
        segments, slack = self.replay.segments, recording.resolution
        self.found = jobs.divided(what, those, segments, slack) if those else None
        self.spins = self._spins()
        self.against = list(self._against(self.found))

    @property
    def name(self) -> str:
        """How messages name the process."""
        named = self.recording.names.get(self.process)
        return f"process {visible(self.process)}" + (f" ({visible(named)})" if named else "")

    def values(self, found: jobs.RecordedJobs) -> Iterator[Value]:
        """The times of the parts of its jobs, in order."""
        made = found.jobs
        pieces = [list(job.spans()) for job in made]
        for at in range(len(pieces[0])):
            times = {"cpu": [piece[at] for piece in pieces]}
            if at:
                here = [job.segments[at - 1] for job in made]
                times = {"misc": [one.spent for one in here], "idle": [one.idle for one in here],
                         "gpu": [one.busy for one in here]} | times  # fmt: skip
            for what, those in times.items():
                where = those.index(max(those))
                yield Value(what, at + (what == "cpu"), those[where], min(those), made[where].number)

    def _against(self, found: jobs.RecordedJobs | None) -> Iterator[str]:
        """Why no task can be made of it."""
        if self.replay.early > EARLY:
            early = format_time(self.replay.early)
            yield f"GPU work begins {early} before its launch: the clocks of CPU and GPU do not agree"
        if found is None:
            unsaid = "nothing says what its jobs are: name a range, a call or a kernel with --job"
            yield "nothing in it has the name of --job" if self.job else unsaid
            return
        slack = self.recording.resolution
        if many := sum(other.start < one.end - slack for one, other in pairwise(found.all)) * (found.what == "range"):
            yield f"{many} jobs begin before the one before them ends: they are of several tasks"
        if found.crossing:
            yield self._crossing(found)
        elif not found.jobs:
            yield "no job is left whose begin and end are known"
        sizes = Counter(len(job.segments) for job in found.jobs)
        if len(sizes) > 1:
            several = ", ".join(f"{many} of {size}" for size, many in sorted(sizes.items()))
            yield f"jobs have different numbers of GPU segments ({several}): give each mode of the program a --job"

    def _crossing(self, found: jobs.RecordedJobs) -> str:
        """The meaning of GPU work that crosses the end of a job."""
        said = f"GPU work crosses the end of {len(found.crossing)} jobs ({jobs.numbers(found.crossing)}): "
        unknown = sum(many for (_, why), (many, _) in self.replay.waits.items() if "unknown" in why)
        if not found.never:
            return said + "a wait proves only later that it was over; name a range with --job that has launch and wait"
        if unknown:
            return said + f"the recording does not say what {unknown} of its waits are for, so these prove nothing"
        return said + ("this program never waits for its GPU there: under automatic segments it would hold the GPU for "
                       "the whole run; mark its segments (docs/library.md)")  # fmt: skip

    def launched(self, found: jobs.RecordedJobs) -> Value:
        """How long the GPU work in all takes that is launched from the begin of a job to the next."""
        times = dict.fromkeys(range(len(found.all)), 0)
        at = -1
        for start, length in self.recording.rows(LAUNCHED_SQL, self.process):
            while at + 1 < len(found.all) and found.all[at + 1].start <= start:
                at += 1
            if at >= 0:
                times[at] += length
        where = max(times, key=lambda one: times[one])
        return Value("launched", 0, times[where], min(times.values()), found.all[where].number)

    def _spins(self) -> tuple[int, int] | None:
        on = total = 0
        for thread, spans in self.replay.asleep.items():
            rows = self.recording.rows("SELECT start, end FROM run WHERE thread = ?", thread)
            if runs := merged_intervals(tuple(row) for row in rows):
                waits = merged_intervals(zip(*spans, strict=True))
                on += both(waits, runs)
                total += sum(end - start for start, end in waits)
        return (on, total) if total else None

    def warnings(self, found: jobs.RecordedJobs) -> Iterator[str]:
        """The facts that the user should know beside the times of the task."""
        if found.outside:
            longest = render.ms(max(segment.busy for segment in found.outside))
            yield (f"{len(found.outside)} GPU segments of the process are in no job, and in no time here; the longest "
                   f"has {longest} ms of GPU work: make a task of it, too")  # fmt: skip
        if any(len(segment.threads) > 1 for job in found.jobs for segment in job.segments):
            yield "several threads use the GPU in a segment: misc is all of its time, and their CPU time may be more"
        if others := self.recording.count("SELECT count(DISTINCT process) FROM work WHERE process != ?", self.process):
            yield f"{others} other processes of the recording use the GPU"
        if self.recording.resolution > 1:
            yield f"the clock counts in {format_time(self.recording.resolution)}: times may be that much longer"


def recorded_entry(one: Account, found: jobs.RecordedJobs, margin: Fraction, name: str) -> str:
    """The [[task]] of a process, with a ? for each value that the recording does not say."""
    apart = jobs.distances(found.all)
    said = f"; {APART.format(*map(render.ms, (apart[0], apart[2], apart[1])))}" if apart else ""
    return "\n".join([
        f"# From {visible(one.recording.path.name)} ({one.recording.made_by}), {one.name}.",
        f"# Jobs: {visible(one.job)}, {found.how}.",
        f"# Longest times seen in {len(found.jobs)} jobs, with a margin of {percent(margin)}: no bounds.",
        "# Other work on the GPU may be in them.",
        *(f"# Left out: {why}." for why in found.left),
        *(f"# WARNING: {why}." for why in one.warnings(found)),
        "[[task]]",
        f'name = "{task_name(name.strip("# "))}"',
        f'cpu = "{UNKNOWN_TIME}"  # not in a recording, as its priority',
        f'priority = "{UNKNOWN_TIME}"',
        f'period = "{UNKNOWN_TIME}"  # no timer is in the recording{said}',
        f'deadline = "{UNKNOWN_TIME}"',
        *([_waiting(one)] if found.jobs[0].segments else []),
        "segments = [",
        *_parts(one, found, margin),
        "]",
    ])  # fmt: skip


def _waiting(one: Account) -> str:
    if one.spins is None:
        why = "when threads executed is not recorded; CUDA spins unless it is told otherwise"
        return f'waiting = "{UNKNOWN_TIME}"  # {why}'
    share = Fraction(*one.spins)
    word = "busy" if share >= BUSY else "suspend" if share <= SUSPENDED else UNKNOWN_TIME
    waited = format_time(one.spins[1])
    return f'waiting = "{word}"  # threads were on a CPU for {float(share * 100):.1f} % of {waited} of waiting'


def _parts(one: Account, found: jobs.RecordedJobs, margin: Fraction) -> Iterator[str]:
    """The segments.  Times are wall time, for a recording does not say when a job's thread executed."""
    spans, idle = {}, ""
    for value in one.values(found):
        spans[value.what] = SPAN.format(format_time(enlarged(value.worst, margin)))
        where = f"{len(found.jobs)} jobs and {percent(margin)}, the longest in job #{value.job}"
        if value.what == "cpu" and value.worst:
            yield f"  {{ cpu = {spans['cpu']} }},  # wall time; {where}"
        elif value.what == "idle":
            idle = format_time(value.worst)
        elif value.what == "gpu":
            yield (f"  {{ misc = {spans['misc']}, gpu = {spans['gpu']} }},  # misc: wall time, of which up to {idle} "
                   f"is neither CPU nor GPU work; gpu: {where}")  # fmt: skip
