# SPDX-License-Identifier: GPL-2.0
"""The files of tests/cases: each is reduced from a report or from an attack, and commands once got it wrong.

tests/host/test_cases_live.py executes its programs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller

CASES = Path(__file__).resolve().parents[1] / "cases"
THREAD = '[[thread]]\nname = "node"\ncpu = 0\npriority = 10\norder = "ros2"\n'


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def asked(gpurt: Gpurt, *words: object) -> tuple[int, dict[str, Any]]:
    code, out, err = gpurt(*words, "--json")
    assert code in (0, 1), err
    return code, json.loads(out)


def bounds(document: dict[str, Any]) -> dict[str, float | None]:
    """In ms, by task; None: no bound within the deadline."""
    (test,) = document["tests"]
    return {name: one["wcrt_ns"] and one["wcrt_ns"] / 1e6 for name, one in test["tasks"].items()}


def test_no_case_is_forgotten() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    here += (CASES.parent / "host/test_cases_live.py").read_text(encoding="utf-8")
    assert [path.name for path in CASES.iterdir() if path.is_file() and path.name not in here] == []


def test_callbacks_of_one_thread_wait_for_one_another(gpurt: Gpurt, tmp_path: Path) -> None:
    """callbacks.toml has each callback as a task of its own: 20 of 20 ms, which no run of one thread keeps."""
    text = (CASES / "callbacks.toml").read_text(encoding="utf-8")
    served = text.replace('cpu = 0\npriority = 10\n', 'thread = "node"\nrank = 0\n', 1)
    served = served.replace('cpu = 0\npriority = 10\n', 'thread = "node"\nrank = 1\n') + THREAD
    for policy, late in (("segment", 53), ("boosted", 51)):
        file = tmp_path / "served.toml"
        file.write_text(served.replace('"segment"', f'"{policy}"'), encoding="utf-8")
        code, document = asked(gpurt, "analyze", file)
        assert (code, bounds(document)["watchdog"]) == (1, None)
        assert f"passed it at {late} ms" in document["why"]
        assert any("a job of node counts as released when its thread can see it" in one for one in document["notes"])
        _, report = asked(gpurt, "report", file, "--elsewhere", "-o", tmp_path / "page.html")
        seen = [one["support"] for one in report["assumptions"] if "A thread sees" in one["assumption"]]
        assert seen == ["unchecked"]


def test_one_short_suspension_in_much_work_is_no_proof_of_a_miss(gpurt: Gpurt) -> None:
    """susp-block.toml: c takes 7 of 10 ms."""
    code, exact = asked(gpurt, "attack", CASES / "susp-block.toml")
    assert (code, exact["tasks"]["c"]["exact_ns"]) == (0, 7_000_000)
    _, document = asked(gpurt, "analyze", CASES / "susp-block.toml")
    assert bounds(document)["c"] == 7
    assert "misses" not in str(document["why"])
    assert document["simulated_misses"] == []


def test_copies_that_are_not_preempted_are_no_proof_of_a_miss(gpurt: Gpurt) -> None:
    """np1.toml: b takes 75 of 80 ms at most."""
    for test in ("rtgpu", "rtgpu-tight"):
        _, document = asked(gpurt, "analyze", CASES / "np1.toml", "--test", test)
        found = bounds(document)
        assert found["b"] is None or found["b"] >= 75, test
        assert found["b"] or "no bound below the deadline of 80 ms is known" in document["why"], test


@pytest.mark.parametrize("command", ["analyze", "report", "simulate", "margins", "plan modes"])
def test_best_effort_on_slices_has_an_answer(gpurt: Gpurt, tmp_path: Path, command: str) -> None:
    more = ["--elsewhere", "-o", tmp_path / "page.html"] if command == "report" else []
    code, document = asked(gpurt, command, CASES / "best-effort-slices.toml", *more)
    assert code == 0 or document["why"] or command == "plan modes"


def test_a_simulated_run_of_partitions_that_share_a_cpu_is_one_of_the_file(gpurt: Gpurt, tmp_path: Path) -> None:
    file, trace = CASES / "partitions-one-cpu.toml", tmp_path / "run.json"
    assert asked(gpurt, "simulate", file, "--runs", "1", "-o", trace)[0] == 0
    code, document = asked(gpurt, "trace check", trace, file)
    assert (code, document["findings"], document["why"]) == (0, [], None)


def test_a_deadline_beyond_the_period_is_refused_where_no_bound_knows_it(gpurt: Gpurt) -> None:
    """pipeline.toml: no command answers for another deadline."""
    code, out, err = gpurt("analyze", CASES / "pipeline.toml")
    assert code in (1, 3), err
    assert code == 1 or "pipeline.toml:9: deadline" in err
    assert "schedulable" not in out


@pytest.mark.parametrize("name", ["green.toml", "dep.toml"])
def test_what_is_said_of_whole_files(gpurt: Gpurt, name: str) -> None:
    assert asked(gpurt, "analyze", CASES / name)[0] == 0


def test_a_percentage_of_mps_gives_whole_pairs_of_units(gpurt: Gpurt, tmp_path: Path) -> None:
    """m34.toml: of 132 SMs 27 % are 34 and 19 % are 24, as an H200 gives them.  a needs more than 34."""
    code, _, err = gpurt("analyze", CASES / "m34.toml")
    assert code == 3
    assert "m34.toml:29: mps_percentage: 19 % of 132 are 24 units, in whole pairs" in err
    enough = tmp_path / "enough.toml"
    enough.write_text((CASES / "m34.toml").read_text().replace("mps_percentage = 19", "mps_percentage = 20"))
    answered, document = asked(gpurt, "analyze", enough)
    assert answered == 1
    assert bounds(document) == {"a": None, "b": 38.5}


def test_a_producer_that_waits_for_workers_is_read_too_late(gpurt: Gpurt) -> None:
    """broken-chain-workers.toml: the simulator shows 53 ms, and 44 of 45 ms were proved."""
    code, document = asked(gpurt, "analyze", CASES / "broken-chain-workers.toml")
    assert (code, document["chains"]["x"]["max_reaction"]["bound_ns"]) == (1, 56_000_000)
    _, seen = asked(gpurt, "simulate", CASES / "broken-chain-workers.toml")
    assert seen["chains"]["x"]["max_reaction"]["seen_ns"] == 53_000_000


def test_a_worker_under_a_hold_is_bounded_with_the_responses_of_others(gpurt: Gpurt) -> None:
    """false-no-hold.toml: P takes 12 ms in some schedule; with deadlines in the place of responses its bound was 27."""
    code, document = asked(gpurt, "analyze", CASES / "false-no-hold.toml")
    assert (code, bounds(document)) == (0, {"P": 14, "w0": 12, "w1": 14, "r": 8})


def test_one_producer_releases_two_consumers(gpurt: Gpurt) -> None:
    """fork.toml: each chain is as if it were alone, and every schedule keeps its bounds."""
    code, document = asked(gpurt, "analyze", CASES / "fork.toml")
    found = {name: one["max_reaction"]["bound_ns"] / 1e6 for name, one in document["chains"].items()}
    assert (code, found) == (0, {"see": 12.2, "log": 9})
    code, exact = asked(gpurt, "attack", CASES / "fork.toml")
    found = {name: one["max_reaction"]["seen_ns"] / 1e6 for name, one in exact["chains"].items()}
    assert (code, found) == (0, {"see": 12.2, "log": 7})


@pytest.mark.parametrize("name", ["check-chain-end.toml", "report-triggered.toml"])
def test_a_simulated_run_of_chains_is_one_of_the_file(gpurt: Gpurt, tmp_path: Path, name: str) -> None:
    """What outlives a chain made its last output too old; and jobs of b come 5 ms apart, as its jitter allows."""
    file, trace = CASES / name, tmp_path / "run.json"
    assert asked(gpurt, "simulate", file, "--runs", "1", "-o", trace)[0] == 0
    code, document = asked(gpurt, "trace check", trace, file)
    assert (code, document["findings"], document["why"]) == (0, [], None)
    code, document = asked(gpurt, "report", file, "--elsewhere", "--trace", trace, "-o", tmp_path / "page.html")
    assert (code, document["why"]) == (0, None)


def test_spinning_is_counted_once_and_preemption_waits_for_it_once(gpurt: Gpurt, tmp_path: Path) -> None:
    """msrp-no.toml: far asks once in the window of lo, so that its own request or that of hi waits, not both."""
    code, document = asked(gpurt, "analyze", CASES / "msrp-no.toml")
    assert (code, bounds(document)) == (0, {"hi": 5, "lo": 8, "far": 11})
    coarse = tmp_path / "coarse.toml"
    coarse.write_text((CASES / "msrp-no.toml").read_text(encoding="utf-8").replace("100us", "1ms"), encoding="utf-8")
    _, exact = asked(gpurt, "attack", coarse)
    assert {name: one["exact_ns"] / 1e6 for name, one in exact["tasks"].items()} == {"hi": 4, "lo": 8, "far": 11}
    woken = coarse.read_text(encoding="utf-8").replace("cpus = 2\n", 'cpus = 2\ncpu_latency = "1ms"\n')
    coarse.write_text(woken[: woken.index("[[resource]]")], encoding="utf-8")
    _, exact = asked(gpurt, "attack", coarse)
    assert {name: one["exact_ns"] / 1e6 for name, one in exact["tasks"].items()} == {"hi": 3, "lo": 9, "far": 11}


def test_inheritance_blocks_by_tasks_or_by_resources_whichever_is_less(gpurt: Gpurt) -> None:
    """pip-resources.toml: blocking 17, 14, 6 and 0 in 20 ms of each task, and of those above it."""
    code, document = asked(gpurt, "analyze", CASES / "pip-resources.toml")
    assert (code, bounds(document)) == (0, {"t1": 20 + 17, "t2": 40 + 14, "t3": 60 + 6, "t4": 80})
