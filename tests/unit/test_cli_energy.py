# SPDX-License-Identifier: GPL-2.0
"""The group `gpurt plan energy`: answers, documents, exit codes, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from energy_calls import document

from pycontrol.table import ENERGY

ROOT = Path(__file__).resolve().parents[2]
TOY, EXAMPLE5 = str(ROOT / "examples/energy/toy.toml"), str(ROOT / "examples/energy/example5.toml")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd, "plan", "energy")


CALLS = {
    "simulate": ([TOY, "--horizon", "600ms", "--policy", "ld", "--policy", "sbeet-mg"], 1),
    "explain": ([EXAMPLE5], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_command_answers_as_text_and_as_a_document(run: Gpurt, name: str) -> None:
    words, code = CALLS[name]
    got, out, _ = run(name, *words)
    assert got == code
    assert len(out.splitlines()) >= 3
    got, out, err = run(name, *words, "--json")
    assert (got, err) == (code, "")
    found = document(out, name)
    if "in_time" in found:
        assert found["in_time"] == (code == 0)


@pytest.mark.parametrize("name", ENERGY)
def test_every_command_has_help(run: Gpurt, name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "Examples:" in out
    assert "Exit codes:" in out
    code, _, err = run(name, "--no-such-option", "--json")
    assert code == 2
    assert document(err, name)["error"]["exit_code"] == 2


def test_nothing_about_run_time_policies_says_schedulable(run: Gpurt) -> None:
    for name, (words, _) in CALLS.items():
        for options in ([], ["--json"], ["--help"]):
            assert "schedulable" not in "".join(map(str, run(name, *words, *options))).lower()


def test_simulate_splits_energy_and_counts_misses(run: Gpurt) -> None:
    code, out, _ = run("simulate", TOY, "--horizon", "600ms", "--json")
    (one,) = document(out, "simulate")["policies"]
    assert code == 1
    assert one["policy"] == "sbeet-mg"
    assert (one["missed_jobs"], one["judged_jobs"]) == (6, 30)
    assert one["energy_uj"] == 45_942_000 == one["static_uj"] + one["idle_uj"] + one["dynamic_uj"]
    assert one["static_uj"] == 54 * 600_000
    assert sum(gpu["energy_uj"] for gpu in one["gpus"]) == one["energy_uj"]
    assert sum(task["missed_jobs"] for task in one["tasks"].values()) == 6


def test_runs_add_up_and_equal_seeds_make_equal_runs(run: Gpurt) -> None:
    words = ["simulate", TOY, "--horizon", "300ms", "--execution", "random", "--sporadic", "--random-offsets", "--json"]

    def jobs(*options: object) -> dict[str, Any]:
        one: dict[str, Any] = document(run(*words, *options)[1], "simulate")["policies"][0]
        return one

    both = jobs("--runs", 2, "--seed", 5)
    first, second = jobs("--seed", 5), jobs("--seed", 6)
    assert first != second
    assert abs(both["energy_uj"] - first["energy_uj"] - second["energy_uj"]) <= 1
    assert both["judged_jobs"] == first["judged_jobs"] + second["judged_jobs"]
    assert jobs("--seed", 5) == first


def test_simulate_writes_a_trace(run: Gpurt, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "run.json"
    assert run("simulate", TOY, "--horizon", "600ms", "-o", trace)[0] == 1
    entries = json.loads(trace.read_text())["traceEvents"]
    assert {entry["name"] for entry in entries if entry["ph"] == "C"} == {"GPU 0 power, mW", "GPU 1 power, mW"}


WRONG = [
    (["simulate", TOY, "--policy", "none"], 2, "no policy is called 'none'; there are sbeet,"),
    (["simulate", TOY, "--policy", "sbeet"], 2, "policy sbeet is for one GPU, and there are 2"),
    (["simulate", TOY, "--policy", "ld", "--policy", "bcf", "-o", "x.json"], 2, "-o goes with one --policy"),
    (["simulate", TOY, "--horizon", "100000s", "-o", "x.json"], 2, "-o: a run of 100000000.000 ms has"),
    (["simulate", TOY, "--horizon", "0ms"], 2, "--horizon: the horizon must be longer than 0"),
    (["simulate", "/nonexistent.toml"], 3, "/nonexistent.toml: No such file"),
    (["simulate", str(ROOT / "examples/minimal.toml")], 3, "[[gpu]] is missing"),
]


@pytest.mark.parametrize(("words", "code", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_mistakes_get_one_clear_line(run: Gpurt, words: list[str], code: int, message: str) -> None:
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert message in err
    assert all(line.startswith("gpurt: ") for line in err.splitlines())
    assert "bug" not in err
    got, out, err = run(*words, "--json")
    assert (got, out) == (code, "")
    assert message in document(err, words[0])["error"]["message"]


def test_the_group_is_what_the_command_line_has() -> None:
    assert set(ENERGY) == set(CALLS)


def test_a_task_of_which_no_job_was_due_is_not_in_time(run: Gpurt, tmp_path: Path) -> None:
    """The others are."""
    file, text = tmp_path / "idle.toml", Path(TOY).read_text()
    for short in ('period = "120ms"', 'period = "60ms"', 'period = "40ms"'):
        text = text.replace(short, 'period = "900ms"')
    file.write_text(text.replace('period = "150ms"', 'period = "200s"'))
    code, out, _ = run("simulate", file, "--horizon", "10s")
    assert code == 1
    assert "no job of c was due before the horizon" in out
    assert run("simulate", file, "--horizon", "201s")[0] == 0
