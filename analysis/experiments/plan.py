# SPDX-License-Identifier: GPL-2.0
"""What an experiment is: curves of schedulability over the points of one or more panels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from analysis import compiled, rta
from analysis.generate import PLATFORM, Parameters
from analysis.model import Platform
from analysis.rtgpu import generate as units

#: What tasksets of a point are drawn from.
Drawable: TypeAlias = "Parameters | units.Parameters"


@dataclass(frozen=True)
class Curve:
    """A test of the registry under the label that a figure gives it.

    ``costs``: alpha and theta, ns, to compare tests under the same costs; None: those that the papers charge the test.
    ``observed``: not the test, but whether simulation sees no miss, with segments that last so long.
    """

    label: str
    test: str
    costs: tuple[int, int] | None = None
    observed: str = ""

    @property
    def free(self) -> bool:
        """Whether the test is run on a platform where updates and context switches cost nothing."""
        return self.costs is None and not self.missing and rta.find(self.test).free

    @property
    def dashed(self) -> bool:
        """Whether the curve is drawn dashed and kept out of the picture of what is sound: the test is unsound."""
        return not self.missing and not rta.find(self.test).sound

    @property
    def platform(self) -> Platform:
        """Where the test is run; the number of CPUs is in the parameters."""
        if self.costs is not None:
            return Platform(1, *self.costs, PLATFORM.time_slice)
        return Platform(1, 0, 0, PLATFORM.time_slice) if self.free else PLATFORM

    @property
    def missing(self) -> bool:
        """Whether the registry has no such test (yet)."""
        return self.test not in rta.TESTS and self.test not in rta.registry.UNITS

    @property
    def compiled(self) -> bool:
        """Whether the test has a compiled formula."""
        return compiled.has(self.test)


@dataclass(frozen=True)
class Panel:
    """Points (x, what to generate there) along one axis."""

    key: str
    axis: str
    points: tuple[tuple[float, Drawable], ...]


@dataclass(frozen=True)
class Experiment:
    """``claim``: what the source's text says of its figure, to compare with."""

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]
    curves: tuple[Curve, ...]
    claim: str = ""

    @property
    def available(self) -> tuple[Curve, ...]:
        """The curves whose tests exist."""
        return tuple(curve for curve in self.curves if not curve.missing)

    @property
    def size(self) -> int:
        """Points in all panels."""
        return sum(len(panel.points) for panel in self.panels)


def point_seed(seed: int, parameters: Drawable) -> int:
    """The seed of a point: equal parameters have equal tasksets in every experiment."""
    digest = hashlib.sha256(f"{seed} {parameters}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
