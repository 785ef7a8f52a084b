# SPDX-License-Identifier: GPL-2.0
"""gpurt plan units, and how much may change before a task misses."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from analysis.answers.no import helps
from analysis.answers.registry import find_test
from analysis.taskset import load
from pycontrol import cli

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/federated.toml"
Gpurt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plan(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs `gpurt plan units FILE OPTION...`: exit code, stdout, stderr."""

    def call(file: Path, *options: str | Path) -> tuple[int, str, str]:
        code = cli.run(["plan", "units", str(file), *map(str, options)])
        return code, *capfd.readouterr()

    return call


def test_the_least_allocation_is_shown(plan: Gpurt) -> None:
    code, text, _ = plan(EXAMPLE)
    assert code == 0
    assert "fits in 4 of 7 compute units under rtgpu" in text


@pytest.mark.parametrize("name", ["rtgpu", "rtgpu-tight", "stgm"])
@pytest.mark.parametrize("objective", ["least", "slack"])
def test_what_is_written_has_the_same_bounds(
    plan: Gpurt, capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str, objective: str
) -> None:
    out = tmp_path / "own.toml"
    code, text, _ = plan(EXAMPLE, "--test", name, "--objective", objective, "-o", out, "--json")
    planned = json.loads(text)
    if code:
        assert (name, planned["files"], out.exists()) == ("stgm", [], False)
        return
    assert planned["files"] == [str(out)]
    assert cli.run(["analyze", str(out), "--test", name, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)["tests"][0]["tasks"]
    assert {task: row["wcrt_ns"] for task, row in told.items()} == {
        task: row["wcrt_ns"] for task, row in planned["tasks"].items()
    }
    written = load(out).taskset
    assert {task.name: task.partition.size for task in written if task.partition} == {
        task: row["units"] for task, row in planned["tasks"].items()
    }
    assert "# measured on 1, 2, 3 and 4 SMs" in out.read_text()


def test_the_objective_slack_uses_more_units(plan: Gpurt) -> None:
    data = {way: json.loads(plan(EXAMPLE, "--objective", way, "--json")[1]) for way in ("least", "slack")}
    shares = {way: min(Fraction(row["slack_ns"], row["deadline_ns"]) for row in one["tasks"].values())
              for way, one in data.items()}  # fmt: skip
    assert shares["slack"] > shares["least"]
    assert data["slack"]["used_units"] > data["least"]["used_units"]


TWO = """[platform]
cpus = 1
policy = "federated"
epsilon = "0ms"
compute_units = 4
[[task]]
name = "a"
cpu = 0
priority = 2
period = "10ms"
segments = [{ kernel = "1ms" }]
[[task]]
name = "b"
cpu = 0
priority = 1
period = "10ms"
segments = [{ kernel = "1ms" }]
"""


@pytest.fixture
def two(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Gpurt:
    """Runs a command on TWO with lines after those of a and of b: exit code, stdout, stderr."""

    def call(command: str, a: str, b: str = "", *options: str, old: str = "", new: str = "") -> tuple[int, str, str]:
        first, second = TWO.replace(old, new).split('[[task]]\nname = "b"')
        path = tmp_path / "two.toml"
        path.write_text(f'{first}{a}\n[[task]]\nname = "b"{second}{b}\n')
        code = cli.run([*command.split(), str(path), *options])
        return code, *capfd.readouterr()

    return call


OWN = "partition = { compute_units = 3 }"
COMMANDS = [("analyze", "--test", "rtgpu"), ("analyze", "--test", "rtgpu-tight"), ("plan units",),
            ("simulate", "--policy", "federated", "--runs", "1")]  # fmt: skip


@pytest.mark.parametrize("command", [*COMMANDS, ("margins", "--test", "rtgpu")], ids=" ".join)
def test_tasks_that_own_units_need_no_epsilon(two: Gpurt, command: tuple[str, ...]) -> None:
    """No runlist is updated for them.  Whatever else a command is asked for, it needs epsilon."""
    without = {"old": 'epsilon = "0ms"\n', "new": ""}
    code, _, err = two(command[0], "", "", *command[1:], **without)
    assert (code, "epsilon is missing" in err) == (0, False), err
    if command[1:]:
        code, _, err = two(command[0], "", "", **without)
        assert (code, "epsilon is missing" in err) == (3, True), err


def test_traces_and_reports_of_them_need_no_epsilon_either(
    two: Gpurt, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace, page, file = (str(tmp_path / name) for name in ("run.json", "page.html", "two.toml"))
    options = ("--policy", "federated", "--runs", "1", "-o", trace)
    assert two("simulate", "", "", *options, old='epsilon = "0ms"\n', new="")[0] == 0
    assert cli.run(["trace", "check", trace, file, "--test", "rtgpu"]) == 0, capfd.readouterr().err
    assert cli.run(["report", file, "--test", "rtgpu", "--elsewhere", "-o", page]) == 0
    assert f"gpurt margins {file} --test rtgpu" in Path(page).read_text()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("a", "old", "new", "line", "message"),
    [
        ("", "compute_units = 4", "", 11, "a kernel needs SMs or CUs"),
        ("", 'kernel = "1ms"', 'kernel_times = ["2ms", "", "1ms"]', 11, "kernel_times[2]: expected a time"),
        ("partition = { compute_units = 5 }", "", "", 12, "compute_units: the platform has 4, got 5"),
    ],
)
def test_what_a_file_cannot_say_has_a_line(
    two: Gpurt, command: tuple[str, ...], a: str, old: str, new: str, line: int, message: str
) -> None:
    code, _, err = two(command[0], a, "", *command[1:], old=old, new=new)
    assert code == 3
    assert f"two.toml:{line}: {message}" in err


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("compute_units = 4", "compute_units = 4\nbus = 'duplex'", 6, 'unknown key "bus": there is one bus for both'),
        ("compute_units = 4", "compute_units = 4\nunit_step = 2", 6, 'unknown key "unit_step": units = { minimum'),
        ("compute_units = 4", "compute_units = 4\nreserved_units = 1", 6, "compute_units are those that tasks may use"),
        ('kernel = "1ms"', "copy = '1ms', direction = 'in'", 11, 'unknown key "direction": there is one bus'),
        ("period", "group = 'g'\nperiod", 10, "group g: no bound is known for groups"),
    ],
)
def test_what_is_not_there_is_refused_by_name(two: Gpurt, old: str, new: str, line: int, message: str) -> None:
    code, _, err = two("analyze", "", "", "--test", "rtgpu", old=old, new=new)
    assert code == 3
    assert f"two.toml:{line}: " in err
    assert message in err


