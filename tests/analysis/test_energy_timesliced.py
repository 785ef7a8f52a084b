# SPDX-License-Identifier: GPL-2.0
"""Energy of policies that share the GPU in time."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from effort import tries
from energy_readable.simulate import integral
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.energy.power import closed_form
from analysis.energy.timesliced import TimeSliced, energy, load_timesliced, sliced_executions, with_power
from analysis.model import MS
from analysis.model.energy import MJ
from analysis.simulation.simulate import Options, default_horizon, simulate
from analysis.traces.trace import Event, Kind, Trace
from gpurt.errors import TasksetError, UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/energy"
HEAD = """
[[gpu]]
name = "g"
compute_units = 8
static_power = "2W"
idle_power = "400mW"
"""
PROFILE = """
[[profile]]
name = "{name}"
  [[profile.on]]
  gpu = "g"
  copy_in = "1ms"
  copy_out = "2ms"
  kernel = {kernel}
  power = "1W"
"""
TASK = """
[[task]]
name = "{name}"
period = "{period}ms"
segments = [{segments}]
"""
LINEAR, SATURATED = '{ work = "40ms", saturates = 8 }', '{ work = "8ms", saturates = 4 }'


def made(tmp_path: Path, *tasks: tuple[str, int, str], platform: str = "") -> Path:
    """Tasks of (kernel, period in ms, CPU segments before the kernel)."""
    text = platform + HEAD
    for index, (kernel, period, before) in enumerate(tasks):
        segments = before + f'{{ profile = "k{index}" }}'
        text += PROFILE.format(name=f"k{index}", kernel=kernel)
        text += TASK.format(name=f"t{index}", period=period, segments=segments)
    path = tmp_path / "system.toml"
    path.write_text(text)
    return path


def run(system: TimeSliced, policy: str, **options: object) -> tuple[Trace, int]:
    chosen = Options(policy, **options)  # type: ignore[arg-type]
    trace = simulate(system.taskset, chosen, system.offsets, events=100_000).trace
    assert trace
    return trace, default_horizon(system.taskset)


@pytest.mark.parametrize("policy", ["timesliced", "segment", "lock-priority", "lock-fifo", "boosted"])
def test_example_5_by_hand(policy: str) -> None:
    """Linear kernels on all units cost the same in any order: 36 units ms of 1 W in each 20 ms, and 1 W always."""
    system = load_timesliced(EXAMPLES / "example5.toml")
    trace, horizon = run(system, policy)
    assert horizon == 400 * MS
    found = energy(system, trace, horizon)
    assert (found.static, found.idle, found.dynamic) == (400 * MJ, 0, 720 * MJ)


def test_idle_units_cost_and_the_best_number_of_units_costs_less(tmp_path: Path) -> None:
    """8 ms of work on at most 4 of 8 units: on 8 units all draw power for 2 ms, on 4 the others idle."""
    path = made(tmp_path, (SATURATED, 20, ""))
    whole, best = load_timesliced(path), load_timesliced(path, best=True)
    assert (whole.units, best.units) == ({"t0": 8}, {"t0": 4})
    for system, mj in ((whole, 8 * 2), (best, 4 * 2 + 4 * 2 * 0.4)):
        trace, horizon = run(system, "segment")
        assert horizon == 400 * MS
        assert energy(system, trace, horizon).active == round(20 * mj * MJ)


def test_a_preempted_kernel_costs_no_more(tmp_path: Path) -> None:
    """t1 (5 ms and copies) is preempted by t0 (2 ms and copies) in its kernel, also in the middle of its copies."""
    platform = '[platform]\ncpus = 2\nepsilon = "1ms"\ntheta = "1ms"\n'
    text = made(tmp_path, (SATURATED, 12, ""), (LINEAR, 40, ""), platform=platform).read_text()
    text = text.replace('name = "t0"', 'name = "t0"\ncpu = 0\npriority = 2')
    path = tmp_path / "placed.toml"
    path.write_text(text.replace('name = "t1"', 'name = "t1"\ncpu = 1\npriority = 1'))
    system = load_timesliced(path)
    assert (system.taskset.platform.theta, system.notes[:1]) == (MS, ())
    trace, _ = run(system, "segment")
    found = sliced_executions(system, trace)
    pieces = [one for one in found if one.power == 1_000_000 and one.end - one.start < 2 * MS]
    assert pieces, "nothing was preempted"
    jobs = {name: len(done) for name, done in trace.responses().items()}
    assert jobs["t0"] + jobs["t1"] == sum(event.kind is Kind.RELEASE for event in trace.events)
    for name, length in (("t0", 2 * MS), ("t1", 5 * MS)):
        mine = [event for event in trace.events if event.kind is Kind.GPU and event.task == name]
        assert sum(event.duration or 0 for event in mine) == jobs[name] * (length + 3 * MS)
    assert sum(one.units * (one.end - one.start) for one in found) == 8 * MS * (5 * jobs["t1"] + 2 * jobs["t0"])
    assert all(a.end <= b.start for a, b in pairwise(found)), "one kernel at a time"


@settings(max_examples=tries(40), deadline=None)
@given(
    periods=st.lists(st.integers(8, 60), min_size=1, max_size=4), policy=st.sampled_from(["timesliced", "segment"]),
    seed=st.integers(0, 1000), best=st.booleans(),
)  # fmt: skip
def test_the_integral_equals_the_closed_form_and_the_counter(
    tmp_path_factory: pytest.TempPathFactory, periods: list[int], policy: str, seed: int, best: bool
) -> None:
    tasks = [((LINEAR, SATURATED)[index % 2], period, '{ cpu = "1ms" }, ') for index, period in enumerate(periods)]
    system = load_timesliced(made(tmp_path_factory.mktemp("set"), *tasks), best)
    trace, horizon = run(system, policy, sporadic=True, seed=seed)
    runs = sliced_executions(system, trace)
    found = energy(system, trace, horizon)
    assert found == closed_form(system.gpu, runs, 0, horizon)
    assert found.total == integral(system.gpu, runs, 0, horizon)
    counter = with_power(system, trace, horizon).counters["GPU 0 power, mW"]
    drawn = sum((after - now) * power for (now, power), (after, _) in pairwise(counter))
    assert drawn * 1000 == found.total  # powers are whole mW here


def test_what_cannot_be_priced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has 2 GPUs"):
        load_timesliced(EXAMPLES / "toy.toml")
    system = load_timesliced(EXAMPLES / "example5.toml")
    with pytest.raises(UsageError, match="the run is too long: 7 events did not fit"):
        sliced_executions(system, Trace({}, (Event(0, Kind.LOST, detail="7 events did not fit"),)))
    text = (EXAMPLES / "example5.toml").read_text()
    half = tmp_path / "half.toml"
    first, rest = text.split('name = "t2"')
    some = f'{first}name = "t2"{re.sub("priority = [0-9]+.", "", rest, flags=re.DOTALL)}'
    half.write_text(some)
    with pytest.raises(TasksetError) as caught:
        load_timesliced(half)
    where = first.count("\n")  # of [[task]], one line up
    assert caught.value.problems[0].line == where
    assert "priority" in caught.value.problems[0].message
    no_epsilon = tmp_path / "epsilon.toml"
    no_epsilon.write_text(re.sub('(epsilon|theta) = "0ns".', "", text, flags=re.DOTALL))
    with pytest.raises(TasksetError, match="epsilon is missing"):
        load_timesliced(no_epsilon)
