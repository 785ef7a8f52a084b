# SPDX-License-Identifier: GPL-2.0
"""The experiments by name: published curves of schedulability, what boosting is worth, and other studies."""

from __future__ import annotations

from analysis.experiments import boosted, gcaps, otterness, rtgpu, thesis, zahaf
from analysis.experiments.plan import Curve, Experiment, Panel
from analysis.experiments.study import Study

__all__ = ["EXPERIMENTS", "STUDIES", "Curve", "Experiment", "Panel", "Study"]

_LISTED = (*gcaps.EXPERIMENTS, *thesis.EXPERIMENTS, *boosted.EXPERIMENTS, *rtgpu.EXPERIMENTS)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _LISTED}
#: Those that are no curves of schedulability.
STUDIES: dict[str, Study] = {study.name: study for study in (*otterness.STUDIES, *zahaf.STUDIES)}
