# SPDX-License-Identifier: GPL-2.0
"""The simulator of partitioned units, the attack on their bounds, and planted mistakes, which must break."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from attack_outcome import Effort, Outcome
from attack_report import toml
from builders import cpu, ms
from effort import tries
from own_units import attack_own, attack_units, random_units
from rtgpu_sets import EXAMPLE_A, EXAMPLE_B, SHORTER, copy, fixed, part, task
from units_searched import bounds as bounds_on
from units_searched import worst

from analysis.model import Platform, Taskset
from analysis.papers import registry
from analysis.papers.registry import METHODS, RTGPU_EXPECTED, RTGPU_PRINTED
from analysis.rtgpu import bounds, method, stgm, workload
from analysis.rtgpu.analyse import System, on_units
from analysis.rtgpu.chain import Need
from analysis.rtgpu.method import RTGPU, STGM, Method
from analysis.rtgpu.simulate import Simulated, Stretch, Way, simulate_units
from analysis.taskset import load
from pycontrol import cli

SETS = 100_000 if os.environ.get("GPURT_LONG") else tries(400, 100)
SOUND = [name for name in METHODS if name != "rtgpu-expected"]


def seen(taskset: Taskset, given: Sequence[int], way: Way = Way(), cycles: int = 1) -> list[Stretch]:  # noqa: B008
    """The stretches of a run in which all tasks are released at 0."""
    return simulate_units(Simulated(System(RTGPU, taskset), given), [0] * len(taskset), way, cycles, room=1000)[1]


def test_the_trace_of_example_a() -> None:
    """9.2: t2's second CPU segment is preempted by t1's second job."""
    found = {(s.task, s.need, s.begin / 10**6, s.end / 10**6) for s in seen(EXAMPLE_A, (1, 1))}
    first = {(0, Need.CPU, 0, 2), (0, Need.BUS, 2, 3), (0, Need.UNITS, 3, 9), (0, Need.BUS, 9, 10),
             (0, Need.CPU, 10, 12)}  # fmt: skip
    second = {(0, Need.CPU, 20, 22), (0, Need.BUS, 22, 23), (0, Need.UNITS, 23, 29), (0, Need.BUS, 29, 30),
              (0, Need.CPU, 30, 32)}  # fmt: skip
    lower = {(1, Need.CPU, 2, 5), (1, Need.BUS, 5, 7), (1, Need.UNITS, 7, 16.5), (1, Need.BUS, 16.5, 18.5),
             (1, Need.CPU, 18.5, 20), (1, Need.CPU, 22, 23.5)}  # fmt: skip
    assert found == first | second | lower


def test_a_kernel_that_takes_no_time_delays_a_lower_task() -> None:
    """9.7: 11 ms are observed, more than lower bounds equal to upper ones allow."""
    longest, _ = simulate_units(Simulated(System(RTGPU, SHORTER), (1, 0)), (0, 0), Way("best"))
    assert longest == (ms(10), ms(11))
    assert on_units(System(RTGPU, SHORTER), {"t1": 1}).wcrt("t2") == ms(11)
    assert on_units(System(RTGPU_EXPECTED, SHORTER), {"t1": 1}).wcrt("t2") == ms(8)


def chain_of_copies() -> Taskset:
    """k is released when l, below it on its CPU, begins to copy; l's stream goes on to its second copy by itself."""
    return Taskset(Platform(1), (
        task("k", 3, 100, 100, cpu(1), part(copy(1), fixed(1), copy(1)), cpu(1)),
        task("l", 2, 100, 100, cpu(1), part(copy(5), fixed(0), copy(5))),
    ))  # fmt: skip


def test_one_lower_copy_is_too_little_for_a_task_that_waits_busily() -> None:
    """Each of k's two copies waits for one of l's: with one copy of blocking k would need 10 ms."""
    system = System(STGM, chain_of_copies())
    simulated = Simulated(system, (1, 1))
    longest = max(simulate_units(simulated, (offset * ms(0.5), 0))[0][0] for offset in range(30))
    one_copy = ms(5 + 5)
    assert longest > one_copy
    bound = on_units(system, {"k": 1, "l": 1}).wcrt("k")
    assert bound is not None
    assert longest <= bound


