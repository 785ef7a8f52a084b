# SPDX-License-Identifier: GPL-2.0
"""Tasks as real processes on a real emulator.  No assertion fails because a time is long."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from processes import alive, until_written

from analysis import taskset
from analysis.answers import registry
from analysis.model import Waiting
from analysis.taskset import TasksetFile
from analysis.traces.trace import Kind, load_trace, preemptors
from gpurt.enums import EventKind, Form
from gpurt.errors import DeviceError, RuntimeFailure, UsageError
from pycontrol.act.run import crew, launch
from pycontrol.act.run.confine import confine
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import connect
from pycontrol.machine import placement
from pycontrol.observe.judge.check import compare_tasks, judged, why_no
from pycontrol.observe.judge.finding import What
from pycontrol.observe.judge.subject import beyond_the_bounds
from pycontrol.observe.trace.task_report import TaskReport

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = '[platform]\ncpus = 64\nalpha = "100us"\ntheta = "50us"\n'
URGENT = """[[task]]
name = "urgent"
cpu = 0
priority = 50
period = "40ms"
segments = [{ cpu = "0.5ms" }, { misc = "0.5ms", gpu = "4ms" }, { cpu = "0.2ms" }]
"""
LOW = """[[task]]
name = "low"
cpu = 1
priority = 0
period = "60ms"
segments = [{ misc = "0.5ms", gpu = "15ms" }]
"""
PLAIN = """[[task]]
name = "plain"
cpu = 1
priority = 10
period = "20ms"
segments = [{ cpu = "1ms" }]
"""

Write = Callable[..., TasksetFile]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*parts: str) -> TasksetFile:
        path = tmp_path / "tasks.toml"
        path.write_text(PLATFORM + "".join(parts))
        return taskset.load(path)

    return make


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("platform") / "tasks.toml"
    path.write_text(PLATFORM)
    with Emulator(taskset.load(path).taskset.platform) as emulator:
        yield str(emulator.socket)


def gpu_times(report: TaskReport) -> list[tuple[int, int]]:
    return [times for job in report.jobs for times in job.work]


@pytest.mark.parametrize("waiting", list(Waiting))
def test_every_job_is_done_and_takes_as_long_as_it_must(write: Write, host: str, waiting: Waiting) -> None:
    file = write(URGENT, LOW, PLAIN)
    run = launch.launch(file, crew.CrewOptions(2, host, "segment", waiting))
    assert set(run.reports) == {"urgent", "low", "plain"}
    for task in file.taskset:
        report = run.reports[task.name]
        assert report.complete
        assert report.error is None
        assert len(report.jobs) + report.unfinished == -(-2_000_000_000 // task.period)
        # Own execution is a lower bound of any response time; what a job's last calls took is off the next one's.
        assert all(job.response >= task.cpu_time // 4 + task.gpu_time for job in report.jobs)
        assert sum(job.response for job in report.jobs) >= len(report.jobs) * (task.cpu_time + task.gpu_time)
    for submitted, completed in gpu_times(run.reports["urgent"]):
        assert completed - submitted >= 4_000_000
    releases = {report.jobs[0].release for report in run.reports.values() if report.jobs}
    assert len(releases) <= 1  # the common start; where the machine stands still for all of it, no job is done


def test_trace_of_a_run_is_whole(write: Write, host: str, tmp_path: Path) -> None:
    run = launch.launch(write(URGENT, LOW), crew.CrewOptions(2, host, "segment"))
    trace = run.trace
    assert trace.meta["source"] == "runtime"
    jobs = sum(len(report.jobs) for report in run.reports.values())
    begun = sum(len(gpu_times(report)) for report in run.reports.values())
    kinds = [event.kind for event in trace.events]
    assert kinds.count(Kind.COMPLETE) == jobs
    assert kinds.count(Kind.BEGIN) == kinds.count(Kind.END) == begun
    assert {event.task for event in trace.events if event.kind is Kind.GRANT} == {"urgent", "low"}
    assert trace.observed_worst() == {
        name: max(job.response for job in report.jobs) for name, report in run.reports.items() if report.jobs
    }
    assert set(preemptors(trace.events)) == {index for index, kind in enumerate(kinds) if kind is Kind.PREEMPT}
    trace.save(tmp_path / "trace.json")
    assert load_trace(tmp_path / "trace.json") == trace


def test_without_segments_the_host_hears_of_none(write: Write, host: str) -> None:
    file, jobs = write(URGENT), []

    def some() -> int:
        run = launch.launch(file, crew.CrewOptions(0.3, host, "segment", managed=False))
        assert not [event for event in run.trace.events if event.kind in (Kind.BEGIN, Kind.END)]
        jobs.extend(run.reports["urgent"].jobs)
        return len(jobs)

    eventually(some)  # a busy machine completes none in so short a time


def test_misses_are_counted(write: Write, host: str) -> None:
    late = URGENT.replace('period = "40ms"', 'period = "40ms"\ndeadline = "1ms"')
    file = write(late)
    run = launch.launch(file, crew.CrewOptions(0.3, host))
    (line,) = compare_tasks(run.trace, file)
    assert line.misses == len(run.reports["urgent"].jobs) + run.reports["urgent"].unfinished > 0
    assert line.failed


def test_own_command_runs_in_its_place_and_ends_with_the_run(write: Write, host: str, tmp_path: Path) -> None:
    script = "printf %s $GPURT_DEVICE > $OUT; exec sleep 600"
    out = tmp_path / "out"
    os.environ["OUT"] = str(out)
    command = f'command = ["sh", "-c", "{script}"]\n'
    try:
        run = launch.launch(write(PLAIN, LOW + command), crew.CrewOptions(1.0, host), until_written(out))
    finally:
        del os.environ["OUT"]
    assert out.read_text() == host
    assert set(run.reports) == {"plain"}


def test_programs_keep_their_kernels_on_the_sms_of_their_partitions(
    write: Write, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of gpurt_sm.h, which executes on a machine of 8 SMs here."""
    example, program = ROOT / "userlib/examples/gpurt_sm.cu", tmp_path / "gpurt_sm"
    include = [f"-I{ROOT / folder}" for folder in ("userlib/include", "tests/sm")]
    subprocess.run(["g++", "-std=c++11", "-x", "c++", *include, example, "-o", program, "-pthread"], check=True)
    monkeypatch.setenv("DIRECTORY", str(tmp_path))
    tasks = [
        LOW.replace('"low"', f'"{name}"') + f"partition = {{ compute_units = {units} }}\n"
        f'command = ["sh", "-c", "$DIRECTORY/gpurt_sm > $DIRECTORY/{name}; exec sleep 600"]\n'
        for name, units in (("one", 3), ("other", 5))
    ]
    file = write("compute_units = 8\n", *tasks)
    found = confine(file, emulated=True)
    assert "in one context only" in found.notes[0]
    waits = [until_written(tmp_path / name) for name in ("one", "other")]

    def both(seconds: float) -> None:
        for wait in waits:
            wait(seconds)

    launch.launch(file, crew.CrewOptions(1.0, host, environments=found.environments), both)
    said = "25600 numbers doubled once on SMs {}, in launch 1\n"
    assert (tmp_path / "one").read_text() == said.format("0 to 2")
    assert (tmp_path / "other").read_text() == said.format("3 to 7")


