# SPDX-License-Identifier: GPL-2.0
"""The schedulability experiments, by name: the published ones, and what boosting is worth."""

from __future__ import annotations

from analysis.experiments import boosted, gcaps, thesis
from analysis.experiments.plan import Curve, Experiment, Panel

__all__ = ["EXPERIMENTS", "Curve", "Experiment", "Panel"]

_LISTED = (*gcaps.EXPERIMENTS, *thesis.EXPERIMENTS, *boosted.EXPERIMENTS)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _LISTED}