def test_requests_of_one_instant_may_have_the_worst_order() -> None:
    """The bus of a host is handed on at once: a lower copy comes in between two that follow each other."""
    taskset = Taskset(Platform(1), (
        task("k", 3, 100, 100, part(copy(1), fixed(0), copy(1))),
        task("l", 2, 100, 100, part(copy(5), fixed(0))),
    ))  # fmt: skip
    together = seen(taskset, (1, 1))
    assert [(s.task, s.begin // ms(1)) for s in together if s.need is Need.BUS] == [(0, 0), (0, 1), (1, 2)]
    worst_order = seen(taskset, (1, 1), Way(early=True))
    assert [(s.task, s.begin // ms(1)) for s in worst_order if s.need is Need.BUS] == [(1, 0), (0, 5), (0, 6)]


def test_late_releases_are_up_to_a_tenth_of_the_period_late() -> None:
    """As `gpurt simulate --sporadic` says."""
    taskset = Taskset(Platform(1), (task("k", 3, 100, 100, cpu(1)),))
    found = seen(taskset, (1,), Way(sporadic=True, seed=3), cycles=200)
    gaps = [after.begin - before.begin for before, after in pairwise(found)]
    assert ms(100) <= min(gaps) < ms(101)
    assert ms(109) < max(gaps) <= ms(110)


@pytest.mark.parametrize("chunk", [0, 1])
def test_the_bus_is_given_by_priority_and_never_taken(chunk: int) -> None:
    rng = random.Random(21)
    copies = 0
    for _ in range(200 if SETS < 1000 else 10_000):
        taskset = random_units(rng, 4, 2)
        offsets = [rng.randrange(t.period) for t in taskset]
        way = Way(rng.choice(["worst", "random", "extreme"]), rng.random() < 0.5, rng.getrandbits(60))
        simulated = Simulated(System(RTGPU, taskset, chunk), [2] * len(taskset))
        _, found = simulate_units(simulated, offsets, way, room=3000)
        bus = sorted((s for s in found if s.need is Need.BUS), key=lambda s: s.begin)
        copies += len(bus)
        for before, after in pairwise(bus):
            assert before.end <= after.begin, "one copy at a time"
            assert after.begin == max(after.asked, before.end), "the bus is not idle with a request waiting"
        for one in bus:
            assert not chunk or one.end - one.begin <= chunk
            assert not [h for h in bus if h.task < one.task and h.asked <= one.begin < h.begin]
    assert copies > 1000


def test_observed_responses_are_within_the_bounds_of_the_examples() -> None:
    for taskset, given in ((EXAMPLE_A, (1, 1)), (EXAMPLE_A, (1, 2)), (EXAMPLE_B, (2, 1, 1)), (EXAMPLE_B, (2, 1, 2))):
        observed = worst(Simulated(System(RTGPU, taskset), given), 300, Way(seed=5)).longest
        for name in ("rtgpu", "rtgpu-tight"):
            found = bounds_on(System(METHODS[name], taskset), given)
            assert all(got <= bound for got, bound in zip(observed, found, strict=True))


def test_kernels_without_units_are_not_simulated() -> None:
    with pytest.raises(ValueError, match="has a kernel and no units"):
        seen(EXAMPLE_A, (0, 1))


def test_times_that_would_not_fit_into_63_bits_are_not_simulated() -> None:
    long = Taskset(Platform(1), (task("a", 1, 2**59 / 1e6, 2**59 / 1e6, cpu(1)),))
    with pytest.raises(OverflowError, match="too long to be simulated"):
        seen(long, (0,))


@pytest.mark.parametrize("name", SOUND)
def test_no_sound_bound_is_broken(name: str) -> None:
    found = attack_own(registry.find(name), SETS, seed=2026, effort=Effort(runs=30, steps=0))
    assert found.schedulable > SETS // 2
    assert found.violations == 0
    assert found.worst is not None
    assert found.worst.ratio == 1, "some bound is reached, so that the attack comes near"


def test_a_counterexample_is_a_file(tmp_path: Path) -> None:
    broken = attack_own(registry.find("rtgpu-expected"), 900, seed=5).smallest
    assert broken is not None
    (tmp_path / "set.toml").write_text(toml(broken.taskset))
    again = load(tmp_path / "set.toml").taskset
    found, right = (registry.find(name).run(again) for name in ("rtgpu-expected", "rtgpu"))
    assert found.wcrt(broken.task) == broken.bound
    bound = right.wcrt(broken.task)
    assert bound is None or bound >= broken.observed
    assert cli.run(["experiment", "attack", "rtgpu", "-o", str(tmp_path)]) == 2


# Planted mistakes.  Each changes one thing in the bounds.


def broken_sets(used: Method, seed: int, most: int = 3000) -> bool:
    """Whether a bound is broken; ``most`` bounded sets are attacked."""
    rng, outcome = random.Random(seed), Outcome(used.name)
    while outcome.schedulable < most and not outcome.violations:
        outcome = outcome.joined(attack_units(rng, used, 30, 1))
    return outcome.violations > 0


def test_lower_bounds_equal_to_upper_ones_are_broken() -> None:
    assert broken_sets(RTGPU_EXPECTED, 27)


def test_right_bounds_are_not_broken() -> None:
    assert not broken_sets(RTGPU_PRINTED, 22, 100)


def test_no_blocking_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method.Around, "blocking", property(lambda self: 0))
    assert broken_sets(RTGPU_PRINTED, 25)


def test_the_later_gap_from_the_start_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = workload.units_workload

    def wrong(*arguments):  # type: ignore[no-untyped-def]
        found = right(*arguments)
        return replace(found, first=found.later)

    monkeypatch.setattr(bounds, "units_workload", wrong)
    assert broken_sets(RTGPU_PRINTED, 26)


def test_windows_that_begin_with_the_first_segment_only_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload.Workload, "at", lambda self, t: self.phase(0, t) if self.lengths else (0, 0))
    assert broken_sets(RTGPU_PRINTED, 24)


def test_one_lower_copy_under_busy_waiting_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = stgm.busy

    def wrong(chain, higher, lower, blocking):  # type: ignore[no-untyped-def]
        return replace(right(chain, higher, lower, blocking), lower=lambda _: blocking)

    monkeypatch.setattr(stgm, "busy", wrong)
    assert broken_sets(STGM, 27)
