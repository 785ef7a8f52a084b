# SPDX-License-Identifier: GPL-2.0
"""The consequences of powers that are not quite those of the file: the same runs at the corners of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from analysis.energy import compiled
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import Readings, UnitsPolicy
from analysis.energy.setup import prepare_tables
from analysis.model.energy import PoweredKernel, SpatialSystem, SpatialTask

#: With more GPUs there are too many corners: four for each.
MAX_GPUS_OF_CORNERS = 4


@dataclass(frozen=True)
class Spread:
    """A policy's energy, fJ, and missed jobs over all corners, and in how many of them it moves some task's GPU.

    ``less``: by policy, in how many corners this one needs less energy, although it needs more with the file's powers.
    """

    name: str
    least: int
    most: int
    fewest: int
    highest: int
    moved: int
    less: dict[str, int]


def corners(system: SpatialSystem, percent: int) -> Iterator[SpatialSystem]:
    """The system with each GPU's idle power, and its kernels' power there, up or down by so many percent, rounded."""
    signs = list(product((-1, 1), repeat=2))
    for choice in product(signs, repeat=len(system.gpus)):
        pairs = zip(system.gpus, choice, strict=True)
        gpus = tuple(replace(gpu, idle=_off(gpu.idle, idle * percent)) for gpu, (idle, _) in pairs)
        percents = [active * percent for _, active in choice]
        yield SpatialSystem(gpus, tuple(_task(task, percents) for task in system.tasks))


def _off(power: int, percent: int) -> int:
    return max(0, (2 * power * (100 + percent) + 100) // 200)


def _task(task: SpatialTask, percents: Sequence[int]) -> SpatialTask:
    def kernel(one: PoweredKernel | None, percent: int) -> PoweredKernel | None:
        return one and replace(one, power=max(1, _off(one.power, percent)))

    return replace(task, kernels=tuple(map(kernel, task.kernels, percents)))


def spreads(
    system: SpatialSystem, policies: Sequence[UnitsPolicy], options: Readings, run: EnergyRun, percent: int
) -> tuple[int, list[Spread]]:
    """The number of corners, and a spread for each policy: decisions and energies are those of the corner's powers.

    Raises ValueError if there are more than MAX_GPUS_OF_CORNERS GPUs, or as setup.prepare_tables does.
    """
    if len(system.gpus) > MAX_GPUS_OF_CORNERS:
        raise ValueError(f"powers of more than {MAX_GPUS_OF_CORNERS} GPUs have too many corners")
    plain = [prepare_tables(system, policy, options) for policy in policies]
    nominal = [compiled.simulate_compiled(setup, run).energy.total for setup in plain]
    seen: list[list[tuple[int, int, bool]]] = []
    for corner in corners(system, percent):
        setups = [prepare_tables(corner, policy, options) for policy in policies]
        outcomes = [compiled.simulate_compiled(setup, run) for setup in setups]
        seen.append([(outcome.energy.total, outcome.missed, setup.assigned != before.assigned)
                     for outcome, setup, before in zip(outcomes, setups, plain, strict=True)])  # fmt: skip
    found = []
    for index, policy in enumerate(policies):
        energies, missed, moved = zip(*(row[index] for row in seen), strict=True)
        less = {
            other.name: sum(row[index][0] < row[at][0] for row in seen)
            for at, other in enumerate(policies) if nominal[index] > nominal[at]
        }  # fmt: skip
        less = {name: count for name, count in less.items() if count}
        found.append(Spread(policy.name, min(energies), max(energies), min(missed), max(missed), sum(moved), less))
    return len(seen), found
