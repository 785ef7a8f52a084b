"""`gpurt plan slices`: its answers, and what it says where nothing is proved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/slices.toml"


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def test_the_plan_of_the_example_by_hand(gpurt: Gpurt) -> None:
    """camera: 2 turns of 1 ms, each after 2.462688 ms (2.112 times 1.024, three switches), and 3.2 ms of its own."""
    code, out, _ = gpurt("plan", "slices", EXAMPLE, "--json")
    tasks = json.loads(out)["tasks"]
    assert code == 0
    assert tasks["camera"] == {
        "slice_ns": 1_000_000, "interleave": "low", "gap_ns": 2_462_688, "wcrt_ns": 8_125_376,
        "deadline_ns": 10_000_000,
    }  # fmt: skip


def test_programs_outside_the_file_count(gpurt: Gpurt) -> None:
    bounds = [
        json.loads(gpurt("plan", "slices", EXAMPLE, "--best-effort", number, "--json")[1])["tasks"]["map"]["wcrt_ns"]
        for number in ("0", "1")
    ]
    assert bounds[0] < bounds[1]
    many = json.loads(gpurt("plan", "slices", EXAMPLE, "--best-effort", "30", "--json")[1])["tasks"]
    assert {one["interleave"] for one in many.values()} != {"low"}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [('"10ms"', '"3ms"', "no slices and levels were found"),
     ('waiting = "suspend"', 'waiting = "busy"\npartition = "p"', "camera waits busily"),
     ('theta = "100us"', "", "theta is missing"),
     ("priority = ", "priority = 0 # ", "no real-time task uses the GPU")],
)  # fmt: skip
def test_what_is_not_covered_is_said(gpurt: Gpurt, tmp_path: Path, old: str, new: str, why: str) -> None:
    file = tmp_path / "set.toml"
    shared = '[[partition]]\nname = "p"\nshared = "deadline"\n' if "partition" in new else ""
    text = EXAMPLE.read_text(encoding="utf-8").replace(old, new, 1 if "partition" in new else -1)
    file.write_text(text + shared, encoding="utf-8")
    code, out, _ = gpurt("plan", "slices", file)
    assert code == 1
    assert out.startswith(f"NOT PROVED: {why}")
    assert out.count("\n") == 1


def test_tasks_that_wait_busily_are_planned_for(gpurt: Gpurt, tmp_path: Path) -> None:
    """Alone on their CPUs they have the same bounds; the file that is written has the bounds that were printed."""
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(EXAMPLE.read_text(encoding="utf-8").replace('waiting = "suspend"', 'waiting = "busy"'))
    code, text, _ = gpurt("plan", "slices", file, "-o", out, "--json")
    tasks = json.loads(text)["tasks"]
    assert code == 0
    assert tasks == json.loads(gpurt("plan", "slices", EXAMPLE, "--json")[1])["tasks"]
    code, text, _ = gpurt("analyze", out, "--test", "supply-fp-mixed", "--json")
    assert code == 0
    (test,) = json.loads(text)["tests"]
    assert {name: one["wcrt_ns"] for name, one in test["tasks"].items()} == {n: t["wcrt_ns"] for n, t in tasks.items()}


@pytest.mark.parametrize("policy", ["", 'policy = "segment"', 'policy = "timesliced"'])
def test_the_file_that_is_written_is_for_the_policy_of_the_plan(gpurt: Gpurt, tmp_path: Path, policy: str) -> None:
    """Its bounds under another policy are other ones, and a host would be told to run that."""
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    text = EXAMPLE.read_text(encoding="utf-8").replace('policy = "timesliced"', policy)
    file.write_text(text, encoding="utf-8")
    code, printed, _ = gpurt("plan", "slices", file, "-o", out, "--json")
    plan = json.loads(printed)
    assert (code, any("the plan is for policy timesliced" in one for one in plan["notes"])) == (
        0, "timesliced" not in policy,
    )  # fmt: skip
    code, printed, _ = gpurt("analyze", out, "--json")
    answer = json.loads(printed)
    assert (code, answer["policy"]) == (0, "timesliced")
    bounds = {name: one["wcrt_ns"] for name, one in answer["tests"][0]["tasks"].items()}
    assert bounds == {name: one["wcrt_ns"] for name, one in plan["tasks"].items()}


def test_a_part_of_the_gpu_has_no_slices(gpurt: Gpurt, tmp_path: Path) -> None:
    """A TSG is written as a partition of its own: each of two would have all units of that part."""
    file = tmp_path / "set.toml"
    text = EXAMPLE.read_text(encoding="utf-8").replace("[platform]\n", "[platform]\ncompute_units = 8\n")
    text = text.replace("priority = ", 'partition = "p"\npriority = ')
    file.write_text(f'{text}\n[[partition]]\nname = "p"\ncompute_units = 4\n', encoding="utf-8")
    code, out, _ = gpurt("plan", "slices", file)
    assert (code, out.count("\n")) == (1, 1)
    assert "is in partition p, which is a part of the GPU" in out


@pytest.mark.parametrize("order", ["priority", "deadline"])
def test_the_order_in_which_best_effort_alone_has_a_tsg_does_not_matter(
    gpurt: Gpurt, tmp_path: Path, order: str
) -> None:
    """Bounds are for the order of the real-time tasks' TSG; `analyze` has them, too."""
    task = (
        '[[task]]\nname = "{}"\ncpu = {}\npriority = {}\nperiod = "{}"\npartition = "{}"\n'
        'segments = [{{ misc = "0ns", gpu = "{}" }}]\n'
    )
    text = f"""[platform]
cpus = 2
policy = "timesliced"
epsilon = "0ns"
theta = "0ns"
[[partition]]
name = "rt"
shared = "deadline"
[[partition]]
name = "be"
shared = "{order}"
"""
    for one in (("urgent", 0, 9, "200ms", "rt", "20ms"), ("other", 1, 5, "60ms", "rt", "10ms"),
                ("b0", 1, 0, "100ms", "be", "5ms"), ("b1", 1, 0, "100ms", "be", "5ms")):  # fmt: skip
        text += task.format(*one)
    (file := tmp_path / "set.toml").write_text(text, encoding="utf-8")
    code, printed, err = gpurt("plan", "slices", file, "-o", tmp_path / "out.toml", "--json")
    assert code == 0, err
    code, out, _ = gpurt("analyze", tmp_path / "out.toml", "--json")
    (test,) = json.loads(out)["tests"]
    assert (code, test["test"]) == (0, "supply-edf")
    bounds = {name: one["wcrt_ns"] for name, one in test["tasks"].items()}
    assert bounds == {name: one["wcrt_ns"] for name, one in json.loads(printed)["tasks"].items()}
