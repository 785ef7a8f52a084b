# SPDX-License-Identifier: GPL-2.0
"""The experiments by name: published schedulability curves, the worth of boosting, energy, and other studies."""

from __future__ import annotations

from analysis.papers.experiments import boosted, energy, gcaps, rtgpu, thesis, zahaf
from analysis.papers.experiments.energy import EnergyExperiment
from analysis.papers.experiments.schedulability import Schedulability
from analysis.papers.experiments.study import Study

__all__ = ["ENERGY", "EXPERIMENTS", "STUDIES"]

_LISTED = (*gcaps.EXPERIMENTS, *thesis.EXPERIMENTS, *boosted.EXPERIMENTS, *rtgpu.EXPERIMENTS)
#: Curves of schedulability.
EXPERIMENTS: dict[str, Schedulability] = {experiment.name: experiment for experiment in _LISTED}
#: Experiments on misses and energy; they need the published profiles.
ENERGY: dict[str, EnergyExperiment] = {experiment.name: experiment for experiment in energy.EXPERIMENTS}
#: The experiments that are not split into pieces of points.
STUDIES: dict[str, Study] = {study.name: study for study in zahaf.STUDIES}
