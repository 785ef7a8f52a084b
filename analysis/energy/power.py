# SPDX-License-Identifier: GPL-2.0
"""Power at an instant, and energy over a window (equations 2.2, 2.5, 3.2, 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.model.energy import SpatialGpu


@dataclass(frozen=True, slots=True)
class Execution:
    """A kernel that executes on ``units`` units of a GPU over [start, end); ``power`` of one active unit, uW."""

    gpu: int
    units: int
    start: int
    end: int
    power: int


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a GPU over a window, fJ."""

    static: int
    idle: int
    dynamic: int

    @property
    def active(self) -> int:
        """The energy that a schedule can change: all except the static part."""
        return self.idle + self.dynamic

    @property
    def total(self) -> int:
        """The whole energy."""
        return self.static + self.active

    def __add__(self, other: Energy) -> Energy:
        return Energy(self.static + other.static, self.idle + other.idle, self.dynamic + other.dynamic)


def instant(gpu: SpatialGpu, running: Iterable[tuple[int, int]]) -> int:
    """Power in uW while kernels execute on (units, power of one unit): equation 3.2 with its cases exchanged.

    Idle units are counted among all units of the GPU, also those above its limit.  If nothing executes, units are
    gated, and only static power flows.
    """
    pairs = list(running)
    if not pairs:
        return gpu.static
    active = sum(units for units, _ in pairs)
    return gpu.static + sum(units * power for units, power in pairs) + (gpu.units - active) * gpu.idle


def power_steps(gpu: SpatialGpu, executions: Sequence[Execution]) -> list[tuple[int, int]]:
    """(time, power from then on) at each instant at which a kernel starts or ends, in order of time."""
    changes: dict[int, list[tuple[Execution, bool]]] = {}
    for one in executions:
        if one.end > one.start:
            changes.setdefault(one.start, []).append((one, True))
            changes.setdefault(one.end, []).append((one, False))
    running: list[Execution] = []
    found = []
    for now in sorted(changes):
        for one, starts in changes[now]:
            if starts:
                running.append(one)
            else:
                running = [other for other in running if other is not one]
        found.append((now, instant(gpu, ((one.units, one.power) for one in running))))
    return found
