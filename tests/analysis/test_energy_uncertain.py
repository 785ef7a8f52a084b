# SPDX-License-Identifier: GPL-2.0
"""The spread of results if the powers in a system are off."""

from __future__ import annotations

import pytest
from energy_systems import W, example5, kernel, ns, task, toy, watts

from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import POLICIES, Readings
from analysis.energy.uncertain import corners, spreads
from analysis.model import Kernel
from analysis.model.energy import MJ, SpatialGpu, SpatialSystem


def test_energies_at_the_corners_by_hand() -> None:
    """rm on the whole GPU: 50 mJ are static and 28 mJ of kernels, which are 10 % off; no unit idles."""
    count, (one,) = spreads(example5(), [POLICIES["rm"]], Readings(), EnergyRun(ns(50)), 10)
    assert (count, one.fewest, one.highest, one.moved, one.less) == (4, 1, 1, 0, {})
    assert (one.least, one.most) == (50 * MJ + 28 * MJ * 9 // 10, 50 * MJ + 28 * MJ * 11 // 10)


def test_corners_are_all_there() -> None:
    found = list(corners(toy(), 25))
    assert len(found) == len(set(found)) == 16
    powers = {(system.gpus[0].idle, system.gpus[1].idle, system.tasks[0].on(0).power, system.tasks[1].on(1).power)
              for system in found}  # fmt: skip
    assert powers == {
        (watts(a), watts(b), watts(c), watts(d))
        for a in ("0.3", "0.5") for b in ("0.4875", "0.8125") for c in ("2.85", "4.75") for d in ("0.9", "1.5")
    }  # fmt: skip
    assert {system.gpus[0].static for system in found} == {46 * W}


def test_a_task_that_suits_both_gpus_moves() -> None:
    gpus = tuple(SpatialGpu(name, 4, 4, W, watts("0.2")) for name in ("one", "two"))
    both = tuple(kernel(Kernel.saturating(ns(8), 4), power) for power in ("1", "1.01"))
    system = SpatialSystem(gpus, (task("t", 100, 100, 0, *both),))
    count, (one,) = spreads(system, [POLICIES["mg-offline"]], Readings(), EnergyRun(ns(90)), 5)
    assert count == 16
    assert one.moved == 4, "where kernels on the first GPU draw 5 % more, and on the second one 5 % less"
    with pytest.raises(ValueError, match="more than 4 GPUs"):
        spreads(SpatialSystem(gpus * 3, ()), [], Readings(), EnergyRun(ns(90)), 5)
