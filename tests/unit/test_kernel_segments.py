# SPDX-License-Identifier: GPL-2.0
"""Copies and kernels in a taskset file, the tests of partitioned units on it, and what sharing the GPU makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.answers import registry
from analysis.answers.registry import UNITS
from analysis.answers.sensitivity import slowed
from analysis.model import MS, US, Copy, GpuSegment, Kernel, Span
from analysis.rta.result import Reason
from analysis.taskset import load
from gpurt.errors import TasksetError
from pycontrol import cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/federated.toml"
FILE = """[platform]
cpus = 1
policy = "federated"
epsilon = "0ns"
compute_units = 4
[[task]]
name = "a"
cpu = 0
priority = 2
period = "100ms"
segments = [
  { cpu = "1ms" },
  { copy = { worst = "2ms", best = "1ms" } },
  { kernel = { worst = "8ms", best = "6ms" }, overhead = "1ms", interleave = "1.8", block = "100us" },
  { copy = "1ms" },
  { kernel_times = ["7ms", "3.5ms"] },
]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "set.toml"
    path.write_text(text)
    return path


def test_copies_and_kernels_in_a_row_are_parts_of_one_gpu_segment(tmp_path: Path) -> None:
    segment = load(write(tmp_path, FILE)).taskset.tasks[0].segments[1]
    assert isinstance(segment, GpuSegment)
    assert segment.parts == (
        Copy(Span(2 * MS, 1 * MS)), Kernel(Span(8 * MS, 6 * MS), MS, 1800, 100 * US), Copy(Span.exactly(MS)),
        Kernel(Span.exactly(7 * MS), 0, 1000, 0, (Span.exactly(7 * MS), Span.exactly(3500 * US))),
    )  # fmt: skip
    kernel = -(-(18 * (8 * MS + 7 * 100 * US) - 10 * MS) // 80) + MS
    assert segment.pure == Span((2 + 1) * MS + kernel + 3500 * US, (1 + 1) * MS + 6 * MS // 8 + 3500 * US)
    assert segment.misc == Span.exactly(0)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("compute_units = 4\n", "", 13, "a kernel needs SMs or CUs"),
        ('overhead = "1ms"', 'overhead = "15ms"', 14, "overhead: is part of the kernel's time"),
        ('block = "100us"', 'block = "9ms"', 14, "block: is part of the kernel's time"),
        ('interleave = "1.8"', 'interleave = "2.1"', 14, "interleave: expected a factor"),
        ('interleave = "1.8"', "interleave = 1.8", 14, "interleave: expected a factor"),
        ('"3.5ms"]', '"0ms"]', 16, "kernel_times: the time on 2 is 0"),
        ('["7ms", "3.5ms"]', "[]", 16, "kernel_times: expected an array of times"),
        ('{ copy = "1ms" }', '{ copy = "101ms" }', 15, "copy: is longer than the task's period"),
        ('{ copy = "1ms" }', '{ copy = "1ms", overhead = "1ms" }', 15, "a segment is"),
        ('{ copy = "1ms" }', '{ overhead = "1ms" }', 15, "a segment is"),
        ('{ kernel_times = ["7ms", "3.5ms"] }', '{ kernel_times = ["7ms"], kernel = "7ms" }', 16, "a segment is"),
    ],
)
def test_mistakes_are_reported_at_their_lines(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in FILE
    with pytest.raises(TasksetError) as caught:
        load(write(tmp_path, FILE.replace(old, new)))
    assert caught.value.problems[0].line == line
    assert all(says in problem.message for problem in caught.value.problems)


def test_a_kernel_of_unknown_interleaving_takes_as_long_as_its_halves_one_after_the_other(tmp_path: Path) -> None:
    """Alone on one unit it takes 8 ms, so that no number of units makes it less than 8 ms divided by that number.

    A factor of 1 would say that two halves take 4 ms together on one unit.
    """
    text = FILE.replace(', overhead = "1ms", interleave = "1.8", block = "100us"', "")
    (kernel,) = [part for part in load(write(tmp_path, text)).taskset.tasks[0].gpu_segments[0].parts
                 if isinstance(part, Kernel) and not part.times]  # fmt: skip
    assert [kernel.on(units).worst for units in (1, 2, 4)] == [8 * MS, 4 * MS, 2 * MS]


def test_where_tasks_share_the_gpu_in_time_a_kernel_has_all_units(tmp_path: Path) -> None:
    """A program that takes what it gets has the 4.5 ms of 4 units, and not the 4 ms of 3, on which it is faster."""
    text = FILE.replace('{ kernel_times = ["7ms", "3.5ms"] }', '{ kernel_times = ["9ms", "5ms", "4ms", "4.5ms"] }')
    alone = "\n".join(line for line in text.splitlines() if "copy" not in line and "kernel =" not in line)
    taskset = load(write(tmp_path, alone)).taskset
    assert taskset.tasks[0].pure_time == 4500 * US
    assert registry.find_test("gcaps-suspend").run(taskset).wcrt("a") == 1 * MS + 4500 * US
    owned = load(write(tmp_path, alone.replace('name = "a"', 'name = "a"\npartition = { compute_units = 4 }'))).taskset
    assert registry.find_test("rtgpu").run(owned).wcrt("a") == 1 * MS + 4 * MS


@pytest.mark.parametrize(("without", "refused"), [("", True), ("copy =", False), ("kernel", False)])
def test_copies_that_wait_for_kernels_have_no_bound_on_own_units(tmp_path: Path, without: str, refused: bool) -> None:
    """copy_engine = false says that copies do not run beside kernels, and these tests are for copies that do."""
    text = FILE.replace("compute_units = 4", "compute_units = 4\ncopy_engine = false")
    kept = "\n".join(line for line in text.splitlines() if not (without and without in line))
    path = write(tmp_path, kept)
    for name in UNITS:
        result = registry.find_test(name).run(load(path).taskset)
        assert result.schedulable is not refused
        assert refused is any("a copies, and copies do not run beside kernels" in str(one) for one in result.failures)
    assert cli.run(["simulate", str(path), "--policy", "federated", "--runs", "1"]) == (2 if refused else 0)


def test_bounds_of_own_units_say_which_best_cases_they_rely_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain time is worst and best case, which nobody may have meant, and makes these bounds lower."""
    path = write(tmp_path, FILE + FILE[FILE.index("[[task]]") :].replace('"a"', '"b"').replace("= 2\n", "= 1\n"))

    def noted(text: str, *command: str) -> list[str]:
        path.write_text(text)
        cli.run([*(command or ("analyze", "--test", "rtgpu")), str(path), "--json"])
        return [one for one in json.loads(capsys.readouterr().out)["notes"] if "without a best case" in one]

    text = path.read_text()
    assert [one.startswith("a, b: ") for one in noted(text)] == [True]
    assert [len(noted(text, command)) for command in ("analyze", "margins")] == [1, 1]
    full = text.replace('cpu = "1ms"', 'cpu = { worst = "1ms", best = "0ns" }').replace(
        'copy = "1ms"', 'copy = { worst = "1ms", best = "0ns" }'
    ).replace(
        '["7ms", "3.5ms"]', '[{ worst = "7ms", best = "1ns" }, { worst = "4ms", best = "1ns" }]'
    )
    assert noted(full) == []


def test_the_example_is_analysed_on_the_units_that_it_needs() -> None:
    taskset = load(EXAMPLE).taskset
    result = registry.find_test("rtgpu").run(taskset)
    assert result.schedulable
    assert result.units == {"t1": 2, "t2": 1, "t3": 1}


def test_units_that_the_file_gives_are_used(tmp_path: Path) -> None:
    given = write(tmp_path, FILE.replace('name = "a"', 'name = "a"\npartition = { compute_units = 3 }'))
    assert registry.find_test("rtgpu").run(load(given).taskset).units == {"a": 3}
    second = FILE[FILE.index("[[task]]") :].replace('name = "a"', 'name = "b"\npartition = { compute_units = 3 }')
    both = load(write(tmp_path, given.read_text() + second.replace("priority = 2", "priority = 1"))).taskset
    failure = registry.find_test("rtgpu").run(both).failures[0]
    assert failure.reason is Reason.NO_UNITS
    assert "have 6 units of the GPU, and it has 4" in str(failure)


def test_a_slower_clock_slows_copies_and_kernels(tmp_path: Path) -> None:
    taskset = load(write(tmp_path, FILE)).taskset
    test = registry.find_test("rtgpu")
    before, after = (test.run(one).wcrt("a") for one in (taskset, slowed(taskset, 2)))  # type: ignore[arg-type]
    assert before is not None
    assert after == 2 * before


def test_every_test_of_a_shared_gpu_takes_copies_and_kernels_as_one_gpu_segment() -> None:
    taskset = load(EXAMPLE).taskset
    for name in ("gcaps-suspend", "boosted-suspend", "tsg-rr-busy", "lock-fifo-suspend"):
        assert registry.find_test(name).run(taskset).wcrt("t1") or registry.find_test(name).run(taskset).failures
    first = taskset.tasks[0]
    assert (first.eta, first.cpu_time, first.misc_time) == (1, 2 * MS, 0)
    assert first.pure_time == 4 * MS + -(-(18 * 16 - 10) * MS // 140) + MS


@pytest.mark.parametrize("name", registry.UNITS)
def test_analyze_runs_the_test_by_name(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["analyze", str(EXAMPLE), "--test", name, "--json"])
    data = json.loads(capfd.readouterr().out)
    sound = registry.find_test(name).sound
    assert code == (0 if data["schedulable"] else 1)
    assert data["tests"][0]["sound"] is sound
    assert sound or not data["schedulable"]
    for task in data["tests"][0]["tasks"].values():
        assert task["wcrt_ns"] is None or sum(term["amount_ns"] for term in task["terms"]) == task["wcrt_ns"]


def test_units_need_no_epsilon(tmp_path: Path) -> None:
    path = write(tmp_path, FILE.replace('epsilon = "0ns"\n', ""))
    assert cli.run(["analyze", str(path), "--test", "rtgpu"]) == 0
    assert cli.run(["analyze", str(path), "--test", "gcaps-suspend"]) == 3
