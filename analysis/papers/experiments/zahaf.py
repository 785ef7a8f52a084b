# SPDX-License-Identifier: GPL-2.0
"""Figures 5 to 9 of contention-aware partitioning (Zahaf et al.): partitioning heuristics over total utilization."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.papers.experiments.rows import Row
from analysis.papers.experiments.study import Study
from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, results
from analysis.partition.variants import HEURISTICS, LIST_ORDERS
from analysis.partition.workload import SHIFT
from gpurt.types import Document

SOURCE = "Zahaf et al., contention-aware GPU partitioning"
#: The paper's variants, `fit` (fullest first) and `sav` (most units saved); all begin with the fullest partition.
ZAHAF_CURVES = ("1g", "sms-ina", "sms-act", "bf-ina", "bf-act", "fit-ina", "fit-act", "sav-ina", "sav-act")
BEST = "best"
LOADS = tuple(range(2, 70, 2))
#: Panels: how execution times scale (docs/readings/partitioning.md, "Partitioning").
SCALINGS = {"shared": "C = k (a + b) / m", "printed": "C = k (a / m + b)"}
#: The number of times that figure 9 times the same tasksets; the least counts, since other work raises it least.
TIMED_REPEATS = 5
MEASURES = {
    "share": "schedulable tasksets, %",
    "load": "scheduled load (mean of what is schedulable)",
    "analysis_ns": "analysis time, us a taskset",
}


@dataclass(frozen=True)
class Figure:
    """A figure: the number of tasks in a taskset, and the measure drawn.  ``best``: with the best of all variants."""

    name: str
    title: str
    tasks: int
    measure: str
    best: bool = False

    @property
    def size(self) -> int:
        """The number of points in all panels."""
        return len(LOADS) * len(SCALINGS)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures in its table.  Times differ from run to run, so only figure 9 has them."""
        more = {"load": ("load", "lower", "upper", "parts"), "analysis_ns": ("analysis_ns",)}
        return ("schedulable", *more.get(self.measure, ()))


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("zahaf-fig5", "Schedulability of 50 tasks", 50, "share", best=True),
        Figure("zahaf-fig6", "Scheduled load of 50 tasks", 50, "load"),
        Figure("zahaf-fig7", "Schedulability of 200 tasks", 200, "share"),
        Figure("zahaf-fig8", "Scheduled load of 200 tasks", 200, "load"),
        Figure("zahaf-fig9", "Analysis time of 50 tasks", 50, "analysis_ns"),
    )
}


def _run(figure: Figure, tasksets: int, seed: int, progress: Callable[[], None]) -> list[Row]:
    """A row for each scaling, utilization and curve.  ``progress`` is called after each point."""
    rows: list[Row] = []
    for panel in SCALINGS:
        for load in LOADS:
            parameters = Parameters(figure.tasks, load, shared=panel == "shared")
            rows += ({"panel": panel, "x": load, **row} for row in _point(figure, parameters, tasksets, seed))
            progress()
    return rows


def _point(figure: Figure, parameters: Parameters, count: int, seed: int) -> Iterator[Document]:
    tasks = generate_zahaf(parameters, seed, count)
    lower, upper = (_bound(tasks, conflict) for conflict in (0, 1))
    timed = figure.measure == "analysis_ns"
    ways = [(curve, "dec") for curve in ZAHAF_CURVES]
    best = [(variant, order) for variant in HEURISTICS for order in LIST_ORDERS] if figure.best else []
    every = results(parameters, tasks, [] if timed else [*ways, *best])
    for index, curve in enumerate(ZAHAF_CURVES):
        spent = [0]
        if timed:
            spent, found = _timed(parameters, tasks, ways[index])
        else:
            found = every[:, index]
        fits = found["fits"]
        row = _row(curve, fits)
        if fits.any():
            row |= {"load": float(found["load"][fits].mean()) / 2**SHIFT, "lower": float(lower[fits].mean()),
                    "upper": float(upper[fits].mean()), "parts": float(found["parts"][fits].mean())}  # fmt: skip
        yield {**row, "analysis_ns": min(spent) // count}
    if best:
        yield _row(BEST, np.any(every["fits"][:, len(ways) :], axis=1))


def _timed(parameters: Parameters, tasks: NDArray[Any], way: tuple[str, str]) -> tuple[list[int], NDArray[Any]]:
    """The time that each repeat of a way takes for all tasksets, ns; and the way's results."""
    spent: list[int] = []
    found: NDArray[Any] = np.zeros(0)
    for _ in range(TIMED_REPEATS):
        start = time.process_time_ns()
        found = results(parameters, tasks, [way])[:, 0]
        spent.append(time.process_time_ns() - start)
    return spent, found


def _row(curve: str, fits: NDArray[np.bool_]) -> Document:
    return {"curve": curve, "schedulable": int(fits.sum()), "tasksets": len(fits), "share": float(fits.mean())}


def _bound(tasks: NDArray[Any], conflict: int) -> NDArray[np.float64]:
    """The load of each taskset if no task, or every task, is in conflict."""
    work = (tasks["parallel"] + tasks["serial"]) / tasks["period"]
    factor = tasks["numerator"][..., conflict] / tasks["denominator"][..., conflict]
    total: NDArray[np.float64] = (work * factor).sum(axis=1)
    return total


def draw_zahaf(figure: Figure, rows: Sequence[Row], path: Path) -> None:
    """Draws the figure's measure over total utilization, one panel for each scaling."""
    from analysis.papers.experiments.pictures import MARKERS, finish, new_figure

    picture, axes = new_figure(len(SCALINGS))
    for one, (panel, scaling) in zip(axes, SCALINGS.items(), strict=True):
        here = [row for row in rows if row["panel"] == panel]
        curves = [*ZAHAF_CURVES, BEST] if figure.best else ZAHAF_CURVES
        for index, curve in enumerate(curves):
            _plot(one, figure, [row for row in here if row["curve"] == curve], curve, MARKERS[index])
        if figure.measure == "load":
            _plot_bounds(one, here)
        one.set(xlabel="total utilization", ylabel=MEASURES[figure.measure], title=f"{panel}: {scaling}")
        one.grid(alpha=0.25)
    finish(picture, axes[0], f"{figure.title} ({SOURCE})", path)


def _plot(axes: Any, figure: Figure, rows: Sequence[Row], curve: str, marker: str) -> None:
    scale = {"share": 100.0, "analysis_ns": 1e-3}.get(figure.measure, 1.0)
    points = [(row["x"], scale * row[figure.measure]) for row in rows if row.get(figure.measure) is not None]
    axes.plot([x for x, _ in points], [y for _, y in points], marker=marker, markersize=4, linewidth=1.2, label=curve)


def _plot_bounds(axes: Any, rows: Sequence[Row]) -> None:
    """Plots the load without and with every conflict, for the tasksets of the variant that schedules most."""
    for key, label in (("lower", "no conflict"), ("upper", "all in conflict")):
        most: dict[float, tuple[int, float]] = {}
        for row in rows:
            if key in row:
                most[row["x"]] = max(most.get(row["x"], (0, 0.0)), (row["schedulable"], row[key]))
        axes.plot(list(most), [value for _, value in most.values()], color="black", linestyle=":", label=label)


STUDIES = [
    Study(figure.name, figure.title, SOURCE, figure.size, partial(_run, figure), draw=partial(draw_zahaf, figure),
          measures=figure.measures)
    for figure in FIGURES.values()
]  # fmt: skip
