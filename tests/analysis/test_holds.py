# SPDX-License-Identifier: GPL-2.0
"""Tasks that hold a segment while their workers execute: golden values, all schedules of tiny systems, and controls.

docs/readings/groups.md, "Hold".
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from attack_report import toml
from builders import cpu, gpu, ms, task, taskset, wcrt
from effort import tries
from every_schedule import Compared, compare
from fork_attack import sharp_forks
from kinds import held_by_workers, with_random_workers
from random_tasksets import random_taskset
from tiny import tiny_holds

from analysis.answers.verdict import answer, passed
from analysis.attack.exact import TooManyStatesError, explore
from analysis.model import Fork, Taskset
from analysis.papers import registry
from analysis.rta import forkjoin
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load
from analysis.taskset.file import assumptions
from gpurt.enums import Form

TEST = "boosted-suspend"
MANY = 20 if os.environ.get("GPURT_LONG") else 1


def holding(system: Taskset, after: int, *workers: str) -> Taskset:
    """The taskset in which task p has those workers, and holds a segment meanwhile."""
    p = next(t for t in system if t.name == "p")
    tasks = tuple(
        replace(t, period=p.period, deadline=p.deadline, gpu_priority=p.segment_priority)
        if t.name in ("p", *workers) else t for t in system
    )  # fmt: skip
    return held_by_workers(replace(system, tasks=tasks, forks=(Fork("p", after, workers),)))


def beside_a_task_above() -> Taskset:
    """Golden value 3."""
    return holding(taskset(
        task("p", 0, 5, 30, cpu(1), cpu(1)), task("w0", 1, 4, 30, cpu(2), gpu(1, 2)), task("w1", 2, 4, 30, cpu(3)),
        task("h", 1, 9, 20, cpu(4)), slice_=1,
    ), 1, "w0", "w1")  # fmt: skip


def often() -> Taskset:
    """Golden value 4: jobs of p come twice while one of o executes."""
    return holding(taskset(
        replace(task("p", 0, 9, 7), gpu_priority=1), task("w0", 1, 2, 7, cpu(2)), task("w1", 0, 2, 7, cpu(1)),
        task("o", 1, 7, 30, cpu(9)), slice_=1,
    ), 0, "w0", "w1")  # fmt: skip


def handed() -> Taskset:
    """A task h of the level of the group is handed the lock after q's update; w1, raised, keeps it from its CPU."""
    order = {"p": 5, "h": 5, "q": 9}
    system = taskset(
        task("p", 0, 5, 200), task("w0", 0, 4, 200, cpu(2), gpu(0, 0), cpu(30)), task("w1", 1, 1, 200, cpu(16)),
        task("h", 1, 6, 200, gpu(0, 0)), task("q", 2, 9, 200, gpu(0, 0)), epsilon=1, slice_=1,
    )  # fmt: skip
    system = replace(system, tasks=tuple(replace(t, gpu_priority=order.get(t.name)) for t in system))
    return holding(system, 0, "w0", "w1")


def exact(system: Taskset, policy: str = "boosted") -> dict[str, int]:
    """The longest responses over all schedules, in both forms of who sleeps."""
    limits = {t.name: 3 * t.period for t in system}
    found = [explore(system, Options(policy, form=form), limits).worst for form in registry.find(TEST).forms]
    return {t.name: max(one[t.name] for one in found) for t in system}


def test_golden_values() -> None:
    assert {t.name: wcrt(TEST, beside_a_task_above(), t.name) for t in beside_a_task_above()} == {
        "p": ms(7), "w0": ms(6), "w1": ms(4), "h": ms(7),
    }  # fmt: skip
    seen = exact(beside_a_task_above())
    assert (seen["p"], seen["h"]) == (ms(7), ms(7))
    assert wcrt(TEST, often(), "p") == ms(2) + 1  # 1 ns for the begin of the hold, which takes no time
    assert wcrt(TEST, often(), "o") == ms(13)
    seen = exact(often())
    assert (seen["p"], seen["o"]) == (ms(2), ms(13))


def test_workers_that_execute_raised_once_a_gap_only_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent opens the next tenure on another CPU while o executes."""
    inside = forkjoin._inside
    monkeypatch.setattr(forkjoin, "_inside", lambda one: replace(inside(one), priority=one.priority))
    assert wcrt(TEST, often(), "o") == ms(11)
    assert exact(often())["o"] == ms(13)


def test_a_bound_is_broken_where_nobody_is_raised() -> None:
    assert (wcrt(TEST, beside_a_task_above(), "p") or 0) < exact(beside_a_task_above(), "segment")["p"]


def test_the_gpu_is_owned_while_workers_execute_on_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    system = holding(taskset(
        task("p", 0, 5, 30), task("w", 0, 4, 30, cpu(7)), task("o", 1, 3, 30, gpu(0, 1)), slice_=1,
    ), 0, "w")  # fmt: skip
    assert wcrt(TEST, system, "o") == exact(system)["o"] == ms(8)
    monkeypatch.setattr(forkjoin, "with_holds", lambda taskset: taskset)
    assert (wcrt(TEST, system, "o") or 0) < ms(8)


def test_a_raised_worker_keeps_who_was_handed_the_lock_from_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options("boosted", form=Form.SELF, horizon=ms(150))
    seen = simulate(handed(), options, [0, 0, 0, ms(2.5), ms(2)]).tasks["p"].worst
    assert (wcrt(TEST, handed(), "p") or 0) >= seen
    monkeypatch.setattr(forkjoin, "_raised_beside", lambda path: iter(()))
    assert (wcrt(TEST, handed(), "p") or 0) < seen


def looked_at(seed: int, count: int) -> Iterator[Compared]:
    """That many random systems with bounds, each beside all its schedules."""
    rng, found = random.Random(seed), 0
    while found < count:
        try:
            system = tiny_holds(rng) if rng.random() < 0.5 else held_by_workers(sharp_forks(rng))
            one = compare(registry.find(TEST), system, states=20_000)
        except TooManyStatesError:
            continue
        if one:
            found += 1
            yield one


def test_no_schedule_of_a_tiny_system_exceeds_a_bound() -> None:
    for one in looked_at(5, tries(25, 10) * MANY):
        assert one.broken is None, toml(one.taskset)


def test_segment_has_no_bound_for_a_hold() -> None:
    refused = registry.find("gcaps-suspend").run(beside_a_task_above())
    assert not refused.schedulable
    assert "holds a segment while its workers execute, as p does" in refused.why


def test_a_yes_of_a_hold_says_what_it_assumes() -> None:
    system = beside_a_task_above()
    told = answer(system)
    assert (told.why, passed(system)) == ("", told.test)
    (said,) = [one for one in assumptions(system) if one.startswith("p holds a segment while its workers execute")]
    assert "GPURT_GROUP_ALL" in said
    without = replace(system, forks=(replace(system.forks[0], hold=False),))
    assert not any("holds a segment" in one for one in assumptions(without))


def test_generated_systems_survive_a_file(tmp_path: Path) -> None:
    rng = random.Random(3)
    for _ in range(20):
        system = held_by_workers(with_random_workers(random_taskset(rng), rng))
        (path := tmp_path / "set.toml").write_text(toml(system))
        read = load(path)
        assert {*read.taskset.forks} == {*system.forks}
        assert {t.name: t.segments for t in read.taskset} == {t.name: t.segments for t in system}
