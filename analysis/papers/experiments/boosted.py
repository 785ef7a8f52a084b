# SPDX-License-Identifier: GPL-2.0
"""The worth of boosting: all sound tests on the same tasksets and with the same costs (docs/boosted-bounds.md)."""

from __future__ import annotations

from dataclasses import replace

from analysis.model import US
from analysis.papers.experiments import sweeps
from analysis.papers.experiments.generate import PAPER
from analysis.papers.experiments.schedulability import Curve, Schedulability

#: Curves that also belong in the papers' figures.
BOOSTED = (
    Curve("boosted_suspend", "boosted-suspend+gpu-priority"),
    Curve("boosted_busy", "boosted-busy+gpu-priority"),
)

TESTS = (
    "gcaps-suspend-printed", "gcaps-suspend", "boosted-suspend", "boosted-suspend+gpu-priority", "mpcp-suspend",
    "fmlp-suspend", "tsg-rr-suspend", "gcaps-busy", "boosted-busy", "boosted-busy+gpu-priority", "boosted-busy-fence",
    "mpcp-busy", "fmlp-busy", "tsg-rr-busy",
)  # fmt: skip

#: Epsilon in us by the name of its experiment; four fifths are alpha.
EPSILON = {"boosted-0us": 0, "boosted-300us": 300, "boosted-1000us": 1000}


def _experiment(name: str, epsilon: int) -> Schedulability:
    costs = epsilon * US * 4 // 5, epsilon * US // 5
    load = sweeps.load_sweeps(PAPER)
    panel = replace(load, points=load.points[:6])
    title = f"Schedulability by {load.axis}, epsilon {epsilon} us for all"
    curves = tuple(Curve(test, test, costs) for test in TESTS)
    return Schedulability(name, title, "docs/boosted-bounds.md", (panel,), curves)


EXPERIMENTS = [_experiment(name, epsilon) for name, epsilon in EPSILON.items()]
