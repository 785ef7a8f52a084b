# SPDX-License-Identifier: GPL-2.0
"""`gpurt simulate --energy`: its answers, its files, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller
from energy_calls import VALID

ROOT = Path(__file__).resolve().parents[2]
TOY, EXAMPLE5 = str(ROOT / "examples/energy/toy.toml"), str(ROOT / "examples/energy/example5.toml")
MINIMAL = str(ROOT / "examples/minimal.toml")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def test_energy_by_its_parts(run: Gpurt) -> None:
    """Example 5 by hand: 1 W static, and 36 mJ of kernels in each 20 ms.  Under `segment` t3 misses."""
    words = ("simulate", EXAMPLE5, "--energy", "--runs", "3")
    code, out, err = run(*words)
    assert code == 1
    energy, counts = ["1.120000", "0.400000", "0.000000", "0.720000"], ["45.00", "80", "20", "0.018667"]
    assert out.splitlines()[-1].split() == energy + counts
    assert "epsilon is 0: every bound assumes that runlist updates cost nothing" in err
    code, out, err = run(*words, "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert not list(VALID.iter_errors(found))
    parts = {"energy": 1_120_000, "static": 400_000, "idle": 0, "dynamic": 720_000}
    assert {part: found[f"{part}_uj"] for part in parts} == parts
    assert (found["judged_jobs"], found["missed_jobs"], found["busy_ns"]) == (80, 20, 180_000_000)
    assert found["units_by_task"] == {"t1": 4, "t2": 4, "t3": 4}


def test_a_trace_has_the_power(run: Gpurt, tmp_path: Path) -> None:
    trace, gantt = (tmp_path / name for name in ("run.json", "gantt.svg"))
    words = ("simulate", EXAMPLE5, "--energy", "--kernel-units", "opt", "--runs", "1", "--policy", "lock-fifo")
    assert run(*words, "-o", str(trace), "--json")[1].count(str(tmp_path)) == 1
    entries = json.loads(trace.read_text())["traceEvents"]
    assert {entry["name"] for entry in entries if entry["ph"] == "C"} == {"GPU 0 power, mW"}
    assert run("trace plot", str(trace), "-o", str(gantt))[0] == 0


@pytest.mark.parametrize(("words", "code", "message"), [
    ([MINIMAL, "--energy"], 3, "[[gpu]] is missing"),
    ([TOY, "--energy"], 2, "has 2 GPUs; --energy simulates one that is shared in time"),
    ([MINIMAL, "--kernel-units", "opt"], 2, "--kernel-units goes with --energy"),
    ([EXAMPLE5, "--energy", "--policy", "none"], 2, "no policy is called 'none'"),
])  # fmt: skip
def test_mistakes_get_clear_lines(run: Gpurt, words: list[str], code: int, message: str) -> None:
    got, out, err = run("simulate", *words)
    assert (got, out) == (code, "")
    assert message in err
    assert all(line.startswith("gpurt: ") for line in err.splitlines())
