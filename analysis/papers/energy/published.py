# SPDX-License-Identifier: GPL-2.0
"""The profiles that sBEET-mg's authors measured, read from their folder; they do not come with gpurt (no licence).

The folder has gpu_rtx3070/ and gpu_t400/ with a file for each benchmark: SM, Average(ms), Min(ms), Max(ms), and more.
Times are the files' maxima.  Measured energies are their power minus the static power, multiplied by these times.
Powers are those of table 3.2, and copy times those of the authors' code (facts, cited).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

from analysis.model import Kernel, Span
from analysis.model.energy import (
    MAX_ENERGY_TIME_NS,
    MAX_UNITS,
    STRONGEST,
    PoweredKernel,
    Profile,
    SpatialGpu,
)
from gpurt.errors import FileError, Problem, TasksetError
from gpurt.files import read_whole
from gpurt.text import filename
from gpurt.units import POWERS, UNITS

MAX_AUTHORS_BYTES = 2**20
_TIMES = ("Min(ms)", "Max(ms)")
_POWER = "Power(W)"
RTX, T400 = "rtx3070", "t400"
#: Table 3.2: units, static power, idle power of a unit, uW.
GPUS = {RTX: (46, 46_000_000, 445_000), T400: (6, 8_000_000, 652_000)}
#: By benchmark: power of an active unit, uW, copy in and copy out, us; first on the RTX 3070, then on the T400.
FACTS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "mmul": ((3_770_000, 2500, 1000), (2_060_000, 13_000, 1500)),
    "stereodisparity": ((1_630_000, 4000, 1000), (980_000, 1000, 1000)),
    "hotspot": ((1_140_000, 1500, 1000), (810_000, 3000, 1500)),
    "dxtc": ((1_670_000, 1000, 1000), (1_150_000, 12_000, 4000)),
    "bfs": ((980_000, 4500, 1000), (1_070_000, 6000, 5500)),
    "hist": ((1_080_000, 2000, 1000), (1_290_000, 4500, 1000)),
    "mmul2": ((3_180_000, 1500, 1000), (2_060_000, 3000, 1500)),
    "hist2": ((910_000, 1000, 1000), (1_190_000, 2500, 1000)),
}


@dataclass(frozen=True)
class AuthorsLine:
    """A line of a file: times in ns, power in uW."""

    units: int
    best: int
    worst: int
    power: int

    @property
    def span(self) -> Span:
        """Its times."""
        return Span(self.worst, self.best)


def published_lines(path: Path) -> tuple[AuthorsLine, ...]:
    """The lines of a file.  Raises TasksetError with every mistake."""
    text = read_whole(path, MAX_AUTHORS_BYTES, "a profile (CSV)").decode("utf-8-sig", "replace")
    rows = csv.DictReader(io.StringIO(text))
    problems: list[Problem] = []
    found: list[AuthorsLine] = []
    try:
        needed = ("SM", *_TIMES, _POWER)
        if lacking := [key for key in needed if key not in (rows.fieldnames or ())]:
            raise TasksetError(path, [Problem(1, f"column {lacking[0]} is missing; expected {', '.join(needed)}")])
        expected = 1
        for row in rows:
            try:
                expected = _units(row, expected, problems, rows.line_num) + 1
                found.append(_line(row, expected - 1))
            except ValueError as error:
                problems.append(Problem(rows.line_num, str(error)))
    except csv.Error as error:
        problems.append(Problem(rows.line_num, f"is no CSV: {error}"))
    if not found and not problems:
        problems.append(Problem(1, "there is no line with a measurement"))
    if problems:
        raise TasksetError(path, problems)
    return tuple(found)


def _units(row: Mapping[str, str | None], expected: int, problems: list[Problem], number: int) -> int:
    """The line's number of SMs; reports a gap once.  Raises ValueError if the cell is no number."""
    text = (row["SM"] or "").strip()
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) <= MAX_UNITS:
        raise ValueError(f"SM: expected a number up to {MAX_UNITS}, got {text[:40]!r}")
    if int(text) != expected:
        problems.append(Problem(number, f"SM: expected {expected}, got {text}; each number from 1 on has a line"))
    return int(text)


def _line(row: Mapping[str, str | None], units: int) -> AuthorsLine:
    """One line.  Raises ValueError that names the mistake."""
    best, worst = (_number(row, key, UNITS["ms"], MAX_ENERGY_TIME_NS, int) for key in _TIMES)
    if not 0 < best <= worst:
        raise ValueError(f"{_TIMES[0]}: expected 0 < {_TIMES[0]} <= {_TIMES[1]}")
    power = _number(row, _POWER, POWERS["W"], STRONGEST, round)
    if power <= 0:
        raise ValueError(f"{_POWER}: must be more than 0")
    return AuthorsLine(units, best, worst, power)


def _fraction(row: Mapping[str, str | None], key: str) -> Fraction:
    try:
        number = Decimal((row[key] or "").strip()[:60])
        if number.is_finite() and abs(number.adjusted()) < 30:
            return Fraction(number)
    except InvalidOperation:
        pass
    raise ValueError(f"{key}: expected a number, got {row[key] or ''!r:.40}")


def _number(row: Mapping[str, str | None], key: str, scale: int, most: int, whole: Callable[[Fraction], int]) -> int:
    """A cell times ``scale``.  Times must be whole ns; powers are rounded to uW."""
    exact = _fraction(row, key) * scale
    if not 0 <= exact <= most:
        raise ValueError(f"{key}: {row[key]!r:.40} is {'negative' if exact < 0 else 'too large'}")
    if whole is int and exact.denominator > 1:
        raise ValueError(f"{key}: {row[key]!r:.40} is no whole number of ns")
    return whole(exact)


def gpu(kind: str, name: str, limit: int | None = None) -> SpatialGpu:
    """One of the two GPUs, with at most ``limit`` units for jobs."""
    units, static, idle = GPUS[kind]
    return SpatialGpu(name, units, limit or units, static, idle, kind=kind)


def load_published(folder: Path) -> dict[str, Profile]:
    """The eight benchmarks by name.  Raises FileError if a file is missing or malformed."""
    found = {}
    for name, facts in FACTS.items():
        pairs = zip((RTX, T400), facts, strict=True)
        found[name] = Profile(name, {kind: _kernel(folder, name, kind, *own) for kind, own in pairs})
    return found


def _kernel(folder: Path, name: str, kind: str, power: int, copy_in: int, copy_out: int) -> PoweredKernel:
    path, (units, static, _) = folder / f"gpu_{kind}" / f"{name}.csv", GPUS[kind]
    lines = published_lines(path)
    if len(lines) != units:
        raise FileError(f"{filename(path)}: expected a row for each of 1 to {units} SMs, got {len(lines)}")
    energies = tuple((one.power - static) * one.worst for one in lines)
    times = Kernel.measured([one.span for one in lines])
    return PoweredKernel(times, power, copy_in * UNITS["us"], copy_out * UNITS["us"], energies)
