# SPDX-License-Identifier: GPL-2.0
"""Curves of schedulability: the number of tasksets for which a test finds that every deadline holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from analysis.answers import compiled
from analysis.model import CpuSegment, Platform, Taskset
from analysis.papers import registry
from analysis.papers import rtgpu_sweep as units_sweep
from analysis.papers import rtgpu_tasksets as units
from analysis.papers.experiments.generate import PLATFORM, Parameters, generate, on_costs
from analysis.papers.experiments.plan import Experiment, Results, Settings
from analysis.papers.experiments.rows import Row
from analysis.rta import SUFFIX, Test

#: The parameters from which tasksets of a point are drawn.
Drawable: TypeAlias = "Parameters | units.Parameters"
#: The number of schedulable tasksets, by the label of a curve.
Counts: TypeAlias = "dict[str, int]"


@dataclass(frozen=True)
class Curve:
    """A test of the registry under the label that a figure gives it.

    ``costs``: alpha and theta, ns, to compare tests under the same costs; None: the costs that the papers charge.
    ``observed``: a simulation, with segments of this length, decides whether no job misses; the test does not decide.
    """

    label: str
    test: str
    costs: tuple[int, int] | None = None
    observed: str = ""

    @property
    def free(self) -> bool:
        """Whether the test is run on a platform where updates and context switches cost nothing."""
        return self.costs is None and registry.find(self.test).free

    @property
    def dashed(self) -> bool:
        """Whether the curve is dashed, and left out of the picture of sound tests: the test is unsound."""
        return not registry.find(self.test).sound

    @property
    def platform(self) -> Platform:
        """The platform on which the test is run; the number of CPUs is in the parameters."""
        if self.costs is not None:
            return Platform(1, *self.costs, PLATFORM.time_slice)
        return Platform(1, 0, 0, PLATFORM.time_slice) if self.free else PLATFORM


@dataclass(frozen=True)
class Schedulability(Experiment[Drawable, Counts]):
    """The shares of tasksets that tests find schedulable, a curve for each test."""

    curves: tuple[Curve, ...]

    measures: ClassVar[tuple[str, ...]] = ("schedulable",)
    piece: ClassVar[int] = 250

    @property
    def labels(self) -> list[str]:
        """The labels of all curves."""
        return [curve.label for curve in self.curves]

    @property
    def owned(self) -> bool:
        """Whether tasks own units; then their tasksets are drawn by RTGPU's recipe, whatever the method."""
        return any(isinstance(point, units.Parameters) for panel in self.panels for _, point in panel.points)

    def evaluate(self, point: Drawable, settings: Settings, start: int, count: int) -> Counts:
        """The number of tasksets that each curve's test finds schedulable, by label."""
        seed = point_seed(settings.seed, point)
        if isinstance(point, units.Parameters):
            drawn = units.draw(point, seed, count, start)
            return {
                c.label: int(units_sweep.schedulable_on_units(drawn, c.test, c.observed).sum()) for c in self.curves
            }
        drawn_sets = generate(point, seed, count, start, settings.method, PLATFORM)
        return {curve.label: sum(schedulable(drawn_sets, curve)) for curve in self.curves}

    def rows(self, results: Results[Counts], settings: Settings) -> list[Row]:
        """A row for each point and curve: panel, x, curve, schedulable, tasksets, share."""
        return list(self._rows(results, settings.tasksets))

    def _rows(self, results: Results[Counts], tasksets: int) -> Iterator[Row]:
        for panel, points in zip(self.panels, results, strict=True):
            for (x, _), pieces in zip(panel.points, points, strict=True):
                for label in self.labels:
                    count = sum(counts[label] for counts in pieces)
                    yield {"panel": panel.key, "x": x, "curve": label, "schedulable": count, "tasksets": tasksets,
                           "share": count / tasksets}  # fmt: skip

    def draw(self, rows: Sequence[Row], folder: Path, form: str) -> list[Path]:
        """NAME has the sound tests; NAME-printed has all tests, if some are unsound."""
        from analysis.papers.experiments.pictures import draw_shares

        files = [folder / f"{self.name}.{form}"]
        if any(curve.dashed for curve in self.curves):
            files.append(folder / f"{self.name}-printed.{form}")
        for path in files:
            draw_shares(self, rows, path, dashed=path is not files[0])
        return files


def schedulable(tasksets: Sequence[Taskset], curve: Curve) -> list[bool]:
    """Whether each taskset is schedulable under a curve's test."""
    test = registry.find(curve.test)
    return [passes(test, taskset) for taskset in on_costs(tasksets, curve.platform.alpha, curve.platform.theta)]


def passes(test: Test, taskset: Taskset) -> bool:
    """Whether a taskset is schedulable under a test.

    A test with reduced pessimism subtracts overlaps, for segments of at least three periods of another task, and only
    helps tasks whose GPU priorities are given.  Elsewhere the unreduced test has the same answer, in less time.
    """
    if test.base not in registry.REDUCES:
        return compiled.passes(test, taskset)
    reduced = registry.find(registry.REDUCES[test.base])
    if compiled.passes(reduced, taskset):
        return True
    parts = (s.time if isinstance(s, CpuSegment) else s.pure for task in taskset for s in task.segments)
    longest = max((part.worst for part in parts), default=0)
    if longest >= 3 * min((task.period for task in taskset), default=1):
        return test.run(taskset, brief=True).schedulable
    return test.assigns and compiled.passes(registry.find(reduced.name + SUFFIX), taskset)


def point_seed(seed: int, parameters: Drawable) -> int:
    """The seed of a point: equal parameters have equal tasksets in every experiment."""
    digest = hashlib.sha256(f"{seed} {parameters}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
