# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan modes` compares ways that divide the GPU with those that share it in time: each is best somewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from analysis.answers.choose import choices
from analysis.answers.divide import best_division, divisions
from analysis.taskset import load
from pycontrol import cli

Choose = Callable[..., dict[str, Any]]


def file(platform: str, *tasks: str) -> str:
    """A file with a [platform] of two CPUs; tasks are named t1, t2, ..., the first one most urgent."""
    text = f"[platform]\ncpus = 2\n{platform}\n"
    for at, task in enumerate(tasks, start=1):
        text += f"[[task]]\nname = 't{at}'\npriority = {9 - at}\n{task}\n"
    return text


def kernel(cpu: int, times: str) -> str:
    return f"cpu = {cpu}\nperiod = '10ms'\nsegments = [{{ kernel_times = [{times}] }}]"


def scaling(cpu: int) -> str:
    return (
        f"cpu = {cpu}\nperiod = '15ms'\n"
        "segments = [{ misc = '0ms', gpu = { parallel = '8ms', serial = '6ms' } }]"
    )


FREE = "epsilon = '0ms'\ntheta = '0ms'\n"
#: On both units 2 ms and 2 + 2 ms of 10; on one each 8 ms.
SHARED = file(FREE + "compute_units = 2", kernel(0, "'8ms', '2ms'"), kernel(1, "'8ms', '2ms'"))
#: On both units 7 + 7 ms of 10; on one each 8 ms.
OWNED = file(FREE + "compute_units = 2", kernel(0, "'8ms', '7ms'"), kernel(1, "'8ms', '7ms'"))
#: All on one CPU.  If t1 and t2 spin, t1 takes 9 ms of 17, t2 14 of 20, t3 16 of 24.  If they suspend, t3 can have two
#: jobs of each above it: t1 ends a job by 9 at most, so that 8 ms later it comes again, and t2 after 20 - 13 + 1 = 8.
#: It takes 2 + (4 + 4 + 4) + (4 + 4) = 22 ms.  On a GPU that is shared in time each update delays as well.
BUSY = file(
    "epsilon = '2ms'\ntheta = '1ms'\ncompute_units = 2",
    "cpu = 0\nperiod = '17ms'\nsegments = [{ cpu = '4ms' }, { kernel_times = ['1ms', '1ms'] }, { cpu = '4ms' }]",
    "cpu = 0\nperiod = '20ms'\nsegments = [{ cpu = '4ms' }, { kernel_times = ['1ms', '1ms'] }]",
    "cpu = 0\nperiod = '24ms'\nsegments = [{ cpu = '2ms' }]",
)
#: On all units 8 + 8 ms of 15; a partition of one unit for each is the least: 8 + 6 ms.
PARTED = file(FREE + "compute_units = 4", scaling(0), scaling(1))


