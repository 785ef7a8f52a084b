# SPDX-License-Identifier: GPL-2.0
"""Bounds of threads of one process: every schedule of small systems, and what breaks without a part of the bound.

Here some hundred random systems, more with --all; GPURT_LONG=1 takes tens of thousands.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from effort import tries
from every_schedule import compare
from texts import taskset_of

from analysis.answers.verdict import answer
from analysis.model import Taskset
from analysis.papers import registry
from analysis.rta import order, processes
from analysis.simulation.simulate import Options, SimulationError, simulate
from analysis.taskset.file import parse
from gpurt.errors import TasksetError

TIMES = 100 if os.environ.get("GPURT_LONG") else 1
TEST = registry.find("gcaps-suspend")
SERVER = """[platform]
cpus = 2
policy = "segment"
epsilon = "1ms"
[[task]]
name = "detect"
cpu = 0
priority = 20
process = "server"
period = "{}ms"
segments = [{{ cpu = "3ms" }}, {{ misc = "3ms", gpu = "10ms" }}]
[[task]]
name = "llm"
cpu = 1
priority = 10
process = "server"
period = "200ms"
segments = [{{ cpu = "3ms" }}, {{ misc = "3ms", gpu = "80ms" }}]
"""


def text_of(rng: random.Random) -> str:
    """A file of up to four tasks with times of some ns, of which most are threads of one process or two."""
    cpus, count = rng.choice([1, 2, 2, 3]), rng.choice([2, 3, 3, 3, 4])
    alpha, theta = rng.choice([0, 1]), rng.choice([0, 0, 1])
    tables = [f'[platform]\ncpus = {cpus}\nalpha = "{alpha}ns"\ntheta = "{theta}ns"\npolicy = "segment"\n']
    priorities, homes = rng.sample(range(1, 9), count), rng.choice([1, 1, 1, 2])
    for number in range(count):
        segments = [
            f'{{ cpu = "{rng.randint(0, 3)}ns" }}' if rng.random() < 0.35
            else f'{{ misc = "{rng.choice([0, 0, 1, 2])}ns", gpu = "{rng.randint(0, 3)}ns" }}'
            for _ in range(rng.choice([1, 1, 2]))
        ]  # fmt: skip
        lines = [
            f'name = "t{number}"', f"cpu = {rng.randrange(cpus)}", f"priority = {priorities[number]}",
            f'period = "{rng.randint(8, 24)}ns"', f"segments = [{', '.join(segments)}]",
        ]  # fmt: skip
        if rng.random() < 0.7:
            lines.append(f'process = "p{rng.randint(1, homes)}"')
        if rng.random() < 0.4 and "gpu" in lines[4]:
            lines.append(f"gpu_priority = {rng.randint(1, 9)}")
        tables.append("[[task]]\n" + "\n".join(lines) + "\n")
    return "".join(tables)


def system(number: int) -> Taskset | None:
    """The random system of that number; None if it is none, or has no threads of one process."""
    try:
        taskset = parse(Path("set.toml"), text_of(random.Random(f"processes {number}"))).taskset
    except TasksetError:
        return None
    return taskset if taskset.processes else None


def test_no_schedule_exceeds_a_bound() -> None:
    bounded = looked = 0
    for taskset in filter(None, map(system, range(tries(700, 250) * TIMES))):
        if found := compare(TEST, taskset):
            assert found.broken is None, (found.bounds, found.exact, taskset)
            bounded, looked = bounded + 1, looked + found.states
    assert bounded > tries(700, 250) * TIMES // 18
    assert looked > tries(100_000, 30_000)
    print(f"{bounded} systems, {looked} states")


def _of_outsiders(taskset: Taskset, home: str | None) -> Taskset:
    return taskset if home is None else view(taskset, home)


view = processes.view
WITHOUT: dict[str, tuple[int, str, Callable[..., object]]] = {
    "siblings below it on its CPU": (15, "_below", lambda _task, _system: iter(())),
    "the lowest priority for siblings": (1000, "view", lambda taskset, _home: view(taskset, None)),
    "the highest priority for others": (1155, "view", _of_outsiders),
    "the order as siblings and others see it": (1155, "disorder_of_threads", order.disorder),
}


@pytest.mark.parametrize("what", WITHOUT)
def test_without_one_part_a_schedule_exceeds_it(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, part, instead = WITHOUT[what]
    taskset = system(number)
    assert taskset
    whole = compare(TEST, taskset)
    assert whole is None or not whole.broken
    monkeypatch.setattr(processes, part, instead)
    broken = compare(TEST, taskset)
    assert broken
    assert broken.broken


def test_a_thread_waits_for_its_sibling(tmp_path: Path) -> None:
    """Beside another process it does not: 20 ms.  In each way the bound is above what a schedule takes."""
    together = taskset_of(tmp_path / "a.toml", SERVER.format(200))
    seen = simulate(together, Options("segment"), [4_000_000, 0]).tasks["detect"].worst
    result = TEST.run(together)
    assert seen >= 90_000_000
    assert seen <= (result.wcrt("detect") or 0) == 190_000_000
    apart = taskset_of(tmp_path / "b.toml", SERVER.format(200).replace('process = "server"\n', "", 1))
    assert TEST.run(apart).wcrt("detect") == 20_000_000
    assert "detect: no bound below the deadline" in answer(taskset_of(tmp_path / "c.toml", SERVER.format(50))).why


@pytest.mark.parametrize(("change", "why"), [
    (("epsilon", 'cpu_latency = "1us"\nepsilon'), "no bound for cpu_latency beside process server"),
    (("priority = 10", "priority = 0"), "llm is best effort, and a segment that it begins"),
    (("period", 'jitter = "1ms"\nperiod'), "no bound for several pending jobs of a task beside process server"),
    (('"segment"', '"boosted"'), "no bound for a process of which several threads use the GPU, as server is"),
])  # fmt: skip
def test_what_is_not_proved_is_refused(change: tuple[str, str], why: str, tmp_path: Path) -> None:
    assert why in answer(taskset_of(tmp_path / "a.toml", SERVER.format(150).replace(*change))).why


def test_a_policy_that_raises_threads_is_not_simulated(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="process server: several threads use the GPU"):
        simulate(taskset_of(tmp_path / "a.toml", SERVER.format(150)), Options("boosted"))
