# SPDX-License-Identifier: GPL-2.0
"""The report on a recording, for people, and the tasks that can be made of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from analysis.traces.trace import GZIP, SQLITE
from gpurt.errors import FileError, UsageError
from gpurt.text import filename, visible
from gpurt.units import format_time
from pycontrol.measure.recorded import jobs, kineto, nsys, ros2
from pycontrol.measure.recorded.account import Account, recorded_entry
from pycontrol.measure.recorded.store import Recording
from pycontrol.output import render

#: How many names of ranges the report shows.
MAX_RANGE_NAMES = 12
#: A launch of that length may have waited, ns.
LONG = 1_000_000
KNOWN = "a Chrome trace of PyTorch's profiler, an SQLite export of Nsight Systems, or a folder of ros2_tracing"
WORDS = {"cpu": "CPU before, between, after", "misc": "G^m", "idle": "  in it: thread waits, GPU idle", "gpu": "G^e"}
OF = " FROM work WHERE process = ?"
LAUNCHED_OF_PROCESS = " FROM call JOIN work USING (process, id) WHERE process = ?"


def _read(path: Path) -> Recording:
    """Reads a recording, whatever its form.  Raises FileError if it is none, or is damaged."""
    try:
        raw = path.open("rb")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise FileError(f"{filename(path)}: {why}; name a recording of a profiler") from None
    with raw:
        head, size = raw.peek(16)[:16], os.fstat(raw.fileno()).st_size
        with render.progress(size, f"reading {filename(path)}") as bar:
            if head == SQLITE:
                return nsys.read_nsys(path, lambda: bar.reach(min(bar.pos + size // 100, size)))
            if path.suffix in (".nsys-rep", ".qdrep"):
                raise FileError(f"{filename(path)}: `nsys export --type sqlite` makes a file of it that can be read")
            if head.startswith(GZIP) or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
                return kineto.read_kineto(path, raw, lambda: bar.reach(raw.tell()))
    raise FileError(f"{filename(path)}: is no recording that is known: {KNOWN}")


def of_files(paths: Sequence[Path], job: str | None, margin: Fraction) -> tuple[str, list[str]]:
    """The report on recordings, and the entries of the tasks that can be made of them.

    Raises:
        FileError: a file cannot be read.
        UsageError: nothing in any of them has the name of ``job``.
    """
    reports, tasks, names, known = [], list[str](), set[str](), not job
    for path in paths:
        if path.is_dir():
            said, made = ros2.report(path, margin, ros2.Executors(ros2.events(path)))
            reports.append(said)
            tasks += made
            continue
        recording = _read(path)
        if not recording.count("SELECT count(*) FROM work"):
            recording.against.append("it has no GPU work: the GPU was not recorded, or the program does not use it")
        those = [Account(recording, process, job) for process in recording.processes()]
        those = [one for one in those if one.replay.segments or one.found]
        known = known or any(one.found for one in those)
        reports.append("\n".join(_report(recording, those)))
        for one in those:
            if one.found and not one.against and not recording.against:
                name = one.job if one.job not in names else f"{one.job[:40]}-{one.process}-{len(names)}"
                names.add(name)
                tasks.append(recorded_entry(one, one.found, margin, name))
    if not known:
        raise UsageError(f"--job {visible(job)[:80]}: no range, call or kernel of the recording has that name")
    return "\n\n".join(reports), tasks


def _report(recording: Recording, those: Sequence[Account]) -> Iterator[str]:
    events = "(SELECT start, end FROM call UNION ALL SELECT start, end FROM work UNION ALL SELECT start, end FROM mark)"
    length = recording.count(f"SELECT max(end) - min(start) FROM {events}")
    clock = format_time(recording.resolution)
    yield f"{filename(recording.path)}: {recording.made_by}; {render.ms(length)} ms, its clock counts in {clock}"
    yield from (f"note: {why}" for why in recording.notes)
    yield from (f"NO TASKSET: {why}" for why in recording.against)
    for one in those:
        yield from ("", *_process(one), *(f"NO TASK: {why}" for why in one.against))
    if recording.lacks:
        yield from ("", *(f"not recorded: {what}" for what in recording.lacks))


def _process(one: Account) -> Iterator[str]:
    count, process, seen = one.recording.count, one.process, one.replay
    threads, graphs = (count(f"SELECT count(DISTINCT {what}){LAUNCHED_OF_PROCESS}{more}", process) for what, more in (
        ("thread", ""), ("id", " AND call.name LIKE '%GraphLaunch%'")))  # fmt: skip
    works = count(f"SELECT count(*){OF}", process)
    launched = count(f"SELECT count(DISTINCT work.rowid){LAUNCHED_OF_PROCESS}", process)
    more = f"; launches of graphs: {graphs}" if graphs else ""
    yield f"{one.name}: pieces of GPU work: {works}; streams: {len(seen.places)}; threads that launch: {threads}{more}"
    if works > launched:
        yield f"{works - launched} pieces have no launch in the recording: it was before, or the call is missing"
    if seen.waits:
        yield from ("", render.table(("wait", "calls", "ms", "proves the end of the work of"), (
            (name, str(many), render.ms(time), why)
            for (name, why), (many, time) in sorted(seen.waits.items()))))  # fmt: skip
    launches = f"SELECT max(call.end - call.start){LAUNCHED_OF_PROCESS} AND op(call.name) = ''"
    if (longest := count(launches, process)) > LONG:
        yield f"the longest launch took {render.ms(longest)} ms: one that waits for room in a queue counts as CPU work"
    if max(seen.skew, seen.early) > 0:
        late, early = format_time(max(seen.skew, 0)), format_time(max(seen.early, 0))
        yield f"the clocks of CPU and GPU differ: work ends {late} after its wait, begins {early} before its launch"
    if count("SELECT count(*) FROM call WHERE process = ? AND name LIKE 'the profiler%'", process):
        yield "the profiler's own wait at the end of the recording ends no segment"
    yield from (f"{stream}: no wait proves that its last {many} pieces end" for stream, many in seen.never.items())
    if one.offered:
        apart = {name: jobs.distances(those) for name, those in one.offered.items()}
        yield from ("", render.table(("range", "times", "shortest ms", "middle ms", "longest ms"), (
            (name, str(len(those)), *map(render.ms, apart[name] or (None,) * 3))
            for name, those in [*one.offered.items()][:MAX_RANGE_NAMES])))  # fmt: skip
        more = f"; {len(one.offered) - MAX_RANGE_NAMES} more" if len(one.offered) > MAX_RANGE_NAMES else ""
        yield f"(ms: from begin to begin; # stands for a number{more})"
    if one.found:
        yield from ("", *_jobs(one, one.found))


def _jobs(one: Account, found: jobs.RecordedJobs) -> Iterator[str]:
    yield f"jobs: {visible(one.job)}, {len(found.all)} times, {found.how}; {len(found.jobs)} of them count"
    yield from (f"left out: {why}" for why in found.left)
    proofs = Counter(segment.proof for job in found.jobs for segment in job.segments)
    if found.jobs:
        proved = ", ".join(f"{many} by a wait for {proof}" for proof, many in sorted(proofs.items()))
        yield f"GPU segments in these: {sum(proofs.values())}" + (f", ended: {proved}" if proved else "")
    if one.against and one.replay.segments:
        value = one.launched(found)
        yield (f"GPU work that is launched from one begin to the next, in all: at most {render.ms(value.worst)} ms (in "
               f"#{value.job}), at least {render.ms(value.best)} ms")  # fmt: skip
    if len({len(job.segments) for job in found.jobs}) == 1:
        yield from ("", render.table(("part of a job", "segment", "longest ms", "in job", "shortest ms"), (
            (WORDS[value.what], str(value.segment), render.ms(value.worst), f"#{value.job}", render.ms(value.best))
            for value in one.values(found))))  # fmt: skip
        yield "(CPU and G^m: wall time)"
    if one.spins:
        share = 100 * one.spins[0] / one.spins[1]
        yield f"its threads were on a CPU for {share:.1f} % of {render.ms(one.spins[1])} ms of waiting for the GPU"
    yield from (f"warning: {why}" for why in one.warnings(found))
