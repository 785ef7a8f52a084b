# SPDX-License-Identifier: GPL-2.0
"""Small synthetic folders in the format of sBEET-mg's authors."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

HEADER = "SM,Average(ms),Min(ms),Max(ms),Power(W),energy,energy_in_window"
#: By GPU: SMs, static power, idle power of one SM, W.
GPUS = {"big": (6, Decimal(30), Decimal("0.5")), "little": (2, Decimal(8), Decimal("0.25"))}
#: By benchmark: the time on one SM, ms, and the power of one SM, W.
BENCHMARKS = {"alpha": (Decimal(60), Decimal(2)), "beta": (Decimal("90.6"), Decimal("1.5"))}


def line(gpu: str, benchmark: str, units: int, window: Decimal = Decimal(19)) -> str:
    """A line that obeys the model exactly; ``window``: the static energy of all GPUs in their window, J."""
    (most, static, idle), (work, power) = GPUS[gpu], BENCHMARKS[benchmark]
    time = (work / units).quantize(Decimal("0.001"))
    watts = static + units * power + (most - units) * idle
    energy = time / 1000 * watts
    return f"{units},{time},{time - Decimal('0.004')},{time},{watts},{energy},{energy + window - static * time / 1000}"


def folder(root: Path) -> Path:
    """gpu_big/ and gpu_little/ with a file for each benchmark; the last line has no line break, as the authors'."""
    for gpu, (most, *_) in GPUS.items():
        for benchmark in BENCHMARKS:
            path = root / f"gpu_{gpu}" / f"{benchmark}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([HEADER, *(line(gpu, benchmark, units) for units in range(1, most + 1))]))
    return root
