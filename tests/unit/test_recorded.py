# SPDX-License-Identifier: GPL-2.0
"""`gpurt init --from`: segments by proof, jobs, and no taskset where a recording does not say enough."""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from calls import Gpurt, caller
from recordings import PROCESS, Made, kineto, nsys

from analysis import taskset
from analysis.simulation.simulate import Options, simulate
from analysis.traces.trace import Kind
from gpurt.units import parse_time
from pycontrol.measure.recorded.segments import Replay
from pycontrol.measure.recorded.store import Recording

ROOT = Path(__file__).resolve().parents[2]
#: The begin, the end, the thread and the stream of a call; stream -1: all.
Launch = tuple[int, int, int, int]
US, MS = 1_000, 1_000_000
#: Kineto has 16 digits before the point, and Nsight Systems counts from the begin of the recording.
BASE = {"kineto": 1_707_417_525_509_335_000, "nsys": -3 * MS}
SYSTEM = """
[platform]
policy = "segment"
cpus = 1
alpha = "0ns"
theta = "0ns"
[[task]]
name = "camera"
cpu = 0
priority = 10
period = "20ms"
segments = [{ cpu = "1.25ms" }, { misc = "0.3ms", gpu = "4.007ms" }, { cpu = "0.5ms" },
            { misc = "0.201ms", gpu = "2ms" }]
"""


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd, "init", "--from")


@dataclass
class Writer:
    """Writes a recording in one of the formats, whose clock begins at ``base``."""

    path: Path

    @property
    def base(self) -> int:
        return BASE["nsys" if self.path.suffix == ".sqlite" else "kineto"]

    def __call__(self, made: Made) -> Path:
        if self.path.suffix == ".sqlite":
            return nsys(self.path, made, newest=self.path.stem == "new")
        return kineto(self.path, made)