TELLS = '''
import itertools, os, time, gpurt
while not os.path.exists("{go}"):
    time.sleep(0.01)
with gpurt.Client() as client:
    for _ in itertools.islice(gpurt.periodic(None, 5_000_000, client=client), 3):
        with gpurt.segment(client=client):
            pass
open("{out}", "w").write("done")
'''


def test_jobs_of_own_programs_are_seen(write: Write, host: str, tmp_path: Path) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    (tmp_path / "program.py").write_text(TELLS.format(out=out, go=go))

    def progress(seconds: float) -> None:
        if seconds:  # jobs before the run's start do not count
            go.touch()
            until_written(out)(seconds)

    command = f'command = ["{sys.executable}", "{tmp_path}/program.py"]\n'
    run = launch.launch(write(PLAIN, LOW + command), crew.CrewOptions(0.5, host, tell=True), progress)
    assert [event.job for event in run.trace.events if event.task == "low" and event.kind is Kind.START] == [0, 1, 2]
    plain, low = compare_tasks(run.trace, write(PLAIN, LOW + command))
    assert (low.jobs, low.segments) == (3, 3)
    assert plain.jobs == len(run.reports["plain"].jobs)  # once, although it told of them too


def test_a_stand_in_reports_no_less_than_it_tells(write: Write, host: str) -> None:
    """Its calls are part of its jobs: else `watch` finds CPU times that `trace check` of the same run does not."""
    with connect(host) as control:
        list(control.events(0))
        run = launch.launch(write(PLAIN), crew.CrewOptions(0.2, host, tell=True))
        control.status()  # the host answers after the events
        told = {one.job: one.cpu_ns for one in control.more(0) if one.kind is EventKind.JOB_END}
    reported = {job.number: job.executed for job in run.reports["plain"].jobs}
    assert told.keys() == reported.keys() != set()
    assert all(cpu <= reported[job] for job, cpu in told.items() if job is not None)


