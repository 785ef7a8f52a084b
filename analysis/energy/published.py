# SPDX-License-Identifier: GPL-2.0
"""The profiles that sBEET-mg's authors measured, read from their folder; they do not come with gpurt (no licence).

The folder has gpu_rtx3070/ and gpu_t400/ with a file for each benchmark: SM, Average(ms), Min(ms), Max(ms), and more.
Times are their maxima, measured energies their power less the static one times those.  Powers
are table 3.2's and copy times those of the authors' code (facts, cited).
"""

from __future__ import annotations

import csv
import io
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

from analysis.energy.model import PoweredKernel, Profile, SpatialGpu
from analysis.model import Kernel
from gpurt.errors import FileError
from gpurt.files import read
from gpurt.text import filename
from gpurt.units import POWERS, UNITS

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
BYTES = 2**20


def gpu(kind: str, name: str, limit: int | None = None) -> SpatialGpu:
    """One of the two GPUs, with at most ``limit`` units for jobs."""
    units, static, idle = GPUS[kind]
    return SpatialGpu(name, units, limit or units, static, idle, kind=kind)


def load(folder: Path) -> dict[str, Profile]:
    """The eight benchmarks by name.  Raises FileError if a file is missing or is not what it should be."""
    found = {}
    for name, facts in FACTS.items():
        kernels = {}
        for kind, (power, copy_in, copy_out) in zip((RTX, T400), facts, strict=True):
            worst, best, energies = _columns(folder / f"gpu_{kind}" / f"{name}.csv", *GPUS[kind][:2])
            copies = copy_in * UNITS["us"], copy_out * UNITS["us"]
            kernels[kind] = PoweredKernel(Kernel.table(worst, best), power, *copies, energies)
        found[name] = Profile(name, kernels)
    return found


Columns: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]"


def _columns(path: Path, units: int, static: int) -> Columns:
    """Largest and least kernel times with 1 to ``units`` units, ns, and energies beside the static one, fJ."""
    text = read(path, BYTES, "a profile of sBEET-mg").decode("utf-8", "replace")
    rows = list(csv.DictReader(io.StringIO(text)))
    try:
        counts = [int(row["SM"]) for row in rows]
        pairs = [(_ns(row["Max(ms)"]), _ns(row["Min(ms)"])) for row in rows]
        powers = [round(Decimal(row["Power(W)"]) * POWERS["W"]) - static for row in rows]
    except (KeyError, TypeError, ValueError, InvalidOperation) as error:
        raise FileError(f"{filename(path)}: expected the columns SM, Min(ms), Max(ms), Power(W): {error}") from None
    if counts != list(range(1, units + 1)):
        raise FileError(f"{filename(path)}: expected a row for each of 1 to {units} SMs")
    wrong = next((line for line, (most, least) in enumerate(pairs, 2) if not 0 < least <= most), None)
    if wrong:
        raise FileError(f"{filename(path)}:{wrong}: expected 0 < Min(ms) <= Max(ms)")
    energies = tuple(power * most for power, (most, _) in zip(powers, pairs, strict=True))
    return tuple(most for most, _ in pairs), tuple(least for _, least in pairs), energies


def _ns(ms: str) -> int:
    exact = Decimal(ms) * UNITS["ms"]
    if not exact.is_finite() or exact != int(exact):
        raise ValueError(f"{ms!r:.40} ms is no whole number of ns")
    return int(exact)
