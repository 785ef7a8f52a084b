# SPDX-License-Identifier: GPL-2.0
"""The worked systems of sBEET and sBEET-mg, and others that tests share.  Times are given in ms, powers in W."""

from __future__ import annotations

from fractions import Fraction

from analysis.model import MS, Kernel
from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask

W = 1_000_000


def ns(ms: float | str) -> int:
    exact = Fraction(str(ms)) * MS
    assert exact.denominator == 1
    return int(exact)


def watts(w: float | str) -> int:
    exact = Fraction(str(w)) * W
    assert exact.denominator == 1
    return int(exact)


def kernel(times: Kernel | tuple[int, ...], power: float, copy_in: float = 0, copy_out: float = 0) -> PoweredKernel:
    table = times if isinstance(times, Kernel) else Kernel.table(times)
    return PoweredKernel(table, watts(power), ns(copy_in), ns(copy_out))


def task(name: str, period: float, deadline: float, offset: float, *kernels: PoweredKernel) -> SpatialTask:
    return SpatialTask(name, ns(period), ns(deadline), kernels, ns(offset), name)


def example5(periods: tuple[float, ...] = (100, 100, 100)) -> SpatialSystem:
    """Section 2.4, example 5: four units, linear kernels, copies of 1 ms."""
    gpu = SpatialGpu("gpu", 4, 4, W, watts("0.25"))
    jobs = [(24, 14, 0), (4, 7, 1), (4, 10, 2)]
    return SpatialSystem((gpu,), tuple(
        task(f"t{i + 1}", period, deadline, offset, kernel(Kernel.saturating(ns(work), 4), 1, 1, 1))
        for i, ((work, deadline, offset), period) in enumerate(zip(jobs, periods, strict=True))
    ))  # fmt: skip


TOY = [
    # name, work and saturation on big and little, power on both, period, offset
    ("a", 480, 12, 960, 6, 3.8, 2.0, 120, 0),
    ("b", 96, 4, 180, 6, 0.9, 1.2, 60, 1),
    ("c", 360, 12, 420, 6, 1.1, 0.8, 150, 2),
    ("d", 60, 8, 120, 6, 1.0, 1.0, 40, 3),
]


def toy(little: bool = True) -> SpatialSystem:
    """The specification's toy system, section 6.6; D = T."""
    gpus = (SpatialGpu("big", 12, 12, 46 * W, watts("0.4")), SpatialGpu("little", 6, 6, 8 * W, watts("0.65")))[
        : 2 if little else 1
    ]
    tasks = []
    for name, work, sat, work_l, sat_l, pd, pd_l, period, offset in TOY:
        both = (
            kernel(Kernel.saturating(ns(work), sat), pd, 1, 1),
            kernel(Kernel.saturating(ns(work_l), sat_l), pd_l, 2, 1),
        )
        tasks.append(task(name, period, period, offset, *both[: len(gpus)]))
    return SpatialSystem(gpus, tuple(tasks))


def analogue() -> SpatialSystem:
    """An analogue of case study 1 (specification, section 6.4): algorithm 5 takes lines 17, 28 and 37."""
    gpus = (SpatialGpu("big", 12, 12, 46 * W, watts("0.4")), SpatialGpu("little", 6, 6, 8 * W, watts("0.65")))
    one = (*(-(-ns(320) // m) for m in range(1, 9)), ns(40), ns(40), ns(40), ns(34))
    two = tuple([-(-ns(120) // m) for m in range(1, 5)] + [ns(30)] * 8)
    three = Kernel.saturating(ns(60), 12)
    small = [Kernel.saturating(ns(work), 6) for work in (600, 240, 120)]
    return SpatialSystem(gpus, tuple(
        task(f"J{i + 1}", period, period / 2, i, kernel(big, 1), kernel(little, 1))
        for i, (big, little, period) in enumerate(zip((one, two, three), small, (120, 90, 80), strict=True))
    ))  # fmt: skip


def anomaly() -> SpatialSystem:
    """Early completion makes another task miss (specification, section 2.5); B's best case of A is 2 ms."""
    gpu = SpatialGpu("gpu", 4, 4, W, watts("0.25"))
    jobs = [("A", 24, 8, 0), ("B", 40, 30, 0), ("C", 4, "1.5", "5.5")]
    return SpatialSystem((gpu,), tuple(
        SpatialTask(name, ns(100), ns(deadline), (kernel(Kernel.saturating(ns(work), 4), 1),), ns(offset), name)
        for name, work, deadline, offset in jobs
    ))  # fmt: skip
