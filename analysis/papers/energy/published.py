# SPDX-License-Identifier: GPL-2.0
"""The profiles that sBEET-mg's authors measured, read from their folder; they do not come with gpurt (no licence).

The folder has gpu_rtx3070/ and gpu_t400/ with a file for each benchmark: SM, Average(ms), Min(ms), Max(ms), and more.
Times are their maxima, measured energies their power less the static one times those.  Powers
are table 3.2's and copy times those of the authors' code (facts, cited).
"""

from __future__ import annotations

from pathlib import Path

from analysis.model import Kernel
from analysis.model.energy import PoweredKernel, Profile, SpatialGpu
from analysis.papers.energy.authors import lines_of
from gpurt.errors import FileError
from gpurt.text import filename
from gpurt.units import UNITS

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


def gpu(kind: str, name: str, limit: int | None = None) -> SpatialGpu:
    """One of the two GPUs, with at most ``limit`` units for jobs."""
    units, static, idle = GPUS[kind]
    return SpatialGpu(name, units, limit or units, static, idle, kind=kind)


def load(folder: Path) -> dict[str, Profile]:
    """The eight benchmarks by name.  Raises FileError if a file is missing or is not what it should be."""
    found = {}
    for name, facts in FACTS.items():
        pairs = zip((RTX, T400), facts, strict=True)
        found[name] = Profile(name, {kind: _kernel(folder, name, kind, *own) for kind, own in pairs})
    return found


def _kernel(folder: Path, name: str, kind: str, power: int, copy_in: int, copy_out: int) -> PoweredKernel:
    path, (units, static, _) = folder / f"gpu_{kind}" / f"{name}.csv", GPUS[kind]
    lines = lines_of(path)
    if len(lines) != units:
        raise FileError(f"{filename(path)}: expected a row for each of 1 to {units} SMs, got {len(lines)}")
    energies = tuple((one.power - static) * one.worst for one in lines)
    times = Kernel.measured([one.span for one in lines])
    return PoweredKernel(times, power, copy_in * UNITS["us"], copy_out * UNITS["us"], energies)
