# SPDX-License-Identifier: GPL-2.0
"""Imports profiles in the format in which sBEET-mg's authors published theirs (figure 3.2), which gpurt has not.

A folder has gpu_NAME/ for each GPU, and in it BENCHMARK.csv with a line for each number of SMs.  The columns are SM,
Min(ms), Max(ms), Power(W), and energy and energy_in_window in J.  The last is energy + E - P^s Max, with E the static
energy of all GPUs in their window, the same for all lines.  So two lines tell P^s, and the others must agree.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

from analysis.energy.fit import Fit, FitError, Solved, Solver, fit, least_squares
from analysis.energy.measured import MeasuredPower
from analysis.energy.write import Profiled, Timed, check, gpu_table, profiles
from analysis.model import Span
from analysis.model.energy import MAX_ENERGY_TIME_NS, MAX_UNITS, STRONGEST
from gpurt.errors import FileError, Problem, TasksetError, UsageError
from gpurt.files import read
from gpurt.text import filename
from gpurt.units import POWERS, UNITS

MAX_AUTHORS_BYTES = 2**20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TIMES = ("Min(ms)", "Max(ms)")
_POWER, _ENERGIES = "Power(W)", ("energy", "energy_in_window")
#: By how much the energies of a line may disagree with the P^s of others: what is lost by printing them, J.
_CLOSE = Fraction(1, 10**6)


@dataclass(frozen=True)
class AuthorsLine:
    """A line of a file: times in ns, power in uW, and energy - energy_in_window, J, None if the file lacks it."""

    units: int
    best: int
    worst: int
    power: int
    difference: Fraction | None
    number: int

    @property
    def span(self) -> Span:
        """Its times."""
        return Span(self.worst, self.best)


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


def load(folder: Path, static: Mapping[str, int], method: str) -> list[Imported]:
    """All GPUs of a folder; ``static``: P^s by GPU, uW, where the files do not tell it.

    Raises:
        FileError, TasksetError: the folder or a file is not what it should be; all mistakes of a file at once.
        UsageError: ``static`` names a GPU that the folder has not.
        FitError: the powers of a GPU cannot be told.
    """
    try:
        folders = sorted(path for path in folder.iterdir() if path.name.startswith("gpu_") and path.is_dir())
    except OSError as error:
        raise FileError(f"{filename(folder)}: {error.strerror}; name a folder with gpu_NAME/BENCHMARK.csv") from None
    names = [path.name.removeprefix("gpu_") for path in folders]
    if not names:
        raise FileError(f"{filename(folder)}: has no folder gpu_NAME with BENCHMARK.csv in it")
    if unknown := [name for name in static if name not in names]:
        raise UsageError(f"--static-of: the folder has no GPU {unknown[0]!r}; it has {', '.join(names)}")
    return [_gpu(path, name, static.get(name), method) for path, name in zip(folders, names, strict=True)]


def _gpu(folder: Path, name: str, static: int | None, method: str) -> Imported:
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise FileError(f"{filename(folder)}: has no file BENCHMARK.csv")
    for called in (name, *(path.stem for path in files)):
        if not _NAME.fullmatch(called):
            raise FileError(f"{filename(folder)}: {called[:80]!r} is no name (letters, digits, '.', '_' and '-')")
    lines = {path.stem: lines_of(path) for path in files}
    units = max(len(one) for one in lines.values())
    if short := next((path for path in files if len(lines[path.stem]) < units), None):
        raise FileError(f"{filename(short)}: has lines for {len(lines[short.stem])} SMs, other files for {units}")
    base = _static(folder, lines) if static is None else static
    measured = [MeasuredPower(((kernel, one.units),), one.power) for kernel, some in lines.items() for one in some]
    try:
        fitted = fit(measured, units, base, METHODS[method])
        check(fitted)
    except FitError as error:
        raise FitError(f"{filename(folder)}: {error}") from None
    return Imported(name, fitted, lines)


def lines_of(path: Path) -> tuple[AuthorsLine, ...]:
    """The lines of a file.  Raises TasksetError with every mistake."""
    text = read(path, MAX_AUTHORS_BYTES, "a profile (CSV)").decode("utf-8-sig", "replace")
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
                found.append(_line(row, expected - 1, rows.line_num))
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
    """The line's number of SMs; a gap is told once.  Raises ValueError if it is none."""
    text = (row["SM"] or "").strip()
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) <= MAX_UNITS:
        raise ValueError(f"SM: expected a number up to {MAX_UNITS}, got {text[:40]!r}")
    if int(text) != expected:
        problems.append(Problem(number, f"SM: expected {expected}, got {text}; each number from 1 on has a line"))
    return int(text)


