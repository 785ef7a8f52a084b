# SPDX-License-Identifier: GPL-2.0
"""A thread that serves several tasks as one real process: one job at a time, in the file's order."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from links import PATIENCE

from analysis import taskset
from analysis.model.callbacks import Order
from analysis.traces.trace import Kind
from pycontrol.act.run import crew, launch, task_program
from pycontrol.act.run.emulator import Emulator
from pycontrol.observe.judge.check import judged
from pycontrol.observe.judge.finding import What
from pycontrol.observe.trace import task_report
from pycontrol.observe.trace.task_report import TaskReport

ROOT = Path(__file__).resolve().parents[2]


def reports(folder: Path, order: str, *tasks: str) -> dict[str, TaskReport]:
    """The reports of gpurt-task about these tasks on one thread, by name; a task's name comes before its options."""
    words: list[str] = []
    for rank, options in enumerate(tasks):
        name, *others = options.split()
        words += ["--also"] * (rank > 0)
        words += [f"--name={name}", f"--report={folder / name}", f"--rank={rank}", *others]
    command = [task_program.find_task_program(), f"--order={[*Order].index(Order(order))}", *words]
    done = subprocess.run(command, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    found = {path.name: task_report.load_report(path) for path in folder.iterdir()}
    return {name: report for name, report in found.items() if report is not None}


def sequence(found: dict[str, TaskReport]) -> str:
    """The tasks by the order of their jobs, none of which overlap."""
    jobs = sorted((job.start, job.finish, name) for name, report in found.items() for job in report.jobs)
    assert all(one[1] <= other[0] for one, other in pairwise(jobs))
    return "".join(name for _, _, name in jobs)


#: All jobs are released before the first one is over: what comes then follows from the order alone.
LATE = "--period=1 --segments=cpu:2000000 --jobs=2"


@pytest.mark.parametrize(
    ("order", "expected"), [("priority", "aabb"), ("ros2", "abab"), ("ros2-live-timers", "aabb"), ("fifo", "abab")]
)
def test_pending_jobs_are_served_in_the_order_of_the_thread(order: str, expected: str, tmp_path: Path) -> None:
    """Both tasks of ros2-live-timers are timers; the first has no release left to skip."""
    timer = " --timer --period=1000000" if order == "ros2-live-timers" else ""
    found = reports(tmp_path, order, f"a {LATE}{timer}", f"b {LATE}")
    assert sequence(found) == expected


def test_a_timer_that_is_late_skips_releases(tmp_path: Path) -> None:
    found = reports(tmp_path, "ros2", "a --period=1000000 --segments=cpu:5000000 --jobs=3 --timer", f"b {LATE}")
    numbers = [job.number for job in found["a"].jobs]
    assert numbers[0] == 0
    assert numbers[-1] > 2
    assert all(job.release <= job.start for job in found["a"].jobs)


def test_a_run_of_a_thread_is_judged_as_what_its_file_says() -> None:
    """The jobs of both tasks have their segments, and no finding says that the thread is another one.

    A second holds ten releases of each; a timer that the machine keeps waiting skips some of them.
    """
    file = taskset.load(ROOT / "examples/every-key-of-threads.toml")
    with Emulator(file.taskset.platform) as host:
        seen = launch.launch(file, crew.CrewOptions(1, str(host.socket), "segment"))
    released = {name: len(one.jobs) + one.unfinished for name, one in seen.reports.items()}
    assert {*released} == {"detect", "watchdog"}
    assert all(0 < count <= 10 for count in released.values())
    assert {*sequence({name[0]: report for name, report in seen.reports.items()})} == {"d", "w"}
    begun = [event.task for event in seen.trace.events if event.kind is Kind.BEGIN]
    detect = seen.reports["detect"]
    assert {*begun} == {"detect"}
    assert len(detect.jobs) <= len(begun) <= len(detect.jobs) + detect.unfinished  # one of these may have begun
    assert not {What.THREAD, What.UNDECLARED, What.PERIOD} & {one.what for one in judged(seen.trace, file).findings}
