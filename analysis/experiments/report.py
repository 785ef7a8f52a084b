# SPDX-License-Identifier: GPL-2.0
"""The results of an experiment as a table, and as a picture in the papers' layout."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from analysis.experiments.plan import Curve
from analysis.experiments.runner import Table

MARKERS = "os^Dv<>Pp*Xhd12348"


def write_csv(table: Table, path: Path) -> None:
    """Writes a row for each point and curve: panel, x, curve, schedulable, tasksets, share."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, ["panel", "x", "curve", "schedulable", "tasksets", "share"], lineterminator="\n"
        )  # fmt: skip
        writer.writeheader()
        writer.writerows(table.rows())


def draw(table: Table, path: Path, dashed: bool = False) -> None:
    """Draws schedulability in % over each panel's axis; ``dashed``: with the curves of unsound tests."""
    panels, curves = table.experiment.panels, table.experiment.available
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure, spare = new_figure(columns, rows)
    for axes, panel, points in zip(spare, panels, table.counts, strict=False):
        xs = [x for x, _ in panel.points]
        _panel(axes, xs, points, curves, table.settings.tasksets, dashed)
        axes.set_xlabel(panel.axis)
    for axes in spare[len(panels) :]:
        axes.set_visible(False)
    finish(figure, spare[0], f"{table.experiment.title} ({table.experiment.source})", path)


def new_figure(columns: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A picture and its panels, row by row."""
    figure, grid = plt.subplots(rows, columns, figsize=(5.6 * columns, 4 * rows + 0.8), squeeze=False)
    return figure, [axes for line in grid for axes in line]


def finish(figure: Any, first: Any, title: str, path: Path) -> None:
    """Saves a picture with its title, and the legend of its first panel below."""
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=4, fontsize=8, bbox_to_anchor=(0.5, 0.0))
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata=_undated(path))
    plt.close(figure)


def _panel(axes: Any, xs: Sequence[float], points: Any, curves: Sequence[Curve], tasksets: int, dashed: bool) -> None:
    for index, curve in enumerate(curves):
        if curve.dashed and not dashed:
            continue
        ys = [100 * counts[curve.label] / tasksets for counts in points]
        axes.plot(
            xs, ys, marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1.2, label=curve.label,
            linestyle="--" if curve.dashed else "-", alpha=0.6 if curve.dashed else 1.0,
        )  # fmt: skip
    axes.set_ylim(-3, 103)
    axes.set_ylabel("schedulable tasksets, %")
    axes.grid(alpha=0.25)


def _undated(path: Path) -> dict[str, Any] | None:
    """Metadata that leave the date out of SVG files, so that equal results make equal files."""
    return {"Date": None} if path.suffix == ".svg" else None
