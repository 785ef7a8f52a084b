"""The attack breaks unsound bounds, breaks no sound one, and gives the same result for the same seed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attack_outcome import Effort, Outcome, size
from attack_report import attack_table, row, toml
from attack_search import attack, attack_one, climb, is_delayed, ways
from builders import cpu, gpu, ms, task, taskset
from effort import tries
from minimise import minimised
from random_tasksets import random_taskset

from analysis.papers import registry
from analysis.simulation.simulate import simulate, worst_over_offsets
from analysis.taskset import load

PRINTED = "gcaps-suspend-printed"
LIGHT = Effort(5, 10)


def test_a_known_counterexample_is_found_and_can_be_seen_again() -> None:
    """The taskset of readings, "GCAPS": a preempts b, which owns the GPU, and c waits for more than 100 ms."""
    system = taskset(
        task("a", 0, 9, 400, cpu(100)), task("b", 0, 5, 400, gpu(1, 1)), task("c", 1, 1, 400, gpu(0, 1))
    )
    outcome = attack_one(registry.find(PRINTED), system, random.Random(1), Effort(20, 1000))
    assert (outcome.tasksets, outcome.schedulable, outcome.violations) == (1, 1, 1)
    found = outcome.worst
    assert found is not None
    assert (found.task, found.bound) == ("c", ms(2))
    assert found.observed > ms(50)
    assert found.ratio > 25
    again = simulate(found.taskset, found.options, found.offsets) if found.offsets else worst_over_offsets(
        found.taskset, found.options, 20
    )  # fmt: skip
    assert again.tasks["c"].worst == found.observed
    assert attack_one(registry.find("gcaps-suspend"), system, random.Random(1)).violations == 0


def test_search_shows_more_than_as_many_random_first_releases() -> None:
    rng, test, score = random.Random(4), registry.find("gcaps-suspend"), 0
    for _ in range(tries(60)):
        system = random_taskset(rng)
        result = test.run(system)
        for name in (t.name for t in system.real_time if result.schedulable and is_delayed(result.verdicts[t.name])):
            options = next(ways(test, system, random.Random(1)))
            found, _ = climb(system, name, result.wcrt(name) or 0, options, random.Random(1), 100)
            blind = worst_over_offsets(system, options, 101).tasks[name].worst
            score += (found.observed > blind) - (found.observed < blind)
    assert score > 0


@pytest.fixture(scope="module")
def one() -> Outcome:
    """An attack that finds something."""
    return attack(registry.find(PRINTED), 120, seed=9, effort=LIGHT)


def test_outcome_depends_on_the_seed_only(one: Outcome) -> None:
    two = attack(registry.find(PRINTED), 120, seed=9, jobs=2, effort=LIGHT, find=registry.find)
    assert one == two
    assert one.violations > 0
    assert attack(registry.find(PRINTED), 120, seed=10, effort=LIGHT) != one


@pytest.mark.parametrize("name", ["boosted-suspend", "boosted-busy-fence"])
def test_a_formula_that_cannot_be_sent_is_found_in_the_other_process(name: str) -> None:
    assert attack(registry.find(name), 1, jobs=2, effort=Effort(1, 0), find=registry.find).tasksets == 1


def test_progress_counts_tasksets() -> None:
    seen: list[int] = []
    attack(registry.find("gcaps-busy"), 150, effort=Effort(1, 1), progress=seen.append)
    assert seen == [100, 150]


def test_counterexample_is_minimal_and_a_file(one: Outcome, tmp_path: Path) -> None:
    assert one.smallest is not None
    found = minimised(registry.find(PRINTED), one.smallest)
    assert found.observed > found.bound
    assert len(found.taskset) <= 3
    assert minimised(registry.find(PRINTED), found) == found
    path = tmp_path / "found.toml"
    path.write_text(toml(found.taskset), encoding="ascii")
    loaded = load(path).taskset
    assert registry.find(PRINTED).run(loaded).wcrt(found.task) == found.bound
    assert size(loaded) == size(found.taskset)
    if found.offsets:
        assert simulate(loaded, found.options, found.offsets).tasks[found.task].worst == found.observed


def test_assigned_priorities_are_those_attacked() -> None:
    """b passes only with a GPU priority above a's.  Simulated with the file's priorities it would miss its bound."""
    tight = taskset(task("a", 0, 2, 100, gpu(0, 50)), task("b", 1, 1, 120, gpu(0, 5), deadline=20))
    outcome = attack_one(registry.find("gcaps-suspend+gpu-priority"), tight, random.Random(0))
    assert outcome.schedulable == 1
    assert outcome.violations == 0
    assert outcome.worst is not None
    assert {t.name: t.gpu_priority for t in outcome.worst.taskset} == {"a": 1, "b": 2}


def test_failures_promise_nothing() -> None:
    late = taskset(task("a", 0, 5, 10, cpu(12)))
    assert attack_one(registry.find("gcaps-busy"), late, random.Random(0)) == Outcome("gcaps-busy", 1)


def test_rows_and_files(one: Outcome) -> None:
    entry = row(one, sound=False)
    assert f"| `{PRINTED}` | unsound | 120 |" in attack_table([entry])
    assert "[[task]]" in entry["counterexample"]["taskset"]
    assert len(attack_table([row(Outcome(PRINTED), sound=False)]).splitlines()) == 3
