"""Commands choose and sensitivity, scripts/attack, analyze --region, and tasksets with extreme values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis.taskset import load
from gpurt.enums import Form

ROOT = Path(__file__).resolve().parents[2]
CASE_STUDY = str(ROOT / "examples/case-study.toml")


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capsys)


def taskset(path: Path, *tasks: str, platform: str = 'cpus = 2\nepsilon = "0ns"') -> Path:
    path.write_text("\n".join([f"[platform]\n{platform}", *(f"[[task]]\n{task}" for task in tasks)]) + "\n")
    return path


def cpu(time: str) -> str:
    return f'{{ cpu = "{time}" }}'


def gpu(time: str) -> str:
    return f'{{ misc = "0ms", gpu = "{time}" }}'


def task(name: str, segments: list[str], period: str = "10ms", priority: int = 5, cpu: int = 0, more: str = "") -> str:
    listed = ", ".join(segments)
    return f'name = "{name}"\ncpu = {cpu}\npriority = {priority}\nperiod = "{period}"\nsegments = [{listed}]\n{more}'


def test_a_region_is_waited_for_at_every_switch(gpurt: Gpurt) -> None:
    def wcrt(*more: str) -> int:
        code, out, _ = gpurt("analyze", CASE_STUDY, "--test", "gcaps-busy", "--json", *more)
        assert code == 1  # the file is for another policy
        return int(json.loads(out)["tests"][0]["tasks"]["histogram"]["wcrt_ns"])

    # one segment: its two updates, and the two that may be in flight at its begin and end
    assert wcrt("--region", "400us") - wcrt() == 4 * 400_000
    assert gpurt("analyze", CASE_STUDY, "--region", "-1us")[0] == 2


MIXED = [
    task("first", [cpu("4ms"), gpu("0.5ms")], "20ms", 4, 1, "waiting = 'busy'\nform = 'fence'"),
    task("beside", [cpu("6ms")], "10ms", 3, 1),
    task("often", [cpu("2ms"), gpu("6ms")], "10ms", 2, 0, "waiting = 'suspend'   # to be changed"),
    task("late", [cpu("0.5ms"), gpu("0.5ms")], "30ms", 1),
]


def test_what_is_chosen_can_be_written_and_then_passes(gpurt: Gpurt, tmp_path: Path) -> None:
    path = taskset(tmp_path / "set.toml", *MIXED)
    assert gpurt("analyze", path, "--test", "gcaps-mixed")[0] == 1
    code, out, _ = gpurt("plan", "modes", path, "--json")
    assert code == 0
    best = json.loads(out)["ways"][0]
    assert (best["policy"], best["test"]) == ("boosted", "boosted-suspend")
    code, out, _ = gpurt("plan", "modes", path, "--write")
    assert code == 0
    assert "gpurt set policy boosted" in out
    assert {t.name: t.waiting.value for t in load(path).taskset if t.uses_gpu} == {
        name: one["waiting"] for name, one in best["tasks"].items()
    }
    assert "# to be changed" in path.read_text()
    assert load(path).taskset.tasks[0].form is Form.SELF  # form fence is for tasks that wait busily
    assert gpurt("analyze", path)[0] == 0


def test_no_way_is_said_and_nothing_written(gpurt: Gpurt, tmp_path: Path) -> None:
    path = taskset(tmp_path / "set.toml", task("a", [cpu("11ms")]))
    before = path.read_text()
    code, out, _ = gpurt("plan", "modes", path, "--write")
    assert code == 1
    assert out.startswith("NOT PROVED: no policy")
    assert path.read_text() == before


def test_margins_begin_with_the_one_that_hurts_most(gpurt: Gpurt, tmp_path: Path) -> None:
    """The least room first; of a file that fails, the least change that cures it, and what cures nothing last."""
    path = taskset(tmp_path / "set.toml", task("a", [cpu("2ms")]), task("b", [cpu("3ms")], "20ms", 4))

    def factors() -> list[str]:
        lines = gpurt("margins", path)[1].partition("factor\n")[2].partition("\n\n")[0].splitlines()[1:]
        return [line.split("  ")[-1].strip() for line in lines]

    room = [float(one) for one in factors()]
    assert len(room) > 2
    assert room == sorted(room)
    path.write_text(path.read_text().replace("3ms", "30ms"))
    known = [float(one) for one in factors() if one != "no bound above 0"]
    assert known == sorted(known, reverse=True)
    assert factors()[len(known):] == ["no bound above 0"] * (len(factors()) - len(known))


def test_sensitivity_finds_how_much_may_grow(gpurt: Gpurt, tmp_path: Path) -> None:
    path = taskset(tmp_path / "set.toml", task("a", [cpu("2ms")]), task("b", [cpu("3ms")], "20ms", 4))
    command = ["margins", path, "--json"]
    code, out, _ = gpurt(*command)
    assert code == 0
    data = json.loads(out)
    found = {(one["what"], one["task"]): one["factor"] for one in data["margins"]}
    # b: 3 f + 2 jobs of a within 20; a: 2 f <= 10 and 3 + 2 * 2 f <= 20 (2 f <= 7 in the first 10 ms)
    assert found["C", "b"] == pytest.approx(16 / 3, abs=2e-6)
    assert found["C", "a"] == pytest.approx(8.5 / 2, abs=2e-6)
    assert gpurt("margins", taskset(path, task("a", [cpu("11ms")])))[0] == 1


def test_a_printed_time_errs_on_the_safe_side(gpurt: Gpurt, tmp_path: Path) -> None:
    """Bounds are rounded up, room for growth down: a file with what `sensitivity` prints passes."""
    more = 'deadline = "9999600ns"'
    path = taskset(tmp_path / "set.toml", task("a", [cpu("6000400ns")], more=more))
    assert ["a", "6.001", "10.000", "3.999", "yes"] in map(str.split, gpurt("analyze", path)[1].splitlines())
    assert gpurt("analyze", path, "--explain", "a")[1].splitlines()[-1].split()[:2] == ["total", "6.001"]
    assert gpurt("simulate", path, "--runs", "1")[1].splitlines()[-1].split()[2:4] == ["6.000", "6.001"]
    row = next(line for line in gpurt("margins", path)[1].splitlines() if line.startswith("CPU time"))
    most, factor = row.split()[-2:]
    for time, code in ((f"{most}ms", 0), (f"{float(factor) * 6000400:.0f}ns", 0), ("10ms", 1)):
        assert gpurt("analyze", taskset(path, task("a", [cpu(time)], more=more)))[0] == code, time


def test_attack_says_what_it_broke(gpurt: Gpurt, tmp_path: Path) -> None:
    few = ["--tasksets", "60", "--seed", "3", "--runs", "5", "--steps", "10", "--jobs", "1", "-o", str(tmp_path)]
    words = [sys.executable, str(ROOT / "scripts/attack"), "search", "gcaps-busy", "gcaps-busy-printed", *few]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    table = (tmp_path / "attack.md").read_text()
    assert "| `gcaps-busy` | sound | 60 |" in table
    assert done.stdout.strip() == table.strip()
    assert not (tmp_path / "gcaps-busy.toml").exists()
    example = tmp_path / "gcaps-busy-printed.toml"
    assert gpurt("experiment", "bounds", example, "--test", "gcaps-busy-printed")[0] == 0
    assert gpurt("experiment", "run", "gcaps-fig8a", "--runs", "5")[0] == 2


EDGES = {
    "huge": [task("a", [cpu("1s")], "1000000000s"), task("b", [gpu("1s")], "999999999s", 4)],
    "hyperperiod": [task(f"t{i}", [cpu("1ns"), gpu("1ns")], f"{p}ns", 9 - i)
                    for i, p in enumerate([999999937, 999999929, 999999893, 999999883])],
    "tiny": [task("a", [cpu("1ns"), gpu("1ns")], "100ns")],
    "full": [task("a", [cpu("10ms")])],
    "full together": [task("a", [cpu("5ms")]), task("b", [cpu("5ms")], priority=4)],
    "empty segments": [task("a", [cpu("0ms"), gpu("0ms")]), task("b", [cpu("1ms")], priority=4)],
    "no gpu": [task("a", [cpu("1ms")]), task("b", [cpu("1ms")], priority=4, cpu=1)],
    "best effort": [task("a", [cpu("1ms"), gpu("1ms")], priority=0)],
    "overload": [task("a", [cpu("6ms"), gpu("6ms")])],
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges_have_defined_results(gpurt: Gpurt, tmp_path: Path, name: str) -> None:
    path = taskset(tmp_path / "edge.toml", *EDGES[name])
    expected = 1 if name in ("overload", "best effort") else 0
    assert gpurt("analyze", path)[0] == expected
    _, out, _ = gpurt("analyze", path, "--json", "--test", "gcaps-suspend")
    tests = {one["test"]: one["tasks"] for one in json.loads(out)["tests"]}
    wcrt = {task: verdict.get("wcrt_ns") for task, verdict in tests["gcaps-suspend"].items()}
    assert wcrt == {
        "huge": {"a": 10**9, "b": 2 * 10**9},
        "hyperperiod": {"t0": 2, "t1": 4, "t2": 6, "t3": 8},
        "tiny": {"a": 2},
        "full": {"a": 10**7},
        "full together": {"a": 5 * 10**6, "b": 10**7},
        "empty segments": {"a": 0, "b": 10**6},
        "no gpu": {"a": 10**6, "b": 10**6},
        "best effort": {"a": None},
        "overload": {"a": None},
    }[name]
    assert gpurt("plan", "modes", path)[0] == expected
    assert gpurt("margins", path)[0] == expected
    assert gpurt("plan", "priorities", path)[0] == expected


def test_a_failure_says_which_task_which_part_and_by_how_much(gpurt: Gpurt, tmp_path: Path) -> None:
    path = taskset(tmp_path / "set.toml", task("a", [cpu("6ms")]), task("b", [cpu("5ms")], "12ms", 4))
    code, out, _ = gpurt("analyze", path, "--test", "gcaps-suspend")
    assert code == 1
    assert "b: no bound below the deadline of 12 ms is known" in out
    assert "CPU preemption from a" in out
