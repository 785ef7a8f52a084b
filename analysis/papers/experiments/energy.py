# SPDX-License-Identifier: GPL-2.0
"""The figures of sBEET and sBEET-mg that simulation repeats with published profiles (docs/experiments/energy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analysis.energy import compiled
from analysis.energy.outcome import EnergyOutcome, EnergyRun
from analysis.energy.policies import POLICIES, Readings
from analysis.energy.setup import CHOSEN, prepare_tables
from analysis.model import MS
from analysis.model.energy import MJ, SpatialGpu, SpatialSystem
from analysis.papers.energy import published
from analysis.papers.energy.generate import HEAVY, Draw, system
from analysis.papers.energy.published import RTX, T400, gpu
from analysis.papers.energy.statistics import Bootstrap, Interval
from analysis.papers.experiments.plan import Experiment, Panel, Results, Settings
from analysis.papers.experiments.rows import Row
from gpurt.types import Document

SECOND = 1000 * MS
#: For each taskset and curve: judged, missed, energy and active energy in mJ.
Numbers: TypeAlias = "list[list[list[float]]]"
#: The measures of a row, each with the ends of its interval; other keys: panel, x, curve, base and tasksets.
ROW_MEASURES = (
    "missed_percent", "less_missed_percent", "energy_j", "active_j", "active_less_j", "job_mj", "job_less_mj",
)  # fmt: skip


@dataclass(frozen=True)
class Contender:
    """A policy with its choices, under a label.  ``base``: the curve to compare with; empty: the experiment's base."""

    label: str
    policy: str
    options: Readings = CHOSEN
    base: str = ""


@dataclass(frozen=True)
class EnergyExperiment(Experiment[Draw, Numbers]):
    """``light``: only misses of light tasks count (figure 2.9).  ``horizon``: the length of each run, ns.

    ``base``: the curve with which the others are compared, taskset by taskset.  ``complete``: each run goes on until
    all jobs released before its horizon are done or skipped.
    """

    horizon: int
    curves: tuple[Contender, ...]
    base: str
    light: bool = False
    complete: bool = False

    piece: ClassVar[int] = 20

    @property
    def labels(self) -> list[str]:
        """The labels of all curves."""
        return [curve.label for curve in self.curves]

    def evaluate(self, point: Draw, settings: Settings, start: int, count: int) -> Numbers:
        """A list for each taskset, with the numbers of each curve.  Raises FileError if there are no profiles."""
        assert settings.profiles is not None
        profiles = published.load_published(settings.profiles)
        found, run = [], EnergyRun(self.horizon, complete=self.complete)
        for index in range(start, start + count):
            one = system(point, profiles, settings.seed, index)
            setups = (prepare_tables(one, POLICIES[curve.policy], curve.options) for curve in self.curves)
            found.append([self._numbers(one, compiled.simulate_compiled(setup, run)) for setup in setups])
        return found

    def _numbers(self, one: SpatialSystem, outcome: EnergyOutcome) -> list[float]:
        pairs = zip(one.tasks, outcome.tasks, strict=True)
        counted = [count for task, count in pairs if not (self.light and task.profile in HEAVY)]
        energy = outcome.energy
        return [sum(count.judged for count in counted), sum(count.missed for count in counted), energy.total / MJ,
                energy.active / MJ]  # fmt: skip

    def rows(self, results: Results[Numbers], settings: Settings) -> list[Row]:
        """A row for each point and curve.

        ``missed_percent``: missed of judged jobs.  ``energy_j`` and ``active_j``: means a taskset.
        ``less_missed_percent`` and ``active_less_j``: these minus the base curve's on the same tasksets. ``job_mj``:
        active energy for each job in time.  ``job_less_mj``: that energy minus the base curve's.  Each has the ends of
        its 95 % interval.
        """
        bootstrap = Bootstrap(settings.tasksets, settings.seed)
        found: list[Row] = []
        for panel, points in zip(self.panels, results, strict=True):
            for (x, _), pieces in zip(panel.points, points, strict=True):
                data: NDArray[np.float64] = np.array([one for piece in pieces for one in piece], dtype=np.float64)
                for index, curve in enumerate(self.curves):
                    base = curve.base or self.base
                    numbers = _measures(bootstrap, data[:, index, :], data[:, self.labels.index(base), :])
                    found.append({"panel": panel.key, "x": x, "curve": curve.label, "base": base,
                                  "tasksets": len(data), **numbers})  # fmt: skip
        return found

    def draw(self, rows: Sequence[Row], folder: Path, form: str) -> list[Path]:
        """One picture of misses and energy."""
        from analysis.papers.experiments.pictures import draw_energy

        path = folder / f"{self.name}.{form}"
        draw_energy(self, rows, path)
        return [path]


