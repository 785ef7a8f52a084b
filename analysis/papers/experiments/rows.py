# SPDX-License-Identifier: GPL-2.0
"""Rows of numbers, which every experiment ends with."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from gpurt.types import DocumentView

#: A row of numbers by name.  The first row has all names.
Row: TypeAlias = DocumentView


def write_rows(rows: Sequence[Row], path: Path, columns: Sequence[str] = ()) -> None:
    """Writes these columns of the rows as CSV, all if none are named.

    Numbers have four decimals at most.  A value that a row lacks is empty.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, columns or list(rows[0]), extrasaction="ignore", restval="", lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            writer.writerow({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