def test_more_units_than_the_gpu_has_are_a_failure(two: Gpurt) -> None:
    for name in ("rtgpu", "stgm"):
        code, out, _ = two("analyze", OWN, OWN, "--test", name)
        assert code == 1
        assert "a: no bound, because the tasks' partitions have 6 units of the GPU, and it has 4" in out
    code, _, err = two("simulate", OWN, OWN, "--policy", "federated", "--runs", "1")
    assert code == 2
    assert "have 6 units of the GPU, and it has 4" in err


def test_contradictory_waiting_modes_are_a_failure(two: Gpurt) -> None:
    text = "a waits busily and b suspends, and no test is about both"
    for name in ("rtgpu", "stgm"):
        code, out, _ = two("analyze", "waiting = 'busy'", "", "--test", name)
        assert code == 1
        assert f"b: no bound, because {text}" in out
    code, out, _ = two("plan units", "waiting = 'busy'", "")
    assert code == 1
    assert f"DOES NOT FIT under rtgpu: a: no bound, because {text}" in out
    code, _, err = two("simulate", "waiting = 'busy'", "", "--policy", "federated", "--runs", "1")
    assert code == 2
    assert "tasks wait busily or suspend, all of them in one way" in err


def test_units_are_planned_for_the_mode_in_which_tasks_wait(two: Gpurt) -> None:
    busy = "waiting = 'busy'"
    assert "fits in 2 of 4 compute units under stgm" in two("plan units", busy, busy)[1]
    code, out, _ = two("plan units", busy, busy, "--test", "rtgpu")
    assert code == 1
    assert "a waits in mode busy, and the test is about mode suspend" in out


def test_a_copy_longer_than_the_deadline_names_task_term_and_amount(two: Gpurt) -> None:
    """a copies for 6 + 6 ms of 10 beside its kernel, which takes 0.125 ms on all 4 units."""
    old, new = '{ kernel = "1ms" }', '{ copy = "6ms" }, { kernel = "1ms" }, { copy = "6ms" }'
    code, out, _ = two("plan units", "", "", old=old, new=new)
    assert code == 1
    assert "a: no bound below the deadline of 10 ms is known" in out
    assert "the largest part is" in out


def test_too_few_units_are_a_no_that_names_what_lacks(plan: Gpurt, tmp_path: Path) -> None:
    out = tmp_path / "own.toml"
    code, text, _ = plan(EXAMPLE, "--units", 2, "-o", out)
    assert (code, out.exists()) == (1, False)
    assert "3 tasks have kernels and need 3 units" in text
    code, text, _ = plan(EXAMPLE, "--units", 3)
    assert code == 1
    assert "t1: no bound below the deadline of 25 ms is known" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test", "gcaps-busy"], "not about tasks that own units"),
        (["--objective", "most"], "--objective"),
        (["--inside", "fp"], "--inside"),
        (["--sizes", "3:2"], "not the multiples of one number"),
    ],
)
def test_wrong_options_are_refused(plan: Gpurt, options: list[str], message: str) -> None:
    code, text, error = plan(EXAMPLE, *options)
    assert (code, text) == (2, "")
    assert message in error