def _measures(bootstrap: Bootstrap, data: NDArray[np.float64], reference: NDArray[np.float64]) -> Document:
    ones = np.ones(len(data))
    judged, missed, energy, active = data.T
    done, done_there = judged - missed, reference[:, 0] - reference[:, 1]
    measures = (
        bootstrap.ratio(missed, judged).scaled(100),
        bootstrap.difference(missed, judged, reference[:, 1], reference[:, 0]).scaled(100),
        bootstrap.ratio(energy, ones).scaled(1e-3), bootstrap.ratio(active, ones).scaled(1e-3),
        bootstrap.difference(active, ones, reference[:, 3], ones).scaled(1e-3), bootstrap.ratio(active, done),
        bootstrap.difference(active, done, reference[:, 3], done_there),
    )  # fmt: skip
    return {key: value for name, one in zip(ROW_MEASURES, measures, strict=True) for key, value in _cells(name, one)}


def _cells(name: str, one: Interval) -> list[tuple[str, float]]:
    ends = (("", one.value), ("_low", one.low), ("_high", one.high))
    return [(f"{name}{end}", round(value, 4)) for end, value in ends]


ACTIVE = Readings(active=True)
#: Readings of the power of copies and of m^opt; policies are compared under the same reading.
READINGS = {"copies": Readings(copies=True), "measured": Readings(measured=True),
            "both": Readings(copies=True, measured=True)}  # fmt: skip
FIVE = (
    Contender("sbeet-mg", "sbeet-mg"), Contender("mg-offline", "mg-offline"), Contender("ld", "ld"),
    Contender("bcf", "bcf"), Contender("lcf", "lcf"),
)  # fmt: skip
BASE = FIVE[0].label
PRINTED = Contender("sbeet-mg, printed", "sbeet-mg", Readings(weigh=True))
READ = tuple(
    Contender(f"{policy}, {reading}", policy, options, f"{BASE}, {reading}")
    for reading, options in READINGS.items()
    for policy in (tuple(one.policy for one in FIVE) if options.copies else (BASE, "mg-offline"))
)  # fmt: skip
OURS = (
    PRINTED, *READ, Contender("sbeet-mg, active", BASE, ACTIVE),
    Contender("sbeet-mg, opt", BASE, Readings(at_best=True)),
    Contender("sbeet-mg, hold job", BASE, Readings(hold_job=True)),
)  # fmt: skip
PACKED = tuple(Contender(name, name) for name in ("mg-offline", "ffd-sbeet", "bfd-sbeet", "wfd-sbeet"))
READ_PACKED = tuple(
    Contender(f"{policy}, {reading}", policy, options, f"{BASE}, {reading}")
    for reading, options in READINGS.items() for policy in (BASE, "ffd-sbeet")
)  # fmt: skip
LATE = Readings(run_late=True)
#: Every job runs, late ones included, so that all policies do the same work.
ALL_JOBS = (
    Contender(BASE, BASE, LATE), Contender("mg-offline", "mg-offline", LATE), Contender("ld", "ld", LATE),
    Contender("bcf", "bcf", LATE),
)  # fmt: skip
SINGLE = (
    Contender("sbeet", "sbeet"), Contender("sbeet, active", "sbeet", ACTIVE), Contender("fcfs", "fcfs"),
    Contender("rm", "rm"), Contender("edf", "edf"), Contender("stgm", "stgm"),
)  # fmt: skip
CHAPTER3 = tuple(step / 10 for step in range(8, 21, 2))
CHAPTER2 = tuple(step / 10 for step in range(2, 21, 2))