@pytest.fixture(params=["run.json", "run.json.gz", "new.sqlite", "old.sqlite"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Writer:
    return Writer(tmp_path / request.param)


def jobs(end: Callable[[Made, int], object], count: int = 3, until: int = 8 * MS, start: int = 0) -> Made:
    """Jobs of one launch each, whose GPU work takes from 1.1 to 4 ms; ``end`` waits for it."""
    made = Made()
    for at in range(start, start + 10 * MS * count, 10 * MS):
        made.range(f"infer {len(made.ranges)}", at, at + until)
        made.launch(at + MS, at + MS + 50 * US, at + MS + 100 * US, at + 4 * MS)
        end(made, at)
    made.range("after", start + 10 * MS * count, start + 10 * MS * count + 1)
    made.launch(start + 10 * MS * count, start + 10 * MS * count, start + 10 * MS * count, start + 10 * MS * count + 1)
    made.wait(start + 10 * MS * count + MS, start + 10 * MS * count + MS + 1)  # it may be the profiler's own
    return made


def test_a_program_of_the_virtual_gpu_gives_the_file_of_its_times(write: Writer, gpurt: Gpurt, tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text(SYSTEM)
    trace = simulate(taskset.load(known).taskset, Options("segment", horizon=100 * MS), events=10_000).trace
    assert trace
    made, shift, begun, misc = Made(), BASE["kineto"], 0, 0
    for event in trace.events:
        at = shift + event.time
        if event.kind is Kind.BEGIN:
            begun = at
        elif event.kind is Kind.GPU and event.duration:
            made.launch(begun, at, at, at + event.duration)
            misc = at
        elif event.kind is Kind.END:
            made.wait(misc, at)
        elif event.kind is Kind.COMPLETE and event.duration:
            made.range(f"camera {event.job}", at - event.duration, at)
    made.launch(shift + 99 * MS, shift + 99 * MS, shift + 99 * MS, shift + 99 * MS + 1)
    made.wait(shift + 99 * MS + 1, shift + 99 * MS + 2)  # it may be the profiler's own
    code, out, _ = gpurt(write(made), "--job", "camera #", "--margin", "0%", "-o", tmp_path / "found.toml")
    assert code == 0, out
    text = (tmp_path / "found.toml").read_text()
    lines = [line for line in text.splitlines() if line.startswith("  {")]
    parts = [[parse_time(one) for one in re.findall(r'worst = "(\S+)"', line)] for line in lines]
    assert parts == [[1_250_000], [300_000, 4_007_000], [500_000], [201_000, 2_000_000]]
    assert set(re.findall(r'best = "(\S+)"', text)) == {"0ns"}  # what was seen bounds no time from below
    assert 'waiting = "?"' in text
    assert 'period = "?"' in text
    assert text.count("5 jobs and 0%, the longest in job #1") == 4
    filled = {"alpha": '"0ns"', "theta": '"0ns"', "cpu": "0", "cpus": "1", "priority": "10", "policy": '"segment"',
              "period": '"20ms"', "deadline": '"20ms"', "waiting": '"busy"'}  # fmt: skip
    text = re.sub(r'^(\w+) = "\?"', lambda one: f"{one[1]} = {filled[one[1]]}", text, flags=re.MULTILINE)
    (tmp_path / "filled.toml").write_text(text)
    response = taskset.load(tmp_path / "filled.toml").taskset.tasks[0]
    assert [part.time.worst for part in response.segments if hasattr(part, "time")] == [1_250_000, 500_000]


def event(made: Made, at: int, recorded: int = 2 * MS) -> None:
    record = made.record(at + recorded, at + recorded + 5 * US)
    made.wait(at + 3 * MS, at + 4 * MS + 5 * US, "cudaEventSynchronize", record=record)


def download(made: Made, at: int, name: str, memory: str) -> None:
    number = made.call(name, at + 2 * MS, at + 4 * MS + 10 * US)
    made.work(number, at + 4 * MS, at + 4 * MS + 8 * US, "DtoH", memory=memory)  # type: ignore[arg-type]


def upload(made: Made, at: int) -> None:
    number = made.call("cudaMemcpy", at + 2 * MS, at + 5 * MS)
    made.work(number, at + 4 * MS, at + 4 * MS + 8 * US, "HtoD")


def wait(name: str, end: int = 4 * MS + 5 * US, **more: object) -> Callable[[Made, int], object]:
    return lambda made, at: made.wait(at + 2 * MS, at + end, name, **more)  # type: ignore[arg-type]


DEVICE = wait("cudaDeviceSynchronize")
#: The calls that end a job's segment, and the proof that they do; "nothing": no taskset.
WAITS = {
    "device": (wait("cudaDeviceSynchronize"), "the device"),
    "driver": (wait("cuCtxSynchronize"), "the device"),
    "rocm": (wait("hipDeviceSynchronize", told=False), "the device"),
    "stream": (wait("cudaStreamSynchronize", stream=7), "its stream"),
    "only stream": (wait("cudaStreamSynchronize", told=False), "the only stream"),
    "other stream": (wait("cudaStreamSynchronize", stream=9), "nothing"),
    "event": (event, "an event"),
    "event recorded before the launch": (lambda made, at: event(made, at, MS - 50 * US), "nothing"),
    "event of unknown record": (wait("cudaEventSynchronize"), "nothing"),
    "pageable download": (lambda made, at: download(made, at, "cudaMemcpyAsync", "Pageable"), "a download"),
    "pinned download": (lambda made, at: download(made, at, "cudaMemcpyAsync", "Pinned"), "nothing"),
    "pinned download that waits": (lambda made, at: download(made, at, "cudaMemcpy", "Pinned"), "a download"),
    "upload": (upload, "nothing"),
    "skew": (wait("cudaDeviceSynchronize", 4 * MS - 1300), "the device"),
    "refuted": (wait("cudaDeviceSynchronize", 3 * MS), "nothing"),
    "none": (lambda made, at: None, "nothing"),
    "long launch": (lambda made, at: made.call("cudaLaunchKernel", at + 2 * MS, at + 5 * MS), "nothing"),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_wait_ends_a_segment_only_if_its_scope_is_proved(
    case: str, write: Writer, gpurt: Gpurt, tmp_path: Path
) -> None:
    end, proof = WAITS[case]
    code, out, _ = gpurt(write(jobs(end, start=write.base)), "--job", "infer #", "-o", tmp_path / "found.toml")
    if proof == "nothing":
        assert code == 1, out
        assert not (tmp_path / "found.toml").exists()
        assert "NO TASK: GPU work crosses the end of 3 jobs (#1, #2, #3)" in out
        assert "launched from one begin to the next, in all: at most 2.9" in out
        assert ("hold the GPU for the whole run" in out) == (case != "event of unknown record")
    else:
        assert code == 0, out
        assert f"GPU segments in these: 3, ended: 3 by a wait for {proof}" in out


@pytest.mark.parametrize(("result", "proved"), [(0, True), (600, False)])
@pytest.mark.parametrize("name", ["cudaStreamQuery", "cudaEventQuery"])
def test_a_query_ends_a_segment_only_where_its_result_is_recorded(
    name: str, result: int, proved: bool, gpurt: Gpurt, tmp_path: Path
) -> None:
    def end(made: Made, at: int) -> None:
        record = made.record(at + 2 * MS, at + 2 * MS + 5 * US)
        made.wait(at + 5 * MS, at + 5 * MS + US, name, result=result, stream=7, record=record)

    made = jobs(end)
    assert gpurt(nsys(tmp_path / "run.sqlite", made), "--job", "infer #")[0] == (0 if proved else 1)
    code, out, _ = gpurt(kineto(tmp_path / "run.json", made), "--job", "infer #")
    assert code == 1
    assert "its result is not recorded" in out


def test_a_wait_that_failed_ends_nothing(gpurt: Gpurt, tmp_path: Path) -> None:
    path = nsys(tmp_path / "run.sqlite", jobs(wait("cudaDeviceSynchronize", result=700)))
    code, out, _ = gpurt(path, "--job", "infer #")
    assert code == 1
    assert "nothing: it failed" in out


def test_a_range_around_the_launch_ends_before_the_work(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE, until=MS + 60 * US)
    code, out, _ = gpurt(write(made), "--job", "infer #")
    assert code == 0
    assert "from one begin to the next" in out
    assert "2 of them count" in out
    assert "left out: the last one: where it ends is not in the recording" in out


def test_ranges_within_one_of_their_name_are_a_part_of_it(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    for at in range(0, 30 * MS, 10 * MS):
        made.range("infer 7", at + MS, at + 2 * MS)
    code, out, _ = gpurt(write(made), "--job", "infer .*")
    assert code == 0, out
    assert "jobs: infer .*, 3 times" in out


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "kernel"])
def test_where_there_are_no_ranges_a_call_or_a_kernel_begins_a_job(name: str, write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    made.ranges.clear()
    path = write(made)
    code, out, _ = gpurt(path)
    assert code == 1
    assert "name a range, a call or a kernel with --job" in out
    assert "not recorded: where a job begins" in out
    code, out, _ = gpurt(path, "--job", name)
    assert code == 0
    assert "4 times, from one begin to the next" in out
    assert "3 of them count" in out


def test_a_job_is_a_window_of_a_process_and_not_of_a_thread(write: Writer, gpurt: Gpurt, tmp_path: Path) -> None:
    def end(made: Made, at: int) -> None:
        made.launch(at + MS + 100 * US, at + MS + 200 * US, at + 4 * MS, at + 5 * MS, thread=7)
        made.wait(at + 2 * MS, at + 5 * MS, thread=8)

    code, out, _ = gpurt(write(jobs(end)), "--job", "infer #", "--margin", "0%", "-o", tmp_path / "found.toml")
    text = (tmp_path / "found.toml").read_text()
    assert code == 0
    assert "threads that launch: 2" in out
    assert 'misc = { worst = "4ms"' in text
    assert 'gpu = { worst = "3.9ms"' in text
    assert "WARNING: several threads use the GPU in a segment" in text


def test_a_launch_of_another_thread_during_the_wait_is_not_covered(write: Writer, gpurt: Gpurt) -> None:
    def end(made: Made, at: int) -> None:
        made.launch(at + 2 * MS - US, at + 2 * MS + US, at + 2 * MS, at + 3 * MS, thread=7)
        made.wait(at + 2 * MS, at + 5 * MS)

    assert gpurt(write(jobs(end)), "--job", "infer #")[0] == 1


def test_a_job_with_work_from_before_the_recording_is_left_out(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    made.work(9_999, US, MS)
    code, out, _ = gpurt(write(made), "--job", "infer #")
    assert code == 0
    assert "2 of them count" in out
    assert "left out: the first one: GPU work in it was launched before" in out
    assert "1 pieces have no launch in the recording" in out


def test_jobs_with_different_numbers_of_segments_are_no_task(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    made.launch(5 * MS, 5 * MS, 5 * MS, 6 * MS)
    made.wait(6 * MS, 6 * MS + US)
    code, out, _ = gpurt(write(made), "--job", "infer #")
    assert code == 1
    assert "jobs have different numbers of GPU segments (2 of 1, 1 of 2)" in out


def test_work_in_no_job_is_told(write: Writer, gpurt: Gpurt, tmp_path: Path) -> None:
    made = jobs(DEVICE)
    made.launch(8 * MS + US, 8 * MS + US, 8 * MS + US, 9 * MS)
    made.wait(9 * MS, 9 * MS + US)
    code, out, _ = gpurt(write(made), "--job", "infer #", "-o", tmp_path / "found.toml")
    assert code == 0
    assert "GPU segments of the process are in no job" in out
    assert "make a task of it, too" in (tmp_path / "found.toml").read_text()


def test_the_wait_of_the_profiler_ends_no_segment(gpurt: Gpurt, tmp_path: Path) -> None:
    made = jobs(lambda made, at: None, count=1)
    code, out, _ = gpurt(kineto(tmp_path / "run.json", made), "--job", "infer #")
    assert code == 1
    assert "the profiler's own wait at the end of the recording ends no segment" in out


@pytest.mark.parametrize(("context", "waits", "ended"), [(2, (1,), False), (2, (1, 2), True), (1, (1, 1), False)])
def test_a_wait_for_one_gpu_does_not_end_work_of_another(
    context: int, waits: tuple[int, ...], ended: bool, write: Writer, gpurt: Gpurt
) -> None:
    """A context has one GPU.  Where ids of contexts repeat, it is unknown which one a wait is for."""
    def end(made: Made, at: int) -> None:
        made.launch(at + MS + 100 * US, at + MS + 110 * US, at + 2 * MS, at + 3 * MS, device=1, context=context)
        for number, awaited in enumerate(waits, 4):
            made.wait(at + number * MS, at + number * MS + MS, context=awaited)

    code, out, _ = gpurt(write(jobs(end)), "--job", "infer #")
    assert code == (0 if ended else 1)
    assert ended or f"stream 7 of device/context 1/{context}: no wait proves" in out


def test_many_works_of_one_launch_are_all_its_own(write: Writer, gpurt: Gpurt, tmp_path: Path) -> None:
    def end(made: Made, at: int) -> None:
        number = made.call("cudaGraphLaunch", at + MS + 60 * US, at + MS + 70 * US)
        made.work(number, at + 4 * MS, at + 5 * MS)
        made.work(number, at + 5 * MS, at + 6 * MS, stream=9)
        made.wait(at + 4 * MS, at + 6 * MS)

    code, out, _ = gpurt(write(jobs(end)), "--job", "infer #", "--margin", "0%", "-o", tmp_path / "found.toml")
    assert code == 0
    assert "launches of graphs: 3" in out
    assert 'gpu = { worst = "4.9ms"' in (tmp_path / "found.toml").read_text()


def test_the_time_in_which_a_thread_waits_for_an_idle_gpu_is_told(write: Writer, gpurt: Gpurt) -> None:
    code, out, _ = gpurt(write(jobs(wait("cudaDeviceSynchronize", 5 * MS))), "--job", "infer #", "--margin", "0%")
    assert code == 0
    assert re.search(r"in it: thread waits, GPU idle +1 +1\.000 ", out)
    assert re.search(r"G\^m +1 +2\.000 ", out)
    assert re.search(r"G\^e +1 +2\.900 ", out)


def test_ids_are_unique_in_a_process_only(gpurt: Gpurt, tmp_path: Path) -> None:
    one, other = jobs(DEVICE), jobs(DEVICE)
    other.process = PROCESS + 1
    code, out, _ = gpurt(nsys(tmp_path / "run.sqlite", one, other), "--job", "infer #", "-o", tmp_path / "found.toml")
    assert code == 0
    assert "1 other processes of the recording use the GPU" in out
    assert (tmp_path / "found.toml").read_text().count("[[task]]") == 2
    code, out, _ = gpurt(kineto(tmp_path / "run.json", one, other), "--job", "infer #")
    assert code == 1
    assert "NO TASKSET: the file joins processes" in out


def test_a_call_that_is_recorded_twice_is_one(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    for one in [one for one in made.calls if one["name"] == "cudaLaunchKernel"]:
        made.calls.append(one | {"name": "cuLaunchKernel", "end": max(one["start"], one["end"] - 1)})
    code, out, _ = gpurt(write(made), "--job", "infer #")
    assert code == 0, out
    assert "GPU segments in these: 3, ended" in out


def test_two_calls_of_one_id_are_no_recording(write: Writer, gpurt: Gpurt) -> None:
    made = jobs(DEVICE)
    made.calls.append(made.calls[0] | {"start": 7 * MS, "end": 8 * MS})
    code, out, _ = gpurt(write(made), "--job", "infer #")
    assert code == 1
    assert "two calls have the id" in out


def test_lost_events_and_clocks_that_jump_make_no_taskset(gpurt: Gpurt, tmp_path: Path) -> None:
    path = nsys(tmp_path / "lost.sqlite", jobs(DEVICE))
    with sqlite3.connect(path) as data:
        data.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid)")
        data.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 0, 0, 2, 'Not all CUDA events were collected', 0)")
    code, out, _ = gpurt(path, "--job", "infer #")
    assert code == 1
    assert "NO TASKSET: the profiler says: Not all CUDA events were" in out
    made = jobs(DEVICE)
    made.works[0] |= {"start": -20 * MS}
    code, out, _ = gpurt(nsys(tmp_path / "early.sqlite", made), "--job", "infer #")
    assert code == 1
    assert "before its launch: the clocks of CPU and GPU do not agree" in out
    made.works[0] |= {"start": 0, "end": -1}
    code, out, _ = gpurt(nsys(tmp_path / "back.sqlite", made), "--job", "infer #")
    assert code == 1
    assert "1 events end before they begin" in out


def test_calls_that_a_profiler_left_out_are_told(gpurt: Gpurt, tmp_path: Path) -> None:
    path = nsys(tmp_path / "run.sqlite", jobs(DEVICE))
    with sqlite3.connect(path) as data:
        data.execute("CREATE TABLE META_DATA_CAPTURE (name, value)")
        data.execute("INSERT INTO META_DATA_CAPTURE VALUES ('CUDA_SKIP_SOME_API_CALLS', 'true')")
    assert "a call that is missing proves nothing" in gpurt(path, "--job", "infer #")[1]


@pytest.mark.parametrize(("part", "word"), [(10, "busy"), (5, "?"), (0, "suspend")])
def test_the_scheduler_says_how_a_thread_waits(part: int, word: str, gpurt: Gpurt, tmp_path: Path) -> None:
    made = jobs(DEVICE)
    for one in made.calls:
        if "Synchronize" in one["name"]:
            made.runs.append((PROCESS, one["start"] - 1, one["start"] + (one["end"] - one["start"]) * part // 10))
    code, out, _ = gpurt(nsys(tmp_path / "run.sqlite", made), "--job", "infer #", "-o", tmp_path / "found.toml")
    assert code == 0, out
    assert f'waiting = "{word}"  # threads were on a CPU' in (tmp_path / "found.toml").read_text()


def test_whole_microseconds_are_told_and_jobs_of_them_found(gpurt: Gpurt, tmp_path: Path) -> None:
    path = kineto(tmp_path / "run.json", jobs(DEVICE, start=BASE["kineto"]), whole=True)
    code, out, _ = gpurt(path, "--job", "infer #")
    assert code == 0
    assert "its clock counts in 1us" in out
    assert "times may be that much longer" in out


def test_a_download_of_no_length_in_whole_microseconds_waits_for_its_own_work(gpurt: Gpurt, tmp_path: Path) -> None:
    def end(made: Made, at: int) -> None:
        number = made.call("cudaMemcpy", at + 5 * MS, at + 5 * MS)
        made.work(number, at + 5 * MS, at + 5 * MS, "DtoH")

    assert gpurt(kineto(tmp_path / "run.json", jobs(end), whole=True), "--job", "infer #")[0] == 0


def damaged(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no recordings, and what is said of them."""
    whole = kineto(tmp_path / "whole.json", jobs(DEVICE)).read_bytes()
    export = nsys(tmp_path / "whole.sqlite", jobs(DEVICE)).read_bytes()
    files = {
        "cut.json": (whole[:-200], "is not a complete JSON file"),
        "cut.json.gz": (gzip.compress(whole)[:-20], "is damaged or was cut off"),
        "word.json": (b'{"traceEvents": [nonsense]}', "is not a complete JSON file"),
        "deep.json": (b'{"traceEvents": [' + b"[" * 200_000, "is damaged or was cut off"),
        "none.json": (b"{}", "has no traceEvents"),
        "time.json": (b'[{"ph": "X", "cat": "kernel", "ts": "soon", "dur": 1}]', "an event"),
        "lack.json": (b'[{"ph": "X", "cat": "kernel", "ts": 1}]', "lacks 'dur'"),
        "own.json": (b'{"otherData": {"format": "gpurt-trace"}, "traceEvents": []}', "is a trace of gpurt"),
        "stream.json": (b'[{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1, "args": {"stream": {}, "correlation": []}}]',
                        "an event"),
        "args.json": (b'[{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1, "args": "no"}]', "an event"),
        "latin.json": (b'["\xff"]', "is damaged"),
        "cut.sqlite": (export[: len(export) // 2], "is no known export of Nsight Systems"),
        "run.nsys-rep": (b"\x00\x01report", "nsys export --type sqlite"),
        "text.txt": (b"hello", "is no recording that is known"),
        "empty": (b"", "is no recording that is known"),
    }
    for name, (content, _) in files.items():
        (tmp_path / name).write_bytes(content)
    with sqlite3.connect(tmp_path / "null.sqlite") as data:
        data.executescript("CREATE TABLE NVTX_EVENTS (start, end, text, globalTid, eventType);"
                           "INSERT INTO NVTX_EVENTS VALUES ('soon', 1, 'a', 1, 59)")  # fmt: skip
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE other (a)").connection.close()
    return {name: (tmp_path / name, why) for name, (_, why) in files.items()} | {
        "null.sqlite": (tmp_path / "null.sqlite", "1 events have no begin or no end"),
        "other.sqlite": (tmp_path / "other.sqlite", "no export of Nsight Systems"),
        "missing": (tmp_path / "missing", "name a recording"), "folder": (tmp_path, "CTF trace"),
    }  # fmt: skip


def test_what_is_no_recording_is_refused_in_one_line(gpurt: Gpurt, tmp_path: Path) -> None:
    for name, (path, why) in damaged(tmp_path).items():
        code, out, err = gpurt(path)
        assert (code, out, err.count("\n")) == (3, "", 1), name
        assert why in err


def test_trace_check_says_which_command_reads_it(write: Writer, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = caller(capfd)("trace check", write(jobs(DEVICE)), ROOT / "examples/minimal.toml")
    assert code == 3
    assert "no trace of gpurt" in err.replace("is not a trace", "no trace")
    assert "`gpurt init --from FILE`" in err


def test_options_that_make_no_sense(gpurt: Gpurt, tmp_path: Path) -> None:
    path = kineto(tmp_path / "run.json", jobs(DEVICE))
    for options, why in (
        (("--job", "nothing"), "no range, call or kernel of the recording has that name"),
        (("--job", "a("), "has that name"), (("--pid", "1"), "leave out --pid"),
        (("--margin", "much"), "expected a share"), (("-o", path), "is there already"),
    ):  # fmt: skip
        code, out, err = gpurt(path, *options)
        assert (code, out) == (2, "")
        assert why in err


def test_the_manual_shows_the_report_on_the_example(gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/manual/from-profile.md").read_text(encoding="utf-8")
    shown = page.partition("The second prints this:\n\n")[2].partition("\n* ")[0]
    monkeypatch.chdir(ROOT / "examples/recordings")
    assert gpurt("detector.sqlite")[1] == textwrap.dedent(shown)


def test_json_has_the_report_and_the_taskset(gpurt: Gpurt, tmp_path: Path) -> None:
    code, out, _ = gpurt(kineto(tmp_path / "run.json", jobs(DEVICE)), "--job", "infer #", "--json")
    data = json.loads(out)
    assert code == 0
    assert "[[task]]" in data["taskset"]
    assert any("G^e" in line for line in data["notes"])


@pytest.mark.parametrize("threads", [1, 3])
def test_no_segment_ends_before_every_wait_together_proves_that_its_work_is_over(threads: int) -> None:
    """Against the definition, on random programs: by one thread each end is found, by several none too early."""
    for seed in range(60):
        chance = random.Random(seed)
        recording, launches, waits = Recording(Path("random"), "random"), list[Launch](), list[Launch]()
        clocks = [chance.randrange(50) for _ in range(threads)]
        for number in range(40):
            thread = clocks.index(min(clocks))
            start = clocks[thread] + chance.randrange(30)
            end = clocks[thread] = start + 1 + chance.randrange(40)
            stream = chance.randrange(3)
            wait = chance.random() < 0.4
            (waits if wait else launches).append((start, end, thread, stream))
            name = chance.choice(["cudaDeviceSynchronize", "cudaStreamSynchronize"]) if wait else "cudaLaunchKernel"
            if name == "cudaDeviceSynchronize":
                waits[-1] = (start, end, thread, -1)
            recording.data.execute("INSERT INTO call VALUES (1, ?, ?, ?, ?, ?, 0)", (thread, number, name, start, end))
            if wait:
                recording.data.execute("INSERT INTO scope VALUES (1, ?, 1, ?, NULL)", (number, stream))
            else:
                work = (number, stream, start, start + 1)
                recording.data.execute("INSERT INTO work VALUES (1, ?, '0/1', ?, ?, ?, 'kernel', 'k')", work)
        recording.finish()
        found = [segment.end for segment in Replay(recording, 1).segments if segment.end is not None]
        idle = sorted(wait[1] for wait in waits if all(
            one[0] >= wait[1] or any(covers(other, one) for other in waits if other[1] <= wait[1])
            for one in launches))  # fmt: skip
        assert set(found) <= set(idle), seed
        if threads == 1:
            firsts = {next((end for end in idle if end > one[0]), None) for one in launches}
            assert set(found) == firsts - {None}, seed


def covers(wait: Launch, one: Launch) -> bool:
    """Whether a wait alone proves that a launch's work is over."""
    before = one[0] <= wait[0] if one[2] == wait[2] else one[1] <= wait[0]
    return before and wait[3] in (-1, one[3])
