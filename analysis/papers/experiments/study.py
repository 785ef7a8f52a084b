# SPDX-License-Identifier: GPL-2.0
"""Experiments that are not curves of schedulability: rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.papers.experiments.rows import Row


@dataclass(frozen=True)
class Study:
    """``run(samples, seed, progress)``: the rows; ``progress`` is called after each of ``size`` points.

    ``measures``: each has a line in the table for each point; (): a line for each row.
    """

    name: str
    title: str
    source: str
    size: int
    run: Callable[[int, int, Callable[[], None]], list[Row]]
    draw: Callable[[Sequence[Row], Path], None] | None = None
    measures: tuple[str, ...] = ()