SHORTER = 20
_MEAN = "utilization (mean over SMs)"


def _panel(key: str, axis: str, draws: Sequence[Draw]) -> Panel[Draw]:
    return Panel(key, axis, tuple((draw.x, draw) for draw in draws))


def _mg(key: str, *gpus: SpatialGpu) -> Panel[Draw]:
    draws = [Draw("uunifast", x, gpus, (RTX, 24), halved=True) for x in CHAPTER3]
    return _panel(key, "utilization (mean, RTX)", draws)


def _alone(kind: str, xs: Sequence[float], axis: str, shorter: int = 1) -> tuple[Panel[Draw], ...]:
    """The Xavier's profiles are not published: each of the two published GPUs stands in for it alone.

    ``shorter``: the divisor of the kernel times; chapter 2 has some kernels of little more than 100 us.
    """
    found, said = [], f", kernels / {shorter}" if shorter > 1 else ""
    for one in (gpu(name, name) for name in (T400, RTX)):
        draws = [Draw(kind, x, (one,), (one.kind, one.limit), shorter=shorter) for x in xs]
        found.append(_panel(f"{one.kind} alone{said}", axis, draws))
    return tuple(found)


_PAIRS = tuple(_mg(f"L = {limit}", gpu(RTX, RTX, limit), gpu(T400, T400)) for limit in (6, 12, 24))
#: Table 3.9.
_THREE = _mg("12 + 12 + 6", gpu(RTX, "rtx-a", 12), gpu(RTX, "rtx-b", 12), gpu(T400, T400))
EXPERIMENTS = [
    EnergyExperiment("sbeet-fig2.8", "Misses and energy by utilization", "sBEET figure 2.8",
                     _alone("uunifast", CHAPTER2, _MEAN) + _alone("uunifast", CHAPTER2, _MEAN, SHORTER), 10 * SECOND,
                     SINGLE, "sbeet"),
    EnergyExperiment("sbeet-fig2.9", "Misses of light tasks by the share of heavy ones", "sBEET figure 2.9",
                     _alone("shares", [step / 10 for step in range(10)], "share of heavy"), 10 * SECOND, SINGLE,
                     "sbeet", light=True),
    EnergyExperiment("sbeet-fig2.10", "Energy of tasksets that STGM accepts", "sBEET figure 2.10",
                     _alone("stgm", (2, 3, 4, 5), "number of tasks"), 10 * SECOND, SINGLE, "sbeet"),
    EnergyExperiment("mg-fig3.7", "Misses and energy on two GPUs", "sBEET-mg figures 3.7 and 3.8", _PAIRS, 15 * SECOND,
                     (*FIVE, *OURS), "sbeet-mg"),
    EnergyExperiment("mg-fig3.10", "Distribution by packing", "sBEET-mg figure 3.10", _PAIRS[2:], 15 * SECOND,
                     (FIVE[0], PRINTED, *PACKED, *READ_PACKED), "sbeet-mg"),
    EnergyExperiment("mg-fig3.13", "Misses and energy on three GPUs", "sBEET-mg figure 3.13", (_THREE,), 15 * SECOND,
                     (*FIVE, *OURS), "sbeet-mg"),
    EnergyExperiment("mg-all-jobs", "Energy until every task has its jobs", "sBEET-mg figures 3.8 and 3.13",
                     (_PAIRS[2], _THREE), 5 * SECOND, ALL_JOBS, "sbeet-mg", complete=True),
]  # fmt: skip
