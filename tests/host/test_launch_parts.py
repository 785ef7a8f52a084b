# SPDX-License-Identifier: GPL-2.0
"""The parts of a run that need no host: placement, gpurt-task's command line and reports, and traces."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import PATIENCE, eventually
from processes import alive

from analysis.model import MS, CpuSegment, GpuSegment, Platform, Span, Task, Taskset, Waiting
from analysis.traces.trace import About, Event, Kind
from gpurt.errors import RuntimeFailure
from pycontrol.act.run import compiling, preload, task_program
from pycontrol.act.run.compiling import compile_with
from pycontrol.machine import placement
from pycontrol.observe.trace import task_report
from pycontrol.observe.trace import trace as run_trace


def cpu_task(name: str, cpu: int, priority: int, time_ns: int = MS, period: int = 10 * MS) -> Task:
    return Task(name, cpu, priority, period, period, (CpuSegment(Span.exactly(time_ns)),))


def sources(folder: Path, compiler: str) -> Path:
    """A source tree, whose Makefile makes anything by that command and notes it."""
    (folder / "userlib/preload").mkdir(parents=True)
    (folder / "userlib/Makefile").write_text(f"$(BUILD)/%:\n\t{compiler} $@\n\techo $* >>{folder}/made\n")
    return folder


@pytest.fixture(scope="module")
def program() -> Path:
    return task_program.find_task_program()


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


class TestPlacement:
    def test_same_numbers_where_the_machine_has_them(self) -> None:
        where = placement.place_cpus(Taskset(Platform(4), (cpu_task("a", 1, 5), cpu_task("b", 3, 5))), {0, 1, 2, 3})
        assert where.cpus == {1: 1, 3: 3}
        assert not where.folded
        assert where.notes() == []

    def test_other_numbers_are_not_folding(self) -> None:
        where = placement.place_cpus(Taskset(Platform(9), (cpu_task("a", 1, 5), cpu_task("b", 8, 5))), {0, 1})
        assert not where.folded
        assert sorted(where.cpus.values()) == [0, 1]
        assert "run as" in where.notes()[0]

    def test_folding_keeps_real_time_partitions_apart_where_it_can(self) -> None:
        tasks = (cpu_task("a", 1, 5), cpu_task("b", 2, 5), cpu_task("c", 4, 0), cpu_task("d", 5, 0))
        where = placement.place_cpus(Taskset(Platform(6), tasks), {0, 1})
        assert where.folded
        assert not where.shared
        assert where.cpus[1] != where.cpus[2]
        assert where.cpus[4] != where.cpus[5]
        assert "bounds are for the unfolded system" in where.notes()[0]

    def test_says_when_real_time_tasks_meet(self) -> None:
        where = placement.place_cpus(Taskset(Platform(6), tuple(cpu_task(f"t{i}", i, 5) for i in range(3))), {0, 1})
        assert where.shared

    @given(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 99)), max_size=20), st.sets(st.integers(0, 9), min_size=1)
    )
    def test_every_cpu_has_a_place_and_none_is_left_idle(self, specs: list[tuple[int, int]], here: set[int]) -> None:
        tasks = tuple(cpu_task(f"t{i}", cpu, priority) for i, (cpu, priority) in enumerate(specs))
        where = placement.place_cpus(Taskset(Platform(31), tasks), here)
        assert set(where.cpus) == {task.cpu for task in tasks}
        assert len(set(where.cpus.values())) == min(len(where.cpus), len(here)) or set(where.cpus) <= here
        assert set(where.cpus.values()) <= here

    def test_trying_sched_fifo_changes_nothing(self) -> None:
        before = os.sched_getscheduler(0)
        placement.fifo_permitted()
        assert os.sched_getscheduler(0) == before


class TestProgram:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--period", "10ms", "--segments", "cpu:1"], "expected a number"),
            (["--period=10"], "--segments and --period must be given"),
            (["--period=10", "--segments=cpu:1,"], "expected cpu:NS or gpu:NS+NS"),
            (["--period=10", "--segments=cpu:1ms"], "expected a comma at \"ms\""),
            (["--period=10", "--segments=dsp:1"], "expected cpu:NS or gpu:NS+NS"),
            (["--period=10", "--segments=gpu:1"], "expected cpu:NS or gpu:NS+NS"),
            (["--period=10", "--segments=cpu:1"], "--jobs or --wait"),
            (["--period=10", "--segments=" + ",".join(["cpu:1"] * 65)], "more than 64 segments"),
            (["--priority=99"], "from 0 to 98"),
            (["--cpu=-1"], "expected a number"),
            (["--order=4"], "from 0 to 3"),
            (["--period=10", "--segments=cpu:1", "--jobs=1", "--also"], "--segments and --period must be given"),
            (["--exec"], "a command must follow"),
            (["--unknown"], "see gpurt_task --help"),
            (["surplus"], "unexpected argument"),
        ],
    )
    def test_each_mistake_is_named(self, program: Path, arguments: list[str], complaint: str) -> None:
        done = run(program, *arguments)
        assert done.returncode == 2
        assert complaint in done.stderr

    def test_help(self, program: Path) -> None:
        done = run(program, "--help")
        assert done.returncode == 0
        assert "--segments" in done.stdout

    def test_reports_its_jobs(self, program: Path, tmp_path: Path) -> None:
        path, cpu = tmp_path / "report", min(os.sched_getaffinity(0))
        done = run(
            program, "--name=x", f"--period={4 * MS}", "--segments=cpu:200000,cpu:500000", "--jobs=5", f"--cpu={cpu}",
            f"--report={path}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report = task_report.load_report(path)
        assert report is not None
        assert report.complete
        assert (report.task, report.unfinished) == ("x", 0)
        assert [job.number for job in report.jobs] == list(range(5))
        assert {b.release - a.release for a, b in zip(report.jobs, report.jobs[1:], strict=False)} == {4 * MS}
        for job in report.jobs:
            assert job.release <= job.start < job.finish
            assert job.work == ()
        assert sum(job.executed for job in report.jobs) >= 5 * 0.7 * MS  # each less by what the last one's calls took

    def test_reports_when_told_to_end(self, program: Path, tmp_path: Path) -> None:
        path = tmp_path / "report"
        task = subprocess.Popen(
            [program, f"--period={5 * MS}", f"--segments=cpu:{MS}", f"--report={path}", "--wait"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with task:
            assert task.stdout is not None
            assert task.stdin is not None
            assert task.stdout.readline() == b"ready\n"
            now = time.monotonic_ns()
            task.stdin.write(b"%d %d\n" % (now, now + 500_000 * MS))
            task.stdin.flush()
            task.terminate()
            assert task.wait(PATIENCE) == 0
        report = task_report.load_report(path)
        assert report is not None
        assert report.complete
        assert len(report.jobs) < 100000

    def test_without_a_host_it_says_so(self, program: Path, tmp_path: Path) -> None:
        words = [program, "--period=5000000", "--segments=gpu:1000000+1000000", "--jobs=1"]
        environment = {**os.environ, "GPURT_DEVICE": str(tmp_path / "none")}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False)
        assert done.returncode == 4
        assert "gpurt emulate" in done.stderr

    def test_ends_with_its_parent(self, program: Path, tmp_path: Path) -> None:
        """If the launcher is killed, the kernel kills the task."""
        script = (
            "import os, subprocess, sys, time\n"
            f"p = subprocess.Popen([{str(program)!r}, f'--parent={{os.getpid()}}', '--exec', 'sleep', '1000'])\n"
            "print(p.pid, flush=True)\n"
            "time.sleep(1000)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as launcher:
            assert launcher.stdout is not None
            task = int(launcher.stdout.readline())
            eventually(lambda: Path(f"/proc/{task}/comm").read_text() == "sleep\n")
            launcher.kill()
        eventually(lambda: not alive(task))

    def test_a_parent_that_is_not_the_given_one(self, program: Path) -> None:
        assert run(program, "--parent=1", "--exec", "true").returncode == 6

    def test_command_is_executed_and_its_absence_told(self, program: Path) -> None:
        assert run(program, "--exec", "sh", "-c", "exit 7").returncode == 7
        done = run(program, "--exec", "/nonexistent/program")
        assert done.returncode == 127
        assert "cannot execute" in done.stderr

    def test_a_wrong_override_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(task_program.PROGRAM_VARIABLE, "/nonexistent/program")
        with pytest.raises(RuntimeFailure, match="is no readable file"):
            task_program.find_task_program()

    def test_no_compiler(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv(task_program.PROGRAM_VARIABLE, raising=False)
        monkeypatch.setattr(compiling, "ROOT", sources(tmp_path, "no-such-compiler"))
        with pytest.raises(RuntimeFailure, match=r"gpurt-task does not compile: .*no-such-compiler"):
            task_program.find_task_program()
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(RuntimeFailure, match="gpurt-task must be compiled and there is no make"):
            task_program.find_task_program()

    def test_a_compiler_that_fails(self) -> None:
        script = "echo 'In file included' >&2; echo 'x.c:1: error: wrong' >&2; exit 1"
        with pytest.raises(RuntimeFailure, match=r"a thing does not compile: x\.c:1: error: wrong"):
            compile_with(["sh", "-c", script], "a thing")
        with pytest.raises(RuntimeFailure, match="a thing does not compile: false failed"):
            compile_with(["false"], "a thing")
        compile_with(["true"], "a thing")

    def test_what_is_there_is_not_compiled_again(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv(preload.LIBRARY_VARIABLE, raising=False)
        monkeypatch.setattr(compiling, "ROOT", sources(tmp_path, "touch"))
        for _ in range(2):
            assert preload.find_preload().is_file()
        assert (tmp_path / "made").read_text() == f"{preload.LIBRARY_NAME}\n"

    def test_arguments_name_every_segment(self) -> None:
        segments = (CpuSegment(Span(2, 1)), GpuSegment(Span.exactly(3), Span(5, 4)))
        task = Task("t", 0, 9, 100, 90, segments)
        given = task_program.task_arguments(task, waiting=Waiting.BUSY, managed=False)
        assert "--segments=cpu:2,gpu:3+5" in given
        assert {"--busy", "--no-segments", "--period=100", "--deadline=90"} <= set(given)


REPORT = """gpurt-task 3
task t
note memory not locked: Cannot allocate memory
job 0 100 110 200 60 130 180
job 1 300 300 390 50 320 370
end 2 1
"""


class TestReport:
    def test_reads_everything(self) -> None:
        report = task_report.parse_report(REPORT)
        assert (report.task, report.unfinished) == ("t", 1)
        assert report.notes == ("memory not locked: Cannot allocate memory",)
        assert [job.response for job in report.jobs] == [100, 90]
        assert report.jobs[0].work == ((130, 180),)
        assert report.complete

    @given(st.integers(0, len(REPORT) - 1))
    def test_a_report_that_was_cut_off_is_not_complete(self, length: int) -> None:
        try:
            report = task_report.parse_report(REPORT[:length])
        except ValueError:
            return
        assert not report.complete
        assert len(report.jobs) == max(0, REPORT[:length].count("\n") - 3)

    @given(st.text(alphabet="gpurt-taskjobcend 0123456789\n", max_size=200))
    def test_garbage_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="report of gpurt-task"):
            task_report.parse_report("gpurt-task 3\n" + text)


class TestTrace:
    def test_best_effort_work_stands_still_while_a_real_time_task_owns_the_gpu(self) -> None:
        events = [
            Event(10, Kind.BEGIN, "low"),
            Event(10, Kind.GRANT, "low"),
            Event(15, Kind.BEGIN, "other"),
            Event(20, Kind.BEGIN, "high"),
            Event(20, Kind.PREEMPT),
            Event(20, Kind.GRANT, "high"),
            Event(24, Kind.PREEMPT, "high"),
            Event(24, Kind.BEGIN, "top"),
            Event(24, Kind.GRANT, "top"),
            Event(27, Kind.END, "top"),
            Event(27, Kind.RESUME, "high"),
            Event(30, Kind.END, "high"),
            Event(30, Kind.RESUME),
            Event(40, Kind.END, "low"),
            Event(45, Kind.GONE, "other"),
        ]
        assert run_trace.held_gpu(events, ["low", "other", "high", "top"]) == {
            "low": [(10, 20), (30, 40)],
            "other": [(15, 20), (30, 45)],
            "high": [(20, 24), (27, 30)],
            "top": [(24, 27)],
        }

    def test_without_segments_all_tasks_share_until_one_is_alone(self) -> None:
        events = [Event(5, Kind.PREEMPT), Event(5, Kind.GRANT, "a"), Event(9, Kind.RESUME), Event(12, Kind.GONE, "b")]
        assert run_trace.held_gpu(events, ["a", "b"]) == {"a": [(0, 5), (5, 12)], "b": [(0, 5), (9, 12)]}

    def test_assembled_trace_starts_at_the_common_start(self) -> None:
        reports = {"t": task_report.parse_report(REPORT)}
        tasks = [cpu_task("t", 1, 5)]
        trace = run_trace.assemble({"policy": "timesliced"}, tasks, reports, [], (100, 900), {"t": 800},
                                   {"t": 5, "x-7": 4})  # fmt: skip
        assert trace.observed_worst() == {"t": 100}
        assert [e.time for e in trace.events if e.kind is Kind.RELEASE] == [0, 200, 2 * tasks[0].period]
        assert trace.unfinished() == {"t": [2 * tasks[0].period]}
        assert (trace.until, trace.tasks) == (800, {"t": About(5, tasks[0].deadline, 700), "x-7": About(4)})
        assert [(e.time, e.duration) for e in trace.events if e.kind is Kind.GPU] == [(30, 50), (220, 50)]

    @given(
        st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=8), st.integers(0, 50), st.integers(1, 30)
    )
    def test_subtract_keeps_exactly_the_points_outside(
        self, pairs: list[tuple[int, int]], start: int, length: int
    ) -> None:
        holes = run_trace.merge((low, low + size) for low, size in pairs)
        covered = {x for low, high in holes for x in range(low, high)}
        left = {x for low, high in run_trace.subtract((start, start + length), holes) for x in range(low, high)}
        assert left == set(range(start, start + length)) - covered
