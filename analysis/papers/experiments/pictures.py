# SPDX-License-Identifier: GPL-2.0
"""Pictures in the papers' layout: panels side by side, one legend below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

from analysis.papers.experiments.rows import Row

if TYPE_CHECKING:
    from analysis.papers.experiments.energy import EnergyExperiment
    from analysis.papers.experiments.schedulability import Schedulability

MARKERS = "os^Dv<>Pp*Xhd12348"


def new_figure(columns: int, rows: int = 1, size: tuple[float, float] | None = None) -> tuple[Any, list[Any]]:
    """A picture and its panels, row by row.  ``size``: in inches, if the panels alone do not determine it."""
    figure, grid = plt.subplots(rows, columns, figsize=size or (5.6 * columns, 4 * rows + 0.8), squeeze=False)
    return figure, [axes for line in grid for axes in line]


def finish(figure: Figure, first: Axes, title: str, path: Path) -> None:
    """Saves a picture with its title, and the legend of its first panel below."""
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=4, fontsize=8, bbox_to_anchor=(0.5, 0.0))
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    save_picture(figure, path, tight=True)


def save_picture(figure: Figure, path: Path, tight: bool = False) -> None:
    """Saves a picture, without a date, so that equal results make equal files."""
    figure.savefig(path, dpi=110,
                   metadata={"Date": None} if path.suffix == ".svg" else None, bbox_inches="tight" if tight else None)
    plt.close(figure)


def draw_shares(experiment: Schedulability, rows: Sequence[Row], path: Path, dashed: bool = False) -> None:
    """Draws schedulability in % over each panel's axis; ``dashed``: with the curves of unsound tests."""
    columns = min(len(experiment.panels), 3)
    figure, spare = new_figure(columns, -(-len(experiment.panels) // columns))
    for axes, panel in zip(spare, experiment.panels, strict=False):
        for index, curve in enumerate(experiment.curves):
            if curve.dashed and not dashed:
                continue
            here = [row for row in rows if row["panel"] == panel.key and row["curve"] == curve.label]
            axes.plot(
                [row["x"] for row in here], [100 * row["share"] for row in here],
                marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1.2, label=curve.label,
                linestyle="--" if curve.dashed else "-", alpha=0.6 if curve.dashed else 1.0,
            )  # fmt: skip
        axes.set_ylim(-3, 103)
        axes.set_ylabel("schedulable tasksets, %")
        axes.set_xlabel(panel.axis)
        axes.grid(alpha=0.25)
    for axes in spare[len(experiment.panels) :]:
        axes.set_visible(False)
    finish(figure, spare[0], f"{experiment.title} ({experiment.source})", path)


def draw_energy(experiment: EnergyExperiment, rows: Sequence[Row], path: Path) -> None:
    """Misses above, active energy minus the base curve's below, with 95 % intervals; a column for each panel."""
    panels = experiment.panels
    figure, axes = new_figure(len(panels), 2)
    measures = (("missed_percent", "missed jobs, %"),
                ("active_less_j", f"active energy minus {experiment.base}'s, J a taskset"))  # fmt: skip
    for line, (measure, label) in enumerate(measures):
        for column, panel in enumerate(panels):
            one = axes[line * len(panels) + column]
            for index, curve in enumerate(experiment.labels):
                here = [row for row in rows if row["panel"] == panel.key and row["curve"] == curve]
                _with_intervals(one, here, measure, curve, MARKERS[index % len(MARKERS)])
            one.set_ylabel(label)
            one.set_xlabel(panel.axis)
            one.grid(alpha=0.25)
            if not line:
                one.set_title(panel.key, fontsize=9)
    finish(figure, axes[0], f"{experiment.title} ({experiment.source}); simulated, published profiles", path)


def _with_intervals(axes: Axes, rows: Sequence[Row], measure: str, label: str, marker: str) -> None:
    values = [row[measure] for row in rows]
    spread = [[row[measure] - row[f"{measure}_low"] for row in rows],
              [row[f"{measure}_high"] - row[measure] for row in rows]]  # fmt: skip
    axes.errorbar([row["x"] for row in rows], values, np.clip(spread, 0, None), marker=marker, markersize=4,
                  linewidth=1.1, capsize=2, label=label)  # fmt: skip
