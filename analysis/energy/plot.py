# SPDX-License-Identifier: GPL-2.0
"""Pictures: what policies cost and miss, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from analysis.energy.power import Energy
from analysis.model.energy import J
from analysis.traces.plot import format_of

__all__ = ["compare_plot", "format_of"]


def compare_plot(found: Sequence[tuple[str, Energy, int, int]], path: Path) -> None:
    """Bars of (policy, energy, judged jobs, missed jobs): energy by its parts, and the share of jobs that missed."""
    names = [name for name, *_ in found]
    figure, (left, right) = plt.subplots(1, 2, figsize=(3 + 1.1 * len(names) * 2, 4))
    bottom = [0.0] * len(names)
    for part in ("static", "idle", "dynamic"):
        heights = [getattr(energy, part) / J for _, energy, _, _ in found]
        left.bar(names, heights, bottom=bottom, label=part)
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    left.set_ylabel("energy, J")
    left.legend(fontsize=8, ncol=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    right.bar(names, [100 * missed / judged if judged else 0 for _, _, judged, missed in found], color="tab:red")
    right.set_ylabel("missed jobs, %")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.tick_params(axis="x", rotation=45)
        axes.grid(axis="y", alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=110, format=format_of(path), metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
