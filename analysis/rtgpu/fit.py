# SPDX-License-Identifier: GPL-2.0
"""A kernel's times from measurements: lemma 5.1's formula, or a table (docs/rtgpu.md).

A formula is fitted so that it bounds every measurement.  No measurement is a proof: a longer time can always be yet to
come.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.model import Kernel, Span
from analysis.model.kernel import WHOLE
from gpurt import files
from gpurt.errors import FileError
from gpurt.text import filename
from gpurt.units import parse_time

MAX_TIMES_BYTES = 64 * 2**20
MOST_UNITS = 4096


@dataclass(frozen=True)
class MeasuredSpans:
    """The longest and the shortest time measured on each number of units, ns."""

    spans: Mapping[int, Span]

    @property
    def most(self) -> int:
        """The largest number of units that was measured."""
        return max(self.spans)

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of units up to the largest that were not measured."""
        return tuple(units for units in range(1, self.most + 1) if units not in self.spans)

    @property
    def slower(self) -> tuple[int, ...]:
        """Numbers of units on which the longest time exceeds that of some smaller number."""
        found: list[int] = []
        least: int | None = None
        for units in sorted(self.spans):
            worst = self.spans[units].worst
            if least is not None and worst > least:
                found.append(units)
            least = worst if least is None else min(least, worst)
        return tuple(found)


def read_rows(path: Path) -> MeasuredSpans:
    """Lines ``units,time``, such as ``4,12.5ms``, in any order, several for each number; a first line may name them.

    Raises FileError that names file and line.
    """
    name = filename(path)
    try:
        text = files.read_whole(path, MAX_TIMES_BYTES, "a file of measurements").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{name}: is not UTF-8 text") from None
    times: dict[int, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        cells = _cells(line, f"{name}:{number}")
        if not any(cells) or (number == 1 and cells == ["units", "time"]):
            continue
        if len(cells) != 2:
            raise FileError(f"{name}:{number}: expected units,time such as 4,12.5ms")
        if not (cells[0].isascii() and cells[0].isdigit() and _between(cells[0], MOST_UNITS)):
            raise FileError(f"{name}:{number}: expected a number of units from 1 to {MOST_UNITS}, got {cells[0]!r:.40}")
        try:
            time = parse_time(cells[1])
        except ValueError as error:
            raise FileError(f"{name}:{number}: {error}") from None
        if not time:
            raise FileError(f"{name}:{number}: a kernel takes longer than 0")
        times.setdefault(int(cells[0]), []).append(time)
    if not times:
        raise FileError(f"{name}: has no measurement; a line is units,time such as 4,12.5ms")
    return MeasuredSpans({units: Span(max(seen), min(seen)) for units, seen in sorted(times.items())})


def _cells(line: str, where: str) -> list[str]:
    """The cells of one line; no cell goes on in the next one."""
    try:
        return [cell.strip() for row in csv.reader([line]) for cell in row]
    except csv.Error as error:
        raise FileError(f"{where}: {error}") from None


def _between(digits: str, most: int) -> bool:
    """Whether a number is from 1 to ``most``; leading zeros do not count towards its length."""
    significant = digits.lstrip("0")
    return len(significant) <= len(str(most)) and 1 <= int(significant or "0") <= most


def times_table(measured: MeasuredSpans) -> Kernel:
    """The measured times.  A number that was not measured has the time of fewer units, since fewer can be used.

    Raises ValueError if a single unit was not measured.
    """
    if 1 not in measured.spans:
        raise ValueError("the time on 1 unit was not measured")
    spans: list[Span] = []
    for units in range(1, measured.most + 1):
        spans.append(measured.spans.get(units, spans[-1] if spans else measured.spans[1]))
    return Kernel.measured(spans)


def formula(measured: MeasuredSpans, interleave: int, overhead: int | None = None, minimum: int = 1) -> Kernel:
    """The formula with the least overhead that bounds every measurement, or with the given one.

    ``interleave``: alpha in thousandths.  Lemma 5.1 bounds time t on m units if ``GL >= (2m t - alpha GW) / (2m - 1)``.
    ``minimum``: no task gets fewer units.  GW is then ``minimum`` times the time on ``minimum`` units.  The formula
    still bounds every measurement, but says nothing about fewer units.  Raises ValueError if the time on the minimum
    was not measured, or if the overhead exceeds the time on one unit.
    """
    if minimum not in measured.spans:
        least = min(measured.spans)
        hint = f"; if no task gets fewer than {least}, say --formula minimum={least}" if least > minimum else ""
        raise ValueError(f"the time on {minimum} unit{'s' * (minimum > 1)} was not measured{hint}")
    work = Span(minimum * measured.spans[minimum].worst, minimum * measured.spans[minimum].best)
    if overhead is None:
        scaled = (
            -((interleave * work.worst - WHOLE * 2 * units * span.worst) // (WHOLE * (2 * units - 1)))
            for units, span in measured.spans.items()
        )
        overhead = max(0, *scaled)
    best = min(2 * units * span.best for units, span in measured.spans.items())
    found = Kernel(Span(work.worst, min(work.worst, best)), overhead, interleave)
    if WHOLE * overhead > interleave * work.worst:
        raise ValueError("the overhead is longer than the time on 1 unit")
    return found


def unbounded(found: Kernel, measured: MeasuredSpans) -> Sequence[tuple[int, int, int]]:
    """Where a formula is no bound: units, measured and computed time, ns."""
    pairs = [(units, span.worst, found.on(units).worst) for units, span in measured.spans.items()]
    return [one for one in pairs if one[1] > one[2]]
