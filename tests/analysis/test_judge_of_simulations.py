# SPDX-License-Identifier: GPL-2.0
"""The judge of `gpurt trace check` and `watch` against the simulator: what that can do, no assumption rules out.

Here some hundred files of every kind that a file can express; GPURT_LONG=1 takes a hundred times as many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from drawn import Drawn

from analysis.model import Taskset
from analysis.model.conflicts import under
from analysis.simulation.simulate import Options, SimulationError, simulate
from analysis.taskset import TasksetFile
from analysis.taskset.file import parse
from gpurt.errors import TasksetError
from pycontrol.observe.judge.check import judged
from pycontrol.observe.judge.finding import Finding, Sort, What

FILES = 30_000 if os.environ.get("GPURT_LONG") else 300
EVENTS = 20_000
#: A lower task's update on their CPU, in another partition, keeps `hi` from ending its segment.
ONE_CPU = """
[platform]
cpus = 2
alpha = "1ms"
theta = "0ms"
policy = "segment"
compute_units = 8
[[partition]]
name = "a"
compute_units = 4
[[partition]]
name = "b"
compute_units = 4
[[task]]
name = "hi"
cpu = 0
priority = 20
period = "100ms"
partition = "a"
segments = [ { misc = "0ms", gpu = "5ms" } ]
[[task]]
name = "lo"
cpu = 0
priority = 10
period = "23ms"
partition = "b"
segments = [ { misc = "0ms", gpu = "1ms" } ]
"""


def runs(taskset: Taskset, rng: random.Random) -> Iterator[Options]:
    """A run of worst cases, and a random one."""
    horizon, cpu = 8 * max(task.period for task in taskset), taskset.platform.thread_cpu or 0
    for execution in ("worst", "random"):
        late, seed = execution == "random", rng.getrandbits(60)
        yield Options(taskset.policies[0], None, execution, late, horizon, job_cpu=cpu, seed=seed)


def objections(file: TasksetFile, options: Options, offsets: list[int] | None) -> list[Finding]:
    """The assumptions of the analysis that the judge finds broken.  Raises SimulationError."""
    taskset = under(file.taskset, options.policy, everywhere=True) or file.taskset
    trace = simulate(taskset, options, offsets, events=EVENTS).trace
    assert trace is not None
    found = judged(trace, file).findings
    return [one for one in found if one.what.sort is not Sort.PROMISE and one.what is not What.LOST]


def test_no_simulated_run_breaks_an_assumption() -> None:
    tried: Counter[str] = Counter()
    for number in range(FILES):
        rng = random.Random(f"judge {number}")
        text = Drawn(rng).text()
        try:
            file = parse(Path("set.toml"), text)
        except TasksetError:
            continue
        taskset = file.taskset
        policies = {part.policy or taskset.platform.policy for part in taskset.parts} | set(taskset.policies)
        if not taskset.real_time or file.lacks or len(policies) > 1:  # the simulator has one policy everywhere
            continue
        for options in runs(taskset, rng):
            offsets = [rng.randrange(task.period) for task in taskset] if options.sporadic else None
            try:
                broken = objections(file, options, offsets)
            except SimulationError:
                continue
            assert not broken, (broken[0].line(), options, offsets, text)
            tried[f"{options.policy}, {'several partitions' if len(taskset.parts) > 1 else 'one'}"] += 1
    assert len(tried) > 9
    assert min(tried.values()) > 1


@pytest.mark.parametrize("policy", ["segment", "lock-priority", "lock-fifo"])
def test_an_update_in_another_partition_may_keep_the_owner_from_its_cpu(policy: str) -> None:
    file = parse(Path("set.toml"), ONE_CPU.replace("segment", policy, 1))
    assert objections(file, Options(policy), None) == []


def test_longer_segments_are_still_found() -> None:
    """A segment of twice its length is no update of another partition."""
    file = parse(Path("set.toml"), ONE_CPU)
    longer = parse(Path("set.toml"), ONE_CPU.replace('"5ms"', '"15ms"'))
    trace = simulate(longer.taskset, Options("segment"), events=EVENTS).trace
    assert trace is not None
    assert {one.what for one in judged(trace, file).findings if one.task == "hi"} == {What.SEGMENT}