@pytest.fixture
def chosen(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Choose:
    """Runs `gpurt plan modes` on a text; the document, with the exit code."""

    def call(text: str, *options: str) -> dict[str, Any]:
        path = tmp_path / "set.toml"
        path.write_text(text)
        code = cli.run(["plan", "modes", str(path), "--json", *options])
        return {**json.loads(capfd.readouterr().out), "code": code}

    return call


@pytest.mark.parametrize(
    ("text", "way", "slack", "units", "schedulable"),
    [
        (SHARED, "segment", 0.6, None, True),
        (OWNED, "federated", 0.2, {"t1": 1, "t2": 1}, False),
        (BUSY, "federated-busy", 0.3, {"t1": 1, "t2": 1}, False),
        (PARTED, "partitions", 1 / 15, {"t1": 1, "t2": 1}, False),
    ],
)
def test_each_way_is_the_best_one_somewhere(
    chosen: Choose, text: str, way: str, slack: float, units: dict[str, int] | None, schedulable: bool
) -> None:
    data = chosen(text)
    told = data["recommended"]
    assert (told["way"], told["slack"]) == (way, pytest.approx(slack))
    assert (told["needs"] is None) == (units is None)
    assert {one["way"]: one["units_by_task"] for one in data["divisions"]}.get(way) == units
    # what no host provides is no reason for a yes
    assert (data["schedulable"], data["code"]) == (schedulable, 0 if schedulable else 1)


def test_what_the_other_ways_leave(chosen: Choose) -> None:
    slacks = {one["way"]: one["slack"] for one in chosen(BUSY)["divisions"]}
    assert slacks["federated"] == pytest.approx(1 / 12)
    assert {one["way"]: one["slack"] for one in chosen(SHARED)["divisions"]}["federated"] == 0.2


def test_each_way_that_cannot_be_had_says_why(chosen: Choose) -> None:
    why = {one["way"]: one["why"] for one in chosen(PARTED)["divisions"]}
    assert "t1 has a GPU time by parallel, serial or units" in why["federated"]
    assert why["partitions"] is None
    why = {one["way"]: one["why"] for one in chosen(OWNED)["divisions"]}
    assert "t1 has kernels or copies" in why["partitions"]
    plain = file(FREE, "cpu = 0\nperiod = '10ms'\nsegments = [{ misc = '0ms', gpu = '1ms' }]")
    assert all("no compute_units" in one["why"] for one in chosen(plain)["divisions"])
    alone = file(FREE, "cpu = 0\nperiod = '10ms'\nsegments = [{ cpu = '1ms' }]")
    assert all("no real-time task uses the GPU" in one["why"] for one in chosen(alone)["divisions"])


def test_a_task_without_gpu_work_counts_too(chosen: Choose) -> None:
    """It needs 11 ms of 10, on a CPU of its own; with 9.9 ms it is the tightest of all."""
    for worst, expected in (("11ms", None), ("9.9ms", 0.01)):
        other = f"cpu = 2\nperiod = '10ms'\nsegments = [{{ cpu = '{worst}' }}]"
        text = file(FREE + "compute_units = 4", scaling(0), scaling(1), other).replace("cpus = 2", "cpus = 3")
        told = next(one for one in chosen(text)["divisions"] if one["way"] == "partitions")
        assert told["slack"] == (expected and pytest.approx(expected))
        assert bool(told["why"]) == (expected is None)


def test_a_best_effort_task_that_uses_the_gpu_is_in_no_plan(chosen: Choose) -> None:
    idle = "cpu = 0\nperiod = '15ms'\nsegments = [{ misc = '0ms', gpu = '1ms' }]"
    text = file(FREE + "compute_units = 4", scaling(0), scaling(1), idle).replace("priority = 6", "priority = 0")
    told = next(one for one in chosen(text)["divisions"] if one["way"] == "partitions")
    assert told["why"].startswith("t3 is best effort")


def test_a_plain_gpu_time_is_not_taken_for_that_on_fewer_units(chosen: Choose) -> None:
    """8 ms on the whole GPU are not 8 ms on one of its units."""
    plain = "cpu = {}\nperiod = '10ms'\nsegments = [{{ misc = '0ms', gpu = '8ms' }}]"
    owned = plain + "\npartition = {{ compute_units = 2 }}"
    for tasks, why in (([plain, plain], "t1"), ([owned, plain], "t1"), ([owned, owned], None)):
        text = file(FREE + "compute_units = 4", *(task.format(cpu) for cpu, task in enumerate(tasks)))
        for told in chosen(text)["divisions"][:2]:
            assert (told["slack"] is None) == bool(why)
            assert not why or told["why"].startswith(f"{why} has a GPU time that is known for the units it has now")


def test_kernels_of_best_effort_are_kept_off_nothing(chosen: Choose) -> None:
    text = file(FREE + "compute_units = 3", kernel(0, "'8ms'"), kernel(1, "'1ms'"))
    for told in chosen(text.replace("priority = 7", "priority = 0"))["divisions"][:2]:
        assert "t2 is best effort and has kernels, and nothing keeps them off the units of the others" in told["why"]


def test_nothing_of_a_division_is_written(chosen: Choose, tmp_path: Path) -> None:
    assert chosen(OWNED, "--write")["files"] == []
    assert (tmp_path / "set.toml").read_text() == OWNED


def test_the_text_says_what_the_recommendation_needs(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(OWNED)
    assert cli.run(["plan", "modes", str(path)]) == 1
    out = capfd.readouterr().out
    assert out.startswith("NOT PROVED: no policy")
    assert "federated leaves the most slack, 20.0 %; no host keeps kernels on their units" in out


def test_units_of_the_file_are_kept(tmp_path: Path) -> None:
    """One of three units each takes 8 ms; on all three, 2 ms and 2 + 2 ms."""
    path = tmp_path / "set.toml"
    times = "'8ms', '4ms', '2ms'"
    tasks = [kernel(cpu, times) + "\npartition = { compute_units = 1 }" for cpu in (0, 1)]
    path.write_text(file(FREE + "compute_units = 3", *tasks))
    taskset = load(path).taskset
    own = divisions(taskset)[0]
    assert (own.units, own.slacks) == ({"t1": 1, "t2": 1}, [Fraction(1, 5), Fraction(1, 5)])
    assert best_division(choices(taskset), divisions(taskset)) == own
    path.write_text(file(FREE + "compute_units = 3", kernel(0, times), kernel(1, times)))
    found = divisions(load(path).taskset)[0]
    assert sorted((found.units or {}).values()) in ([1, 1], [1, 2])
    assert found.slacks[0] == Fraction(1, 5)


def test_partitions_of_tasks_that_share_a_cpu_are_compared(tmp_path: Path) -> None:
    """8 + 6 ms on the GPU each, at once: updates are free, and no task executes on the CPU."""
    path = tmp_path / "set.toml"
    path.write_text(file(FREE + "compute_units = 4", scaling(0), scaling(0)))
    [found] = [one for one in divisions(load(path).taskset) if one.way == "partitions"]
    assert (found.test, found.why, found.units) == ("partitioned-suspend", "", {"t1": 1, "t2": 1})
    assert found.slacks == [Fraction(1, 15), Fraction(1, 15)]
    path.write_text(file(FREE + "compute_units = 4", scaling(0), scaling(0) + "\nwaiting = 'busy'"))
    [found] = [one for one in divisions(load(path).taskset) if one.way == "partitions"]
    assert (found.slack, found.why) == (None, "tasks share CPUs, and some wait busily and some suspend")
