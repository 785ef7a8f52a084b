# SPDX-License-Identifier: GPL-2.0
"""Power and energy: worked examples 4 and 6 to 9, the integral against the closed form, theorem 1."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from effort import tries
from energy_readable.closed_form import closed_form
from energy_readable.simulate import integral
from energy_systems import W, analogue, kernel, ns, toy, watts

from analysis.energy.distribute import algorithm4, packed, static_sets
from analysis.energy.power import Energy, Execution, instant, power_steps
from analysis.energy.preferred import active_energy, best_units, least_energy, mean_utilization, preference
from analysis.model import Kernel
from analysis.model.energy import MJ, J, SpatialGpu, SpatialSystem

RTX = SpatialGpu("rtx3070", 46, 46, watts(46), watts("0.445"))
T400 = SpatialGpu("t400", 6, 6, watts(8), watts("0.652"))


def runs(*kernels: tuple[int, float, float], begin: float = 0) -> list[Execution]:
    """Kernels from one instant: units, ms, W of a unit."""
    return [Execution(0, units, ns(begin), ns(begin) + ns(ms), watts(pd)) for units, ms, pd in kernels]


# Powers of table 3.2, lengths of tables 3.3 and 3.4, schedules of figures 3.3 to 3.6, over 100 ms; then the exact
# energy in J, and the printed one.
EXAMPLES = {
    "6a": ([(T400, runs((3, 63.724, 1.19))), (T400, runs((3, 63.724, 1.19)))], 2.30428, 2.3),
    "6b": ([(T400, runs((3, 63.724, 1.19), (3, 63.724, 1.19))), (T400, [])], 2.05499, 2.05),
    "7a": ([(T400, runs((4, 47.95, 1.19))), (T400, runs((6, 32.67, 1.19)))], 2.12403, 2.12),
    "7b": ([(T400, runs((4, 47.95, 1.19), (2, 95.53, 1.19))), (T400, [])], 2.17969, 2.18),
    "8a": ([(RTX, runs((16, 21.55, 3.77))), (T400, runs((6, 73.188, 0.81)))], 7.34328, 7.35),
    "8b": ([(RTX, runs((16, 21.55, 3.77), (30, 12.00, 1.14))), (T400, [])], 7.23779, 7.24),
    "9a": ([(RTX, runs((30, 11.98, 3.77))), (T400, runs((6, 73.188, 0.81)))], 7.19593, 7.19),
    "9b": ([(RTX, runs((30, 11.98, 3.77), (16, 22.31, 1.14))), (T400, [])], 7.29978, 7.3),
}
#: The printed values that no reading gives (docs/readings.md).
WRONG = ("8a", "9a")


def joules(name: str) -> float:
    return sum(closed_form(gpu, kernels, 0, ns(100)).total for gpu, kernels in EXAMPLES[name][0]) / J


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_6_to_9(name: str) -> None:
    _, exact, printed = EXAMPLES[name]
    assert joules(name) == pytest.approx(exact, abs=1e-5)
    digits = len(str(printed).partition(".")[2])
    assert (round(joules(name), digits) == printed) == (name not in WRONG)


def test_examples_6_to_9_order_their_schedules_as_printed() -> None:
    assert joules("6b") < joules("6a")
    assert joules("7a") < joules("7b")
    assert joules("8b") < joules("8a")
    assert joules("9a") < joules("9b")


def test_example_4() -> None:
    """Table 2.1 and figure 2.2: J_2 is late after J_1, and in time beside it, which costs more."""
    gpu = SpatialGpu("gpu", 4, 4, W, watts("0.25"))
    a = runs((4, 6, 1), begin=1) + runs((4, 1, 1), begin=7)
    b = runs((3, 8, 1), begin=1) + runs((1, 4, 1), begin=2)
    assert [[one.end + ns(1) <= ns(due) for one, due in zip(some, (12, 8), strict=True)] for some in (a, b)] == [
        [True, False], [True, True]
    ]  # fmt: skip
    assert closed_form(gpu, a, 0, ns(12)).total == 40 * MJ
    assert closed_form(gpu, b, 0, ns(12)).total == 41 * MJ


def test_power_at_an_instant() -> None:
    assert instant(T400, []) == 8 * W
    assert instant(T400, [(3, watts("1.19"))]) == watts("13.526")
    assert instant(T400, [(3, watts("1.19")), (3, watts("1.19"))]) == watts("15.14")


def some_schedule(seed: int, most: int) -> tuple[SpatialGpu, list[Execution], int, int]:
    """Kernels anywhere, also outside of the window, empty ones, and ones whose units draw less than idle ones."""
    rng = random.Random(seed)
    units = rng.randint(1, 48)
    gpu = SpatialGpu("g", units, units, rng.randint(0, 10**8), rng.randint(0, 10**6))
    kernels = []
    for _ in range(rng.randint(0, most)):
        start = rng.randint(0, 1000)
        length = rng.choice([0, 1, rng.randint(0, 600)])
        kernels.append(Execution(0, rng.randint(1, units), start, start + length, rng.randint(0, 10**7)))
    begin = rng.randint(0, 1200)
    return gpu, kernels, begin, begin + rng.randint(0, 900)


def test_the_integral_equals_the_closed_form() -> None:
    """Check 2: up to 40 kernels in half of the schedules."""
    for seed in range(tries(10_000)):
        gpu, kernels, begin, end = some_schedule(seed, most=40 if seed % 2 else 10)
        assert integral(gpu, kernels, begin, end) == closed_form(gpu, kernels, begin, end).total, seed


def test_energy_of_nothing_is_static() -> None:
    assert closed_form(T400, [], 5, 105) == Energy(800 * W, 0, 0)
    assert integral(T400, [], 5, 105) == 800 * W
    assert power_steps(T400, []) == []


def test_theorem_1_linear_jobs_cost_least_one_after_another_on_all_units() -> None:
    """Check 3."""
    for seed in range(tries(10_000)):
        rng = random.Random(seed)
        units = rng.randint(2, 12)
        gpu = SpatialGpu("g", units, units, W, rng.randint(1, 10**6))
        divisible = 27720  # by 1 to 12, so that e(1) / m is exact
        works = [(divisible * rng.randint(1, 9), rng.randint(1, 10**6)) for _ in range(rng.randint(2, 6))]
        spatial, free, now = [], units, 0
        for work, power in works:  # as many as fit start together; a round ends with its longest kernel
            wanted = rng.randint(1, units)
            if wanted > free:
                now, free = max(one.end for one in spatial), units
            free -= wanted
            start = now + rng.randint(0, 5)
            spatial.append(Execution(0, wanted, start, start + work // wanted, power))
        end = max(one.end for one in spatial)
        alone = sum(work // units * (units * power) for work, power in works)
        assert closed_form(gpu, spatial, 0, end).active >= alone


def test_a_saturating_kernel_costs_less_side_by_side() -> None:
    """Lemma 2.  Specification, section 1.8: 32.0 mJ in turn on 8 units, 22.4 on 4, 16.0 side by side."""
    gpu = SpatialGpu("g", 8, 8, W, watts("0.4"))
    times = Kernel.saturating(ns(8), 4)
    one = kernel(times, 1)
    assert best_units(one, gpu) == 4
    assert 2 * active_energy(one, gpu, 8) == 32 * MJ
    assert 2 * active_energy(one, gpu, 4) == int(22.4 * MJ)
    assert closed_form(gpu, runs((4, 2, 1), (4, 2, 1)), 0, ns(2)).active == 16 * MJ


def test_best_units_and_preference_of_the_toy_system() -> None:
    """Specification, section 6.6."""
    system = toy()
    best = [[best_units(task.on(k), gpu) for k, gpu in enumerate(system.gpus)] for task in system.tasks]
    assert best == [[12, 6], [4, 6], [12, 6], [8, 6]]
    energies = [[least_energy(task.on(k), gpu) / MJ for k, gpu in enumerate(system.gpus)] for task in system.tasks]
    assert energies == [[1824.0, 1920.0], [163.2, 216.0], [396.0, 336.0], [72.0, 120.0]]
    assert [preference(system, task) for task in system.tasks] == [(0, 1), (0, 1), (1, 0), (0, 1)]
    for at_best, sums in ((False, (2.08108, 1.16333)), (True, None)):
        assigned = algorithm4(system, at_best)
        assert assigned == (0, 0, 1, 0)
        for gpu in (0, 1) if sums else ():
            mine = [task for task, x in zip(system.tasks, assigned, strict=True) if x == gpu]
            total = sum(mean_utilization(task, system.gpus[gpu], gpu) for task in mine)
            assert float(total) == pytest.approx(sums[gpu], abs=1e-5)


def test_ties_go_to_more_units_and_to_the_first_gpu() -> None:
    gpu = SpatialGpu("g", 4, 4, W, 0)
    flat = kernel((ns(4), ns(2), ns(2), ns(1)), 1)  # idle units are free: 4 mJ with 1, 2 and 4 units
    assert best_units(flat, gpu) == 4
    system = analogue()
    both = replace(system, gpus=(system.gpus[1], system.gpus[1]))
    job = replace(system.tasks[0], kernels=(system.tasks[0].kernels[1],) * 2)
    assert preference(both, job) == (0, 1)


def test_granularity_limits_the_counts() -> None:
    gpu = SpatialGpu("g", 12, 11, W, watts("0.4"), granularity=4)
    assert gpu.counts == (4, 8)
    assert gpu.whole == 8
    assert [gpu.allowed(units) for units in (3, 4, 11)] == [0, 4, 8]
    assert best_units(toy().tasks[0].on(0), gpu) == 8


def slower(factor: int, little: bool = True) -> SpatialSystem:
    """The toy system with longer periods."""
    system = toy(little)
    longer = (replace(task, period=factor * task.period, deadline=factor * task.period) for task in system.tasks)
    return replace(system, tasks=tuple(longer))


def test_packings_take_tasks_by_decreasing_utilization() -> None:
    """Reference utilizations: a 1.05, c 0.63, b 0.58, d 0.45; with periods three times as long a third of that."""
    packings = ("first", "best", "worst")
    assert {packed(toy(), packing) for packing in packings} == {(0, 1, 1, 0)}  # a fits nowhere, nor b and d after c
    assert [packed(slower(3), packing) for packing in packings] == [
        (0, 0, 0, 0), (0, 0, 0, 0), (0, 1, 1, 0)
    ]  # fmt: skip
    half = [packed(slower(2), packing) for packing in ("first", "best")]  # 0.53, 0.32, 0.29, 0.23
    assert half == [(0, 1, 0, 1), (0, 1, 0, 1)]


def test_static_sets_share_the_least_loaded_units() -> None:
    assert static_sets(toy(little=False)) is None  # 1.02 with all that adding units can do: it falls back to rm
    assert static_sets(slower(2, little=False)) is None  # units would suffice, but the mean utilizations add up to 1.36
    lighter = slower(3, little=False)
    sets = static_sets(lighter)
    assert sets is not None
    for task, own in zip(lighter.tasks, sets, strict=True):
        assert task.on(0).whole_job(len(own)) <= task.deadline
    total = sum(t.on(0).whole_job(len(own)) / t.period for t, own in zip(lighter.tasks, sets, strict=True))
    assert total <= 1


def test_a_changed_table_is_the_table_of_the_changed_times() -> None:
    assert Kernel.falling([(1, 9), (4, 5)]).changed(lambda time: time + 1) == Kernel.falling([(1, 10), (4, 6)])
