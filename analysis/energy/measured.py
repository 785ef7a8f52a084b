# SPDX-License-Identifier: GPL-2.0
"""Measurements of mean power, one a line of a CSV file (docs/energy-measuring.md).

Kernels side by side are joined by "+", with their units: "mmul+bfs", "4+2".  No kernel and 0 units: the GPU was idle.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.model.energy import MAX_UNITS, STRONGEST
from gpurt.errors import Problem, TasksetError
from gpurt.files import read_whole

#: The columns without which nothing is fitted.  Others that are read: gpu, clock, sensor and error_uw.
NEEDED = ("kernel", "units", "power_uw")
MAX_MEASURED_BYTES = 64 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class MeasuredPower:
    """Mean power, uW, while kernels executed side by side, each on its own units; ``error``: uW, None if unknown."""

    kernels: tuple[tuple[str, int], ...]
    power: int
    error: int | None = None
    line: int = 0
    gpu: str = ""
    clock: str = ""
    sensor: str = ""

    @property
    def busy(self) -> int:
        """How many units were active."""
        return sum(units for _, units in self.kernels)

    @property
    def where(self) -> str:
        """The kernels and their units, for messages."""
        return " and ".join(f"{name} on {units} units" for name, units in self.kernels) or "no kernel"


def load_measured(path: Path | str, units: int) -> list[MeasuredPower]:
    """The measurements in a file, of a GPU with ``units``.

    Raises TasksetError with every mistake and its line; FileError if the file cannot be read.
    """
    path = Path(path)
    text = read_whole(path, MAX_MEASURED_BYTES, "a file of measurements (CSV)").decode("utf-8-sig", "replace")
    lines = csv.DictReader(io.StringIO(text))
    try:
        if lacking := [key for key in NEEDED if key not in (lines.fieldnames or ())]:
            found = f"column {lacking[0]} is missing; there must be {', '.join(NEEDED)}"
            raise TasksetError(path, [Problem(1, found)])
        problems: list[Problem] = []
        measured = [one for row in lines if (one := _row(row, lines.line_num, units, problems))]
    except csv.Error as error:
        raise TasksetError(path, [Problem(lines.line_num, f"is no CSV: {error}")]) from None
    if problems:
        raise TasksetError(path, problems)
    return measured


def _row(row: dict[str, str | None], line: int, units: int, problems: list[Problem]) -> MeasuredPower | None:
    cells = {key: value.strip() for key, value in row.items() if isinstance(key, str) and isinstance(value, str)}
    whole = len(cells) == len(row)
    wrong = list(_mistakes(cells, units)) if whole else ["has more or fewer cells than the first line has columns"]
    if wrong:
        problems += [Problem(line, one) for one in wrong]
        return None
    names = cells["kernel"].split("+") if cells["kernel"] else []
    counts = [int(one) for one in cells["units"].split("+")] if names else []
    error = cells.get("error_uw") or None
    return MeasuredPower(
        tuple(zip(names, counts, strict=True)), int(cells["power_uw"]), None if error is None else int(error), line,
        cells.get("gpu", ""), cells.get("clock", ""), cells.get("sensor", ""),
    )  # fmt: skip


def _mistakes(cells: dict[str, str], units: int) -> Iterator[str]:
    """The mistakes in a line."""
    for key in ("power_uw", "error_uw"):
        cell = cells.get(key, "")
        if not cell and key != "power_uw":
            continue
        if not _DIGITS.fullmatch(cell) or int(cell) > STRONGEST:
            kind = "is negative" if re.fullmatch("-[0-9]+", cell) else f"is {cell[:40]!r}"
            yield f"{key}: {kind}; expected whole microwatts, at most 1 MW"
    names, counts = cells.get("kernel", ""), cells.get("units", "")
    if not names:
        if counts not in ("", "0"):
            yield f"units: {counts[:40]!r} without a kernel; an idle GPU has 0"
        return
    if bad := [one for one in names.split("+") if not _NAME.fullmatch(one)]:
        yield f"kernel: {bad[0][:40]!r} is no name (letters, digits, '.', '_' and '-')"
    parts = counts.split("+")
    if len(parts) != len(names.split("+")) or not all(_DIGITS.fullmatch(one) and int(one) > 0 for one in parts):
        yield f"units: expected one positive number for each kernel, joined by '+', got {counts[:40]!r}"
    elif (total := sum(map(int, parts))) > min(units, MAX_UNITS):
        yield f"units: {total} are more than the GPU's {units}"