def _line(row: Mapping[str, str | None], units: int, number: int) -> AuthorsLine:
    """One line.  Raises ValueError that says what is wrong."""
    best, worst = (_number(row, key, UNITS["ms"], MAX_ENERGY_TIME_NS, int) for key in _TIMES)
    if not 0 < best <= worst:
        raise ValueError(f"{_TIMES[0]}: expected 0 < {_TIMES[0]} <= {_TIMES[1]}")
    power = _number(row, _POWER, POWERS["W"], STRONGEST, round)
    if power <= 0:
        raise ValueError(f"{_POWER}: must be more than 0")
    energies = [_fraction(row, key) if row.get(key) else None for key in _ENERGIES]
    difference = None if energies[0] is None or energies[1] is None else energies[0] - energies[1]
    return AuthorsLine(units, best, worst, power, difference, number)


def _fraction(row: Mapping[str, str | None], key: str) -> Fraction:
    try:
        number = Decimal((row[key] or "").strip()[:60])
        if number.is_finite() and abs(number.adjusted()) < 30:
            return Fraction(number)
    except InvalidOperation:
        pass
    raise ValueError(f"{key}: expected a number, got {row[key] or ''!r:.40}")


def _number(row: Mapping[str, str | None], key: str, scale: int, most: int, whole: Callable[[Fraction], int]) -> int:
    """A cell times ``scale``.  Times must be whole ns, powers are rounded to uW."""
    exact = _fraction(row, key) * scale
    if not 0 <= exact <= most:
        raise ValueError(f"{key}: {row[key]!r:.40} is {'negative' if exact < 0 else 'too large'}")
    if whole is int and exact.denominator > 1:
        raise ValueError(f"{key}: {row[key]!r:.40} is no whole number of ns")
    return whole(exact)


def _static(folder: Path, lines: Mapping[str, Sequence[AuthorsLine]]) -> int:
    """P^s, uW, from the slope of energy - energy_in_window over the times, rounded to mW.  Raises FileError."""
    cure = f"give --static {folder.name.removeprefix('gpu_')}=POWER"
    pairs = [(Fraction(one.worst, UNITS["s"]), one.difference, name, one.number)
             for name, some in lines.items() for one in some]  # fmt: skip
    known = sorted((time, difference) for time, difference, *_ in pairs if difference is not None)
    if len(known) < len(pairs) or known[0][0] == known[-1][0]:
        raise FileError(f"{filename(folder)}: the files do not tell the static power (column {_ENERGIES[1]}); {cure}")
    (short, least), (long, most) = known[0], known[-1]
    static = Fraction(round((most - least) / (long - short) * 1000), 1000)
    window = static * short - least
    for time, difference, name, number in pairs:
        assert difference is not None
        if abs(static * time - window - difference) > _CLOSE:
            where = f"{filename(folder / name)}.csv:{number}"
            raise FileError(f"{where}: its energies contradict the static power of {float(static)} W of others; {cure}")
    if static <= 0:
        raise FileError(f"{filename(folder)}: its energies mean a static power of {float(static)} W; {cure}")
    return int(static * POWERS["W"])


#: Copy times by benchmark and GPU: into the GPU and back, ns.
Copies = Mapping[str, Mapping[str, tuple[int, int]]]


def toml(gpus: Sequence[Imported], source: str, copies: Copies, method: str = "least-squares") -> str:
    """The [[profile]] tables for a taskset file, with the [[gpu]] tables as a comment."""
    head = f"Imported by `gpurt experiment import` from {source}; powers by the method {method}."
    return profiles([_profiled(gpu, copies) for gpu in gpus], [head])


def gpu_toml(gpu: Imported) -> list[str]:
    """The [[gpu]] table of a taskset file."""
    return list(gpu_table(_profiled(gpu, {})))


def _profiled(gpu: Imported, copies: Copies) -> Profiled:
    kernels = {
        name: Timed([one.span for one in lines], *copies.get(name, {}).get(gpu.name, (0, 0)),
                    [one.power for one in lines])
        for name, lines in gpu.lines.items()
    }  # fmt: skip
    return Profiled(gpu.name, gpu.fit, kernels)


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
