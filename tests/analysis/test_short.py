# SPDX-License-Identifier: GPL-2.0
"""Short suspensions counted as such (analysis/rta/short.py): examples, any choice of tasks, controls.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from agreement import disagreement
from builders import cpu, gpu, ms, task, taskset
from every_schedule import compare
from tiny import tiny_for

from analysis.answers import compiled
from analysis.attack.exact import TooManyStatesError
from analysis.model import Task, Taskset
from analysis.papers import registry
from analysis.papers.experiments.generate import Parameters, generate, on_costs
from analysis.rta import boosted
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.short import NONE, Short
from analysis.rta.system import System
from analysis.rta.windows import longest_inside

MANY = 100 if os.environ.get("GPURT_LONG") else 1
TEST = registry.find("boosted-suspend")
#: Much CPU work and short GPU segments.
SELDOM = Parameters(
    cpus=1, tasks_per_cpu=(4, 8), load=(0.9, 0.9), ratio=(0.01, 0.1), users=(0.4, 0.8), segments=(1, 2),
    reallocate=False,
)  # fmt: skip


def test_a_short_segment_in_much_cpu_work() -> None:
    """c waits for one job of b with its sleep of 1, and two of a: 1 + 4 + 2.  With jitter there are two of b."""
    system = taskset(
        task("a", 0, 20, 4, cpu(1)), task("b", 0, 15, 8, cpu(2), gpu(0, 1), cpu(2)), task("c", 0, 10, 10, cpu(1))
    )
    for result in (TEST.run(system), compiled.run_compiled(TEST, system)):
        assert [result.wcrt(name) for name in "abc"] == [ms(1), ms(7), ms(7)]
    assert replace(TEST, instead=None).run(system).wcrt("c") is None


def test_drawn_tasksets_agree() -> None:
    systems = on_costs(generate(SELDOM, 1, 60), 0, 0)
    assert [disagreement("boosted-suspend", system) for system in systems] == [None] * 60
    found = [TEST.run(system).schedulable for system in systems]
    jitter = [replace(TEST, instead=None).run(system).schedulable for system in systems]
    assert sum(found) > sum(jitter) > 0
    assert all(a >= b for a, b in zip(found, jitter, strict=True))


def marking(rng: random.Random) -> Callable[[Task, System, Callable[[Task], int]], Short]:
    """Tasks above are marked at random, whether that is worth it or not."""

    def choose(one: Task, system: System, outside: Callable[[Task], int]) -> Short:
        marked = [
            h for h in system.hpp(one)
            if h.uses_gpu and rng.random() < 0.7 and [t.priority for t in system.on_cpu(0)].count(h.priority) == 1
        ]  # fmt: skip
        if system.taskset.threads or system.assumed:
            return NONE
        return Short(
            {h.name: longest_inside(h, system) for h in marked}, {h.name: h.priority for h in marked},
            {h.name: h.eta for h in marked},
        )  # fmt: skip

    return choose


def instead(one: Task, system: System) -> list[Demand | Shared]:
    """The second formula alone, where it applies."""
    return boosted.SUSPEND.short(one, system) or boosted.SUSPEND.demands(one, system)


def on_one_cpu(system: Taskset, rng: random.Random) -> Taskset:
    """Most tasks on one CPU: there tasks are above others."""
    return replace(system, tasks=tuple(replace(t, cpu=0) if rng.random() < 0.8 else t for t in system))


def broken(count: int, seed: int, longest: int = 9) -> Taskset | None:
    """The first of so many tiny tasksets in which a schedule exceeds a bound, with tasks marked at random."""
    rng, test = random.Random(seed), replace(TEST, demands=instead, ends=None, instead=None)
    for _ in range(count):
        system = on_one_cpu(tiny_for(TEST, rng, longest), rng)
        try:
            found = compare(test, system, states=200_000)
        except TooManyStatesError:
            continue
        if found and found.broken:
            return system
    return None


def test_no_schedule_exceeds_a_bound_whichever_tasks_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "short", marking(random.Random(1)))
    assert broken(200 * MANY, seed=2) is None


def test_a_bound_without_the_sleep_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: marked tasks that count as if they never slept."""
    monkeypatch.setattr(boosted, "short", marking(random.Random(1)))
    monkeypatch.setattr(Short, "from_level", lambda self, priority: 0)
    assert broken(3000, seed=2, longest=12) is not None
