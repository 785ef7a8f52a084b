# SPDX-License-Identifier: GPL-2.0
"""Experiments that are no curves of schedulability: rows of numbers, and a verdict on each claim of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.papers.experiments.rows import Row


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the source, whether it holds here, and the numbers that show it, or why it does not."""

    text: str
    reproduced: bool
    why: str


@dataclass(frozen=True)
class Study:
    """``run(samples, seed, progress)``: the rows; ``progress`` is called after each of ``size`` points.

    ``judge``: a verdict on each claim.  ``measures``: each has a line in its table for each point; (): a line a row.
    """

    name: str
    title: str
    source: str
    size: int
    run: Callable[[int, int, Callable[[], None]], list[Row]]
    judge: Callable[[Sequence[Row]], list[Claim]] | None = None
    draw: Callable[[Sequence[Row], Path], None] | None = None
    measures: tuple[str, ...] = ()