@pytest.mark.parametrize("given", [50, 40])
def test_gpu_priorities_of_commands_are_not_the_files_unless_somebody_sets_them(
    write: Write, host: str, tmp_path: Path, given: int
) -> None:
    if not placement.fifo_permitted():
        pytest.skip("SCHED_FIFO is not permitted: no task has a priority")
    out, go = tmp_path / "out", tmp_path / "go"
    (tmp_path / "program.py").write_text(TELLS.format(out=out, go=go).replace("low", "urgent"))

    def progress(seconds: float) -> None:
        if seconds:
            go.touch()
            until_written(out)(seconds)

    command = f'gpu_priority = {given}\ncommand = ["{sys.executable}", "{tmp_path}/program.py"]\n'
    file = write(PLAIN, URGENT + command)
    run = launch.launch(file, crew.CrewOptions(0.5, host, "segment"), progress)
    wrong = [one.task for one in judged(run.trace, file).findings if one.what is What.PRIORITY]
    assert set(wrong) == (set() if given == 50 else {"urgent"})
    told = "urgent's program had GPU priority 50, and the file says 40: `gpurt apply` sets it"
    assert (told in run.notes) == (given == 40)


def test_a_host_that_ends_takes_no_result_with_it(write: Write) -> None:
    """Tasks that use no GPU go on.  The host's last actions are not known, so that the trace is no evidence."""
    file = write(PLAIN.replace("20ms", "60s"))  # that no deadline is missed, which weighs more
    with Emulator(file.taskset.platform) as emulator:

        def progress(seconds: float) -> None:
            if seconds:
                emulator.__exit__(None, None, None)

        run = launch.launch(file, crew.CrewOptions(0.3, str(emulator.socket)), progress)
    assert run.reports["plain"].jobs
    found = judged(run.trace, file)
    assert "what the host did until the end is not known" in why_no(found)


def test_slices_of_a_file_are_not_those_of_a_run_on_a_virtual_gpu(write: Write, host: str) -> None:
    file = write('[[partition]]\nname = "p"\nslice = "2ms"\n', URGENT + 'partition = "p"\n')
    run = launch.launch(file, crew.CrewOptions(0.1, host, "timesliced", managed=False))
    assert any("slices and levels of the file are not set" in note for note in run.notes)
    why = "in the run TSGs had slices and levels of the host, not the file's"
    assert beyond_the_bounds(run.trace, file, registry.find_test("supply-fp")) == why


def test_what_a_command_leaves_behind_is_ended(write: Write, host: str, tmp_path: Path) -> None:
    out = tmp_path / "pid"
    shell = f"trap '' TERM; sleep 600 & echo $! > {out}; wait"
    file = write(PLAIN, LOW + f'command = ["sh", "-c", "{shell}"]\n')
    launch.launch(file, crew.CrewOptions(0.5, host), until_written(out))
    eventually(lambda: not alive(int(out.read_text())))


