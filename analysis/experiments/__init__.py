# SPDX-License-Identifier: GPL-2.0
"""The published schedulability experiments, by name."""

from __future__ import annotations

from analysis.experiments import gcaps, thesis
from analysis.experiments.plan import Curve, Experiment, Panel

__all__ = ["EXPERIMENTS", "Curve", "Experiment", "Panel"]

EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in [*gcaps.EXPERIMENTS, *thesis.EXPERIMENTS]}
