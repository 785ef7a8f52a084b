# SPDX-License-Identifier: GPL-2.0
"""Whatever ends a run or a recording, what was seen until then is kept, and said to be partial."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import PATIENCE, client_of, eventually
from processes import has, started

from analysis import taskset
from analysis.taskset import TasksetFile
from analysis.traces.trace import CUT_OFF_TRACE, Kind, load_trace
from pycontrol.act.run import crew, launch
from pycontrol.link.control import connect as control
from pycontrol.machine import procs
from pycontrol.observe.judge.check import judged, why_no

SYSTEM = """[platform]
cpus = 64
policy = "segment"
alpha = "100us"
theta = "50us"
[[task]]
name = "urgent"
cpu = 0
priority = 50
period = "20ms"
segments = [{ misc = "0.5ms", gpu = "2ms" }]
[[task]]
name = "plain"
cpu = 1
priority = 10
period = "20ms"
segments = [{ cpu = "1ms" }]
"""
#: The length of a run that something else ends, seconds.
LONG = 600.0


@pytest.fixture
def file(tmp_path: Path) -> TasksetFile:
    path = tmp_path / "tasks.toml"
    path.write_text(SYSTEM)
    return taskset.load(path)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An emulator at host.sock."""
    process = started(tmp_path / "host.sock", "--quiet")
    yield process
    process.kill()
    process.wait()


def gpurt(folder: Path, *arguments: str, most: int = resource.RLIM_INFINITY) -> subprocess.Popen[str]:
    """The command, in that folder; ``most``: bytes of a file that it may write."""
    command = [sys.executable, "-m", "pycontrol", *arguments]
    environment = {**os.environ, "GPURT_DEVICE": str(folder / "host.sock")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def children(name: str) -> list[int]:
    """The processes that this one has started, of that name."""
    mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in mine if procs.name(int(pid)) == name]


def test_a_task_that_is_killed_takes_no_others_result_with_it(file: TasksetFile, host: subprocess.Popen[bytes]) -> None:
    place = str(file.path.parent / "host.sock")

    def progress(_seconds: float) -> None:
        with control(place) as plane:
            done = sum(one.segments for one in plane.clients() if one.comm == "urgent")
        if done > 1:  # so one job is over
            for pid in children("plain"):
                os.kill(pid, signal.SIGKILL)

    run = launch.launch(file, crew.CrewOptions(LONG, place, "segment"), progress)
    assert (run.failed, run.gone) == ("task plain: killed by SIGKILL", False)
    assert run.reports["urgent"].jobs
    assert run.seconds < LONG
    found = judged(run.trace, file)
    assert next(line for line in found.lines if line.task == "urgent").jobs
    assert why_no(found)
    lost = [(event.task, event.detail) for event in run.trace.events if event.kind is Kind.LOST]
    assert ("plain", "it was killed and left no report, so that all its jobs are missing") in lost
    assert ("", "the run ended before its time: task plain: killed by SIGKILL") in lost


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_host_that_goes_leaves_the_run_its_trace_and_its_table(
    file: TasksetFile, host: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    trace = tmp_path / "run.json"
    run = gpurt(tmp_path, "run", "tasks.toml", "--duration", f"{LONG}s", "-o", "run.json", "--json")
    eventually(lambda: has(Path(f"{trace}.partial"), Kind.END, 2))  # the first one's job has ended
    host.send_signal(number)
    code, out, errors = ended(run)
    assert code == 4, errors
    document = json.loads(out)
    assert "urgent" in document["failed"]
    assert not document["in_time"]
    assert document["tasks"]["urgent"]["jobs"]
    assert any("partial" in note for note in document["notes"])
    assert load_trace(trace).responses()["urgent"]
    assert not Path(f"{trace}.partial").exists()


def test_a_run_that_is_killed_itself_leaves_what_had_come(
    file: TasksetFile, host: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    partial = tmp_path / "run.json.partial"
    run = gpurt(tmp_path, "run", "tasks.toml", "--duration", f"{LONG}s", "-o", "run.json", "--tell")
    eventually(lambda: has(partial, Kind.END) and "urgent" in load_trace(partial).responses())
    run.kill()
    ended(run)
    found = load_trace(partial)
    assert found.responses()["urgent"]
    assert found.events[-1].detail == CUT_OFF_TRACE
    assert not (tmp_path / "run.json").exists()
    assert why_no(judged(found, file))


def busy(folder: Path) -> None:
    with client_of(folder / "host.sock") as client:
        client.begin()
        client.end()


def test_a_recording_that_is_killed_leaves_what_had_come(host: subprocess.Popen[bytes], tmp_path: Path) -> None:
    partial = tmp_path / "run.json.partial"
    trace = gpurt(tmp_path, "trace", "record", "-o", "run.json")
    assert trace.stderr
    assert "recording" in trace.stderr.readline()
    busy(tmp_path)
    eventually(lambda: has(partial, Kind.END))
    trace.kill()
    ended(trace)
    told = [event.kind for event in load_trace(partial).events if event.kind is not Kind.COMMIT]
    assert told[:2] == [Kind.BEGIN, Kind.GRANT]


def test_a_recording_for_which_there_is_no_room(host: subprocess.Popen[bytes], tmp_path: Path) -> None:
    trace = gpurt(tmp_path, "trace", "record", "-o", "run.json", most=4000)
    assert trace.stderr
    trace.stderr.readline()
    for _ in range(30):
        busy(tmp_path)
    partial = tmp_path / "run.json.partial"
    eventually(lambda: partial.stat().st_size == 4000)
    trace.send_signal(signal.SIGINT)
    code, _, errors = ended(trace)
    assert code == 3
    assert f"what was recorded until then is in {partial.name}" in errors
    assert has(partial, Kind.END)
    assert not (tmp_path / "run.json").exists()


def test_a_recording_that_ends_well_leaves_one_file(host: subprocess.Popen[bytes], tmp_path: Path) -> None:
    trace = gpurt(tmp_path, "trace", "record", "-o", "run.json")
    assert trace.stderr
    trace.stderr.readline()
    busy(tmp_path)
    eventually(lambda: has(tmp_path / "run.json.partial", Kind.END))
    trace.send_signal(signal.SIGINT)
    assert ended(trace)[0] == 0
    assert has(tmp_path / "run.json", Kind.END)
    assert not (tmp_path / "run.json.partial").exists()


def test_a_watch_whose_host_goes_tells_what_it_saw(
    file: TasksetFile, host: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    watch = gpurt(tmp_path, "watch", "tasks.toml", "--json")
    assert watch.stdout
    assert json.loads(watch.stdout.readline())["event"] == "begin"
    host.kill()
    code, out, _ = ended(watch)
    assert code == 4
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["in_time"]) == ("end", False)
    assert last["found"]["lost"] == 1


def test_a_demonstration_whose_host_goes_keeps_the_policies_that_were_run(
    host: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    demo = gpurt(
        tmp_path, "demo", "--device", str(tmp_path / "host.sock"), "--duration", "1s", "--policy", "segment",
        "--policy",
        "timesliced", "-o", "out", "--json",
    )  # fmt: skip
    eventually(lambda: list((tmp_path / "out").glob("trace-*.json")))
    host.kill()
    code, out, errors = ended(demo)
    assert code in (4, 6), errors
    document = json.loads(out)
    assert any(note.startswith("partial: ") for note in document["notes"])
    assert json.loads((tmp_path / "out" / "results.json").read_text())
