# SPDX-License-Identifier: GPL-2.0
"""Rows of numbers, the result of every experiment."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from gpurt.types import Document, DocumentView

#: A row of numbers by name.  The first row has all names.
Row: TypeAlias = DocumentView
#: The first columns of a table that has a column for each curve.
_POINT = ("panel", "x", "tasksets", "measure")


def write_rows(rows: Sequence[Row], path: Path, measures: Sequence[str] = ()) -> None:
    """Writes rows as CSV: a line for each row, or for each point and one of ``measures``, with a column for each curve.

    Numbers have at most four decimals.  A missing value is empty.
    """
    lines: Sequence[Row] = list(_points(rows, measures)) if measures else rows
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), restval="", lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({key: _short(value) for key, value in line.items()})


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _points(rows: Sequence[Row], measures: Sequence[str]) -> Iterator[Document]:
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    places = list(dict.fromkeys((row["panel"], row["x"], row["tasksets"]) for row in rows))
    found = {(row["panel"], row["x"], row["curve"]): row for row in rows}
    for panel, x, tasksets in places:
        for measure in measures:
            values = {curve: found.get((panel, x, curve), {}).get(measure, "") for curve in curves}
            yield {**dict(zip(_POINT, (panel, x, tasksets, measure), strict=True)), **values}