@pytest.mark.parametrize(
    ("addition", "complaint"),
    [
        ('command = ["/nonexistent/program"]\n', "low: .*cannot execute"),
        ('command = ["sh", "-c", "echo wrong >&2; exit 3"]\n', "low: wrong"),
        ('cgroup = "/no/such/cgroup"\n', "low: cannot enter cgroup"),
    ],
)
def test_a_task_that_fails_fails_the_run(write: Write, host: str, addition: str, complaint: str) -> None:
    try:  # before the tasks are ready, or after that
        failed = launch.launch(write(URGENT, LOW + addition), crew.CrewOptions(PATIENCE, host)).failed
    except RuntimeFailure as error:
        failed = str(error)
    assert re.search(complaint, failed)


def test_no_host(write: Write, tmp_path: Path) -> None:
    with pytest.raises(DeviceError):
        launch.launch(write(URGENT), crew.CrewOptions(0.2, str(tmp_path / "none")))


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
def test_senseless_lengths(seconds: float) -> None:
    with pytest.raises(UsageError):
        crew.CrewOptions(seconds)


LAUNCHER = """
import sys
from pycontrol.act.run import crew, launch
from analysis import rta, taskset
launch.launch(taskset.load(sys.argv[1]), crew.CrewOptions(60, sys.argv[2]), lambda seconds: print(seconds, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_launcher(write: Write, host: str, number: signal.Signals) -> None:
    file = write(URGENT, LOW, PLAIN)
    command = [sys.executable, "-c", LAUNCHER, str(file.path), host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline()  # the tasks are running
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        assert len(children) == 3
        launcher.send_signal(number)
        launcher.wait(PATIENCE)
    eventually(lambda: not any(alive(int(child)) for child in children))


@pytest.mark.skipif(not placement.fifo_permitted() or os.geteuid() != 0, reason="needs root, to raise threads")
def test_under_boosted_each_task_has_the_form_of_the_file(write: Write) -> None:
    spins = URGENT.replace('"urgent"', '"spins"').replace("cpu = 0", 'cpu = 0\nwaiting = "busy"')
    asks = URGENT.replace('"urgent"', '"asks"').replace("cpu = 0", 'cpu = 1\nform = "owner"')
    file = write(*(part.replace("50", str(level)) for level, part in enumerate((URGENT, spins, asks), 10)), LOW)
    forms = {"urgent": (Form.SELF, 10), "spins": (Form.OWNER, 11), "asks": (Form.OWNER, 12)}
    seen: set[tuple[str, tuple[Form, int]]] = set()
    with Emulator(file.taskset.platform, "boosted") as emulator, connect(str(emulator.socket)) as control:

        def look(_seconds: float) -> None:
            seen.update((one.comm, (one.form, one.own_priority)) for one in control.clients() if one.segments > 1)
            if forms.items() <= seen:  # after a job each
                raise KeyboardInterrupt

        run = launch.launch(file, crew.CrewOptions(PATIENCE, str(emulator.socket), "boosted"), look)
        assert not [one.raised for one in control.clients() if one.raised]
    assert all(run.reports[name].error is None and run.reports[name].jobs for name in ("urgent", "spins", "asks"))
    assert forms.items() <= seen


def test_a_stand_in_counts_what_its_calls_cost(host: str, write: Write) -> None:
    """The run judges the CPU time of the task's thread, as `gpurt watch` does: the file's times have all of it."""
    segments = ", ".join(['{ misc = "0ms", gpu = "10us" }'] * 40)
    text = PLAIN.replace('"20ms"', '"10s"').replace('{ cpu = "1ms" }', f'{segments}, {{ cpu = "40ms" }}')
    seen = launch.launch(write(text), crew.CrewOptions(0.1, host, "segment", share=99))
    times = [event.executed for event in seen.trace.events if event.kind is Kind.COMPLETE]
    assert [time // 40_000_000 for time in times if time] == [0]
    assert Kind.START in {event.kind for event in seen.trace.events}
