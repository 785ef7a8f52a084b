# SPDX-License-Identifier: GPL-2.0
"""Figures 8 and 9 of the GCAPS paper (ECRTS'24, section 7.1)."""

from __future__ import annotations

from analysis.papers.experiments import sweeps
from analysis.papers.experiments.boosted import BOOSTED
from analysis.papers.experiments.generate import PAPER
from analysis.papers.experiments.schedulability import Curve, Schedulability

#: GCAPS tries the tasks' own priorities first, and assigns GPU priorities if these fail (section 5.3).
EIGHT = (
    Curve("gcaps_suspend", "gcaps-suspend+gpu-priority"),
    Curve("gcaps_busy", "gcaps-busy+gpu-priority"),
    Curve("tsg_rr_suspend", "tsg-rr-suspend"),
    Curve("tsg_rr_busy", "tsg-rr-busy"),
    Curve("mpcp_suspend", "mpcp-suspend"),
    Curve("mpcp_busy", "mpcp-busy"),
    Curve("fmlp+_suspend", "fmlp-suspend"),
    Curve("fmlp+_busy", "fmlp-busy"),
)

#: The bounds that the papers print or evaluate: unsound, for comparison with their figures.
PRINTED_BOUNDS = (
    Curve("gcaps_suspend, printed", "gcaps-suspend-printed"),
    Curve("gcaps_busy, printed", "gcaps-busy-printed"),
    Curve("gcaps_busy, evaluated", "gcaps-busy-evaluated"),
    Curve("tsg_rr_suspend, printed", "tsg-rr-suspend-printed"),
    Curve("tsg_rr_busy, printed", "tsg-rr-busy-printed"),
    Curve("mpcp_suspend, published", "mpcp-suspend-published"),
    Curve("mpcp_busy, published", "mpcp-busy-published"),
    Curve("fmlp+_suspend, published", "fmlp-suspend-published"),
    Curve("fmlp+_busy, published", "fmlp-busy-published"),
)

PANELS = {
    "a": sweeps.tasks(PAPER),
    "b": sweeps.load_sweeps(PAPER),
    "c": sweeps.cpus(PAPER),
    "d": sweeps.users(PAPER),
    "e": sweeps.ratio(PAPER, [step / 5 for step in range(11)]),
    "f": sweeps.best_effort(PAPER),
}

EXPERIMENTS = [
    *(
        Schedulability(
            f"gcaps-fig8{letter}", f"Schedulability by {panel.axis}", f"ECRTS'24 figure 8{letter}",
            (panel,), EIGHT + BOOSTED + PRINTED_BOUNDS,
        )
        for letter, panel in PANELS.items()
    ),
    Schedulability(
        "gcaps-fig9", "Gain by GPU priority assignment", "ECRTS'24 figure 9", tuple(PANELS.values()),
        (
            Curve("gcaps_suspend", "gcaps-suspend"),
            Curve("gcaps_suspend, GPU priorities", "gcaps-suspend+gpu-priority"),
            Curve("gcaps_busy", "gcaps-busy"),
            Curve("gcaps_busy, GPU priorities", "gcaps-busy+gpu-priority"),
            Curve("boosted_suspend", "boosted-suspend"),
            Curve("boosted_suspend, GPU priorities", "boosted-suspend+gpu-priority"),
            Curve("boosted_busy", "boosted-busy"),
            Curve("boosted_busy, GPU priorities", "boosted-busy+gpu-priority"),
        ),
    ),
]
