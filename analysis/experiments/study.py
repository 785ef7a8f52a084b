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
    """``run(samples, seed, progress)``: the rows; ``progress`` is called after each of ``size`` points.

    ``judge``: a verdict on each claim.  ``columns``: of its table; () are those of the first row.
    """

    name: str
    title: str
    source: str
    size: int
    run: Callable[[int, int, Callable[[], None]], list[Row]]
    judge: Callable[[Sequence[Row]], list[Claim]] | None = None
    draw: Callable[[Sequence[Row], Path], None] | None = None
    columns: tuple[str, ...] = ()


def write_rows(rows: Sequence[Row], path: Path, columns: Sequence[str] = ()) -> None:
    """Writes these columns of the rows as CSV, all if none are named.  What a row lacks is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, columns or list(rows[0]), extrasaction="ignore", restval="", lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.4f}" if isinstance(value, float) else value for key, value in row.items()})
