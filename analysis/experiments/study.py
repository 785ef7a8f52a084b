# SPDX-License-Identifier: GPL-2.0
"""Experiments that are no curves of schedulability: rows of numbers, and a verdict on each claim of the source."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

#: A row of numbers by name.  The first row has all names.
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the source says, whether it holds here, and the numbers that show it, or why it does not."""

    text: str
    reproduced: bool
    why: str


@dataclass(frozen=True)
class Study:
    """``run(samples, seed, progress)``: the rows; ``progress`` is called after each of ``size`` points."""

    name: str
    title: str
    source: str
    size: int
    run: Callable[[int, int, Callable[[], None]], list[Row]]
    judge: Callable[[Sequence[Row]], list[Claim]]
    draw: Callable[[Sequence[Row], Path], None] | None = None


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
