# SPDX-License-Identifier: GPL-2.0
"""The figures of sBEET and sBEET-mg that simulation repeats with published profiles (docs/experiments/energy)."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.energy.generate import Draw
from analysis.energy.model import Gpu
from analysis.energy.policies import Options
from analysis.energy.published import RTX, T400, gpu
from analysis.energy.setup import CHOSEN
from analysis.model import MS

SECOND = 1000 * MS


@dataclass(frozen=True)
class Curve:
    """A policy with its choices, under a label."""

    label: str
    policy: str
    options: Options = CHOSEN


@dataclass(frozen=True)
class Experiment:
    """``panels``: by name, the points along ``axis``.  ``light``: only light tasks' misses count (figure 2.9).

    ``base``: the curve that the others are compared with, taskset by taskset.
    """

    name: str
    source: str
    title: str
    axis: str
    horizon: int
    panels: tuple[tuple[str, tuple[Draw, ...]], ...]
    curves: tuple[Curve, ...]
    base: str
    light: bool = False

    @property
    def points(self) -> list[tuple[str, Draw]]:
        """All points with their panels."""
        return [(panel, draw) for panel, draws in self.panels for draw in draws]


ACTIVE = Options(active=True)
FIVE = (
    Curve("sbeet-mg", "sbeet-mg"), Curve("mg-offline", "mg-offline"), Curve("ld", "ld"), Curve("bcf", "bcf"),
    Curve("lcf", "lcf"),
)  # fmt: skip
OURS = (
    Curve("sbeet-mg, active", "sbeet-mg", ACTIVE), Curve("sbeet-mg, opt", "sbeet-mg", Options(at_best=True)),
    Curve("sbeet-mg, hold job", "sbeet-mg", Options(hold_job=True)),
)  # fmt: skip
PACKED = tuple(Curve(name, name) for name in ("ffd-sbeet", "bfd-sbeet", "wfd-sbeet"))
SINGLE = (
    Curve("sbeet", "sbeet"), Curve("sbeet, active", "sbeet", ACTIVE), Curve("fcfs", "fcfs"), Curve("rm", "rm"),
    Curve("edf", "edf"), Curve("stgm", "stgm"),
)  # fmt: skip
CHAPTER3 = tuple(step / 10 for step in range(8, 21, 2))
CHAPTER2 = tuple(step / 10 for step in range(2, 21, 2))


def _mg(xs: tuple[float, ...], *gpus: Gpu) -> tuple[Draw, ...]:
    return tuple(Draw("uunifast", x, gpus, (RTX, 24), halved=True) for x in xs)


def _single(kind: str, xs: tuple[float, ...], what: str) -> tuple[Draw, ...]:
    device = gpu(kind, kind)
    return tuple(Draw(what, x, (device,), (kind, device.limit)) for x in xs)


def _alone(what: str, xs: tuple[float, ...]) -> tuple[tuple[str, tuple[Draw, ...]], ...]:
    """The Xavier's profiles are not published: both GPUs that are stand in for it, each alone."""
    return tuple((f"{kind} alone", _single(kind, xs, what)) for kind in (T400, RTX))


_PAIRS = tuple((f"L = {limit}", _mg(CHAPTER3, gpu(RTX, RTX, limit), gpu(T400, T400))) for limit in (6, 12, 24))
_THREE = _mg(CHAPTER3, gpu(RTX, "rtx-a", 12), gpu(RTX, "rtx-b", 12), gpu(T400, T400))
_LISTED = (
    Experiment("sbeet-fig2.8", "sBEET figure 2.8", "Misses and energy by utilization", "utilization (mean over SMs)",
               10 * SECOND, _alone("uunifast", CHAPTER2), SINGLE, "sbeet"),
    Experiment("sbeet-fig2.9", "sBEET figure 2.9", "Misses of light tasks by the share of heavy ones", "share of heavy",
               10 * SECOND, _alone("shares", tuple(step / 10 for step in range(10))), SINGLE, "sbeet", light=True),
    Experiment("sbeet-fig2.10", "sBEET figure 2.10", "Energy of tasksets that STGM accepts", "number of tasks",
               10 * SECOND, _alone("stgm", (2, 3, 4, 5)), SINGLE, "sbeet"),
    Experiment("mg-fig3.7", "sBEET-mg figures 3.7 and 3.8", "Misses and energy on two GPUs", "utilization (mean, RTX)",
               15 * SECOND, _PAIRS, (*FIVE, *OURS), "sbeet-mg"),
    Experiment("mg-fig3.10", "sBEET-mg figure 3.10", "Distribution by packing", "utilization (mean, RTX)",
               15 * SECOND, _PAIRS[2:], (FIVE[0], *PACKED), "sbeet-mg"),
    Experiment("mg-fig3.13", "sBEET-mg figure 3.13", "Misses and energy on three GPUs", "utilization (mean, RTX)",
               15 * SECOND, (("12 + 12 + 6", _THREE),), (*FIVE, *OURS), "sbeet-mg"),
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _LISTED}
