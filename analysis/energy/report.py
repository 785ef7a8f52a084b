# SPDX-License-Identifier: GPL-2.0
"""An experiment's results as a table with intervals, and as a picture of misses and energy."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

mpl.use("Agg")
import matplotlib.pyplot as plt

from analysis.energy.experiments import Experiment
from analysis.energy.runner import Row
from analysis.energy.statistics import Bootstrap, Estimate

MARKERS = "os^Dv<>Pp*X"
#: What a row has beside panel, x, curve and tasksets; each with the ends of its interval.
MEASURES = ("missed_percent", "less_missed_percent", "energy_j", "active_j", "active_less_j")


def rows(experiment: Experiment, results: Sequence[Sequence[Sequence[Row]]], seed: int) -> list[dict[str, Any]]:
    """A row for each point and curve.

    missed_percent: missed of judged jobs.  energy_j and active_j: means a taskset.  less_missed_percent and
    active_less_j: those of this curve minus the base curve's on the same tasksets.
    """
    base = [curve.label for curve in experiment.curves].index(experiment.base)
    bootstrap = Bootstrap(len(results[0]), seed)
    found = []
    for (panel, draw), sets in zip(experiment.points, results, strict=True):
        data: NDArray[np.float64] = np.array(sets, dtype=np.float64)
        ones = np.ones(len(sets))
        reference = data[:, base, :]
        for index, curve in enumerate(experiment.curves):
            judged, missed, energy, active = data[:, index, :].T
            measures = (
                bootstrap.ratio(missed, judged).scaled(100),
                bootstrap.difference(missed, judged, reference[:, 1], reference[:, 0]).scaled(100),
                bootstrap.ratio(energy, ones).scaled(1e-3), bootstrap.ratio(active, ones).scaled(1e-3),
                bootstrap.difference(active, ones, reference[:, 3], ones).scaled(1e-3),
            )  # fmt: skip
            row: dict[str, Any] = {"panel": panel, "x": draw.x, "curve": curve.label, "tasksets": len(sets)}
            for name, one in zip(MEASURES, measures, strict=True):
                row |= _cells(name, one)
            found.append(row)
    return found


def _cells(name: str, one: Estimate) -> dict[str, float]:
    return {name: round(one.value, 4), f"{name}_low": round(one.low, 4), f"{name}_high": round(one.high, 4)}


def write_csv(table: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes the rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def draw(experiment: Experiment, table: Sequence[dict[str, Any]], path: Path) -> None:
    """Misses above, active energy less the base curve's below, with 95 % intervals; a column for each panel."""
    panels = [name for name, _ in experiment.panels]
    figure, grid = plt.subplots(2, len(panels), figsize=(5.2 * len(panels), 7), squeeze=False)
    for column, panel in enumerate(panels):
        for axes, measure, label in (
            (grid[0][column], "missed_percent", "missed jobs, %"),
            (grid[1][column], "active_less_j", f"active energy minus {experiment.base}'s, J a taskset"),
        ):
            for index, curve in enumerate(experiment.curves):
                points = [row for row in table if row["panel"] == panel and row["curve"] == curve.label]
                _line(axes, points, measure, curve.label, index)
            axes.set_ylabel(label)
            axes.set_xlabel(experiment.axis)
            axes.grid(alpha=0.25)
        grid[0][column].set_title(panel, fontsize=9)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=5, fontsize=8, bbox_to_anchor=(0.5, 0.0))
    figure.suptitle(f"{experiment.title} ({experiment.source}); simulated, published profiles", fontsize=10)
    figure.tight_layout()
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=100, bbox_inches="tight", metadata=metadata)
    plt.close(figure)


def _line(axes: Any, points: Sequence[dict[str, Any]], measure: str, label: str, index: int) -> None:
    values = [row[measure] for row in points]
    spread = [[row[measure] - row[f"{measure}_low"] for row in points],
              [row[f"{measure}_high"] - row[measure] for row in points]]  # fmt: skip
    axes.errorbar([row["x"] for row in points], values, np.clip(spread, 0, None), marker=MARKERS[index % len(MARKERS)],
                  markersize=4, linewidth=1.1, capsize=2, label=label)  # fmt: skip
