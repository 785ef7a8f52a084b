# SPDX-License-Identifier: GPL-2.0
"""The parts of an experiment: tasksets drawn at the points of panels, the counts of each, and rows of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

from analysis.papers.experiments.rows import Row

#: The parameters from which tasksets of a point are drawn.
Point = TypeVar("Point")
#: The counts of a piece of work.
Result = TypeVar("Result")
#: Results by panel and point, each a list of its pieces' results in the order of their tasksets.
Results: TypeAlias = "Sequence[Sequence[Sequence[Result]]]"


@dataclass(frozen=True)
class Settings:
    """The settings on which results depend, beside the code.

    ``method``: how utilizations are drawn.  ``profiles``: the folder of published profiles, if an experiment needs it.
    """

    tasksets: int = 1000
    seed: int = 1
    method: str = "uunifast"
    profiles: Path | None = None


@dataclass(frozen=True)
class Panel(Generic[Point]):
    """Points (x, parameters for generation) along one axis."""

    key: str
    axis: str
    points: tuple[tuple[float, Point], ...]


@dataclass(frozen=True)
class Experiment(ABC, Generic[Point, Result]):
    """Tasksets of points, judged in pieces.  Subclasses say what they count, and draw it."""

    name: str
    title: str
    source: str
    panels: tuple[Panel[Point], ...]

    #: The number of tasksets in one piece of work.
    piece: ClassVar[int]
    #: The measures in its table, each with a line for each point; (): a line for each point and curve.
    measures: ClassVar[tuple[str, ...]] = ()

    @property
    def size(self) -> int:
        """The number of points in all panels."""
        return sum(len(panel.points) for panel in self.panels)

    @property
    @abstractmethod
    def labels(self) -> list[str]:
        """The curves whose numbers are counted."""

    @abstractmethod
    def evaluate(self, point: Point, settings: Settings, start: int, count: int) -> Result:
        """The result of tasksets ``start`` to ``start + count - 1`` of a point."""

    @abstractmethod
    def rows(self, results: Results[Result], settings: Settings) -> list[Row]:
        """A row for each point and curve: panel, x, curve, and the numbers."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], folder: Path, form: str) -> list[Path]:
        """Draws the pictures ``NAME*.form`` into the folder and returns their paths."""
