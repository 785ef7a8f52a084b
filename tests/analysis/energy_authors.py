# SPDX-License-Identifier: GPL-2.0
"""Powers fitted to profiles in the format in which sBEET-mg's authors published theirs (figure 3.2).

A folder has gpu_NAME/ for each GPU, and in it BENCHMARK.csv with a line for each number of SMs.  The columns are SM,
Min(ms), Max(ms), Power(W), and energy and energy_in_window in J.  The last is energy + E - P^s Max, with E the static
energy of all GPUs in their window, the same for all lines.  So two lines tell P^s, and the others must agree.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from analysis.energy.fit import Fit, FitError, Solved, Solver, fit, least_squares
from analysis.energy.measured import MeasuredPower
from analysis.papers.energy.published import AuthorsLine, published_lines
from gpurt.units import POWERS

#: By how much the energies of a line may disagree with the P^s of others: what is lost by printing them, J.
_CLOSE = Fraction(1, 10**6)


@dataclass(frozen=True)
class Imported:
    """A GPU's measured kernels: static power, uW, the fit of the others, and by benchmark the lines from 1 SM on."""

    name: str
    fit: Fit
    lines: Mapping[str, tuple[AuthorsLine, ...]]

    @property
    def units(self) -> int:
        """Its SMs."""
        return self.fit.units


def load(folder: Path, method: str) -> list[Imported]:
    """All GPUs of a folder.  Raises TasksetError for a file, and FitError if the powers of a GPU cannot be told."""
    return [_gpu(path, path.name.removeprefix("gpu_"), method) for path in sorted(folder.glob("gpu_*"))]


def _gpu(folder: Path, name: str, method: str) -> Imported:
    lines = {path.stem: published_lines(path) for path in sorted(folder.glob("*.csv"))}
    measured = [MeasuredPower(((kernel, one.units),), one.power) for kernel, some in lines.items() for one in some]
    units = max(len(one) for one in lines.values())
    return Imported(name, fit(measured, units, _static(folder), METHODS[method]), lines)


def _static(folder: Path) -> int:
    """P^s, uW, from the slope of energy - energy_in_window over the times, rounded to mW."""
    rows = [row for path in folder.glob("*.csv") for row in csv.DictReader(path.open(encoding="utf-8"))]
    pairs = [(Fraction(row["Max(ms)"]) / 1000, Fraction(row["energy"]) - Fraction(row["energy_in_window"]))
             for row in rows]  # fmt: skip
    (short, least), (long, most) = min(pairs), max(pairs)
    static = Fraction(round((most - least) / (long - short) * 1000), 1000)
    window = static * short - least
    assert all(abs(static * time - window - difference) <= _CLOSE for time, difference in pairs)
    return int(static * POWERS["W"])


def _thesis(
    single: Sequence[MeasuredPower], names: Sequence[str], units: int, static: int
) -> Solved:
    """The published recipe: pd = (P(M) - P^s) / M, and p the mean of (P(m) - P^s - m pd) / (M - m)."""
    powers: list[float] = []
    for name in names:
        whole = [one.power - static for one in single if one.kernels[0] == (name, units)]
        if not whole:
            raise FitError(f"{name} was not measured on all {units} units, as the method `thesis` needs")
        powers.append(sum(whole) / len(whole) / units)
    rest = [(one.power - static - count * powers[names.index(name)]) / (units - count)
            for one in single for name, count in one.kernels if count < units]  # fmt: skip
    if not rest:
        raise FitError(f"idle power is unknown: every kernel was measured on all {units} units only")
    return [*powers, sum(rest) / len(rest)], [None] * (len(names) + 1)


#: How powers are fitted, by name.
METHODS: dict[str, Solver] = {"least-squares": least_squares, "thesis": _thesis}