def test_sizes_hold(plan: Gpurt) -> None:
    tasks = json.loads(plan(EXAMPLE, "--sizes", "2:2", "--json")[1])["tasks"]
    assert [row["units"] for row in tasks.values()] == [2, 2, 2]


def test_tasks_that_share_a_partition_fail(plan: Gpurt, tmp_path: Path) -> None:
    """Two partitions of 2, and t1 and t2 in one: that is no 2 + 2 + 2."""
    out = tmp_path / "own.toml"
    assert plan(EXAMPLE, "-o", out)[0] == 0
    out.write_text(out.read_text().replace('partition = "p2"', 'partition = "p1"'))
    result = find_test("rtgpu").run(load(out).taskset)
    assert not result.schedulable
    assert "t1 and t2 share units" in str(result.failures[0])


def test_a_gpu_time_that_scales_is_no_kernel(plan: Gpurt, tmp_path: Path) -> None:
    """On one unit it takes 7 times as long as on the whole GPU."""
    path = tmp_path / "set.toml"
    scaled = '{ misc = "1ms", gpu = { parallel = "7ms", serial = "0ms" } }'
    path.write_text(EXAMPLE.read_text().replace('{ copy = "2ms" }', scaled))
    code, text, _ = plan(path)
    assert code == 1
    assert "write it as kernel or kernel_times" in text
    system = load(path).taskset
    test = find_test("rtgpu")
    assert not [one for one in helps(test, system, test.run(system)) if "margins" in one]  # no time is too long


def test_a_task_that_only_copies_needs_no_units(plan: Gpurt, tmp_path: Path) -> None:
    path, out = tmp_path / "set.toml", tmp_path / "own.toml"
    copying = '\n[[task]]\nname = "c"\ncpu = 0\npriority = 9\nperiod = "80ms"\nsegments = [{ copy = "10us" }]\n'
    path.write_text(EXAMPLE.read_text() + copying)
    code, text, _ = plan(path, "-o", out, "--json")
    data = json.loads(text)
    assert (code, data["tasks"]["c"]["units"]) == (0, None)
    result = find_test("rtgpu").run(load(out).taskset)
    assert {name: result.wcrt(name) for name in data["tasks"]} == {
        name: row["wcrt_ns"] for name, row in data["tasks"].items()
    }


@pytest.mark.parametrize(("chunk", "wcrt"), [("", 5_000_000), ("bus_chunk = '500us'", 1_500_000)])
def test_the_chunk_of_the_file_is_all_that_a_lower_copy_delays(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, chunk: str, wcrt: int
) -> None:
    """a copies for 1 ms, after a chunk of b's copy of 4 ms, or all of it."""
    path = tmp_path / "two.toml"
    kernel = 'kernel = "1ms"'
    text = TWO.replace(kernel, 'copy = "1ms"', 1).replace(kernel, 'copy = "4ms"')
    path.write_text(text.replace("compute_units = 4", f"compute_units = 4\n{chunk}"))

    def told(command: str, *options: str) -> int:
        assert cli.run([*command.split(), str(path), "--json", *options]) == 0
        document = json.loads(capfd.readouterr().out)
        tasks = document["tests"][0]["tasks"] if command == "analyze" else document["tasks"]
        return int(tasks["a"]["wcrt_ns"])

    simulated = ("simulate", "--policy", "federated", "--runs", "20")
    assert told("analyze", "--test", "rtgpu") == told("plan units") == told(*simulated) == wcrt


def test_the_json_breakdown_of_each_bound_adds_up(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["analyze", str(EXAMPLE), "--test", "rtgpu", "--json"]) == 0
    for row in json.loads(capfd.readouterr().out)["tests"][0]["tasks"].values():
        assert sum(term["amount_ns"] for term in row["terms"]) == row["wcrt_ns"]


def test_a_run_of_a_file_about_another_policy_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`gpurt run --policy federated` says so before it looks for a host."""
    (file := tmp_path / "shared.toml").write_text(
        EXAMPLE.read_text(encoding="utf-8").replace('policy = "federated"', 'policy = "boosted"'), encoding="utf-8"
    )
    assert cli.run(["run", str(file), "--policy", "federated"]) == 2
    assert "--policy federated: the file is about another policy; gpurt plan units" in capfd.readouterr().err
