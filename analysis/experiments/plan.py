# SPDX-License-Identifier: GPL-2.0
"""What an experiment is: curves of schedulability over the points of one or more panels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from analysis import compiled, rta
from analysis.generate import PLATFORM, Parameters
from analysis.model import Platform


@dataclass(frozen=True)
class Curve:
    """A test under a label.  ``free``: on a platform where updates and context switches cost nothing.

    ``dashed``: drawn so, and kept out of the picture of what is sound (tests as their sources print them).
    """

    label: str
    test: str
    free: bool = False
    dashed: bool = False

    @property
    def platform(self) -> Platform:
        """Where the test is run; CPUs are the parameters'."""
        return Platform(1, 0, 0, PLATFORM.time_slice) if self.free else PLATFORM

    @property
    def missing(self) -> bool:
        """Whether the registry has no such test (yet)."""
        return self.test not in rta.TESTS

    @property
    def compiled(self) -> bool:
        """Whether the test has a compiled form."""
        return compiled.has(self.test)


@dataclass(frozen=True)
class Panel:
    """Points (x, what to generate there) along one axis."""

    key: str
    axis: str
    points: tuple[tuple[float, Parameters], ...]


@dataclass(frozen=True)
class Experiment:
    """``claim``: what the source's text says of its figure, for whoever compares."""

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


def point_seed(seed: int, parameters: Parameters) -> int:
    """The seed of a point: equal parameters have equal tasksets in every experiment."""
    digest = hashlib.sha256(f"{seed} {parameters}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
