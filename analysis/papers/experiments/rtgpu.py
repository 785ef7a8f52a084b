# SPDX-License-Identifier: GPL-2.0
"""Figures 8 to 13 of RTGPU (section 6), with table 1 as docs/readings.md reads it ("RTGPU, experiments")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from analysis.papers.experiments.plan import Panel
from analysis.papers.experiments.schedulability import Curve, Drawable, Schedulability
from analysis.papers.rtgpu_tasksets import TABLE, Parameters

RTGPU_CURVES = (
    Curve("RTGPU, printed", "rtgpu-printed"),
    Curve("RTGPU, whole jobs on the bus", "rtgpu"),
    Curve("RTGPU, tight", "rtgpu-tight"),
    Curve("self-suspension", "self-suspension"),
    Curve("STGM, as probably evaluated", "stgm-published"),
    Curve("STGM, our bound", "stgm"),
)
#: Curves of tests and of runs.  The tasks run on the units that the tight test finds, else on equal shares.
OBSERVED = (
    *RTGPU_CURVES[:3],
    Curve("no miss seen, worst lengths", "rtgpu-tight", observed="worst"),
    Curve("no miss seen, random lengths", "rtgpu-tight", observed="random"),
)
LEVELS = tuple(step / 5 for step in range(1, 21))


def _panel(key: str, base: Parameters) -> Panel[Drawable]:
    copies = "two copies" if base.copies == 2 else "one copy"
    points = tuple((level, replace(base, utilization=level)) for level in LEVELS)
    return Panel(f"{key}-{base.copies}", f"sum of utilizations ({key}, {copies})", points)


def _panels(named: dict[str, Parameters], copies: tuple[int, ...] = (2, 1)) -> tuple[Panel[Drawable], ...]:
    return tuple(_panel(key, replace(base, copies=number)) for number in copies for key, base in named.items())


def _longer(half: int) -> Parameters:
    """Kernels and copies ``half`` / 2 times as long as in table 1."""

    def scaled(low: int, high: int) -> tuple[int, int]:
        return low * half // 2, high * half // 2

    return replace(TABLE, kernel=scaled(*TABLE.kernel), copy=scaled(*TABLE.copy))


def _each(name: str, values: tuple[int, ...], change: Callable[[int], Parameters]) -> dict[str, Parameters]:
    return {f"{name}={value}": change(value) for value in values}


RATIOS = {"2:1": _longer(1), "1:2": _longer(4), "1:8": _longer(16)}
SEGMENTS = _each("M", (3, 5, 7), lambda value: replace(TABLE, segments=value))
TASKS = _each("n", (3, 5, 7), lambda value: replace(TABLE, tasks=value))
UNITS = _each("SMs", (5, 8, 10), lambda value: replace(TABLE, units=value))
#: For average cases: lengths vary down to a fifth, and the analysis knows the lower bounds.
VARYING = {key: replace(base, best=200) for key, base in UNITS.items()}


def _experiment(
    number: int, what: str, panels: tuple[Panel[Drawable], ...], curves: tuple[Curve, ...] = RTGPU_CURVES
) -> Schedulability:
    return Schedulability(f"rtgpu-fig{number}", what, f"RTGPU figure {number}", panels, curves)


EXPERIMENTS = [
    _experiment(8, "Schedulability by lengths of CPU and GPU segments", _panels(RATIOS)),
    _experiment(9, "Schedulability by subtasks", _panels(SEGMENTS)),
    _experiment(10, "Schedulability by tasks", _panels(TASKS)),
    _experiment(11, "Schedulability by SMs", _panels(UNITS)),
    _experiment(12, "Analysis and simulation, worst lengths", _panels(UNITS, (2,)), OBSERVED),
    _experiment(13, "Analysis and simulation, lengths that vary", _panels(VARYING, (2,)), OBSERVED),
]
