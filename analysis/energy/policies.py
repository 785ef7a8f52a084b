# SPDX-License-Identifier: GPL-2.0
"""The schedulers by name, and the choices that the papers leave open (docs/readings.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpurt._gpurt import lib


class UnitsRule(Enum):
    """The rule by which a job gets units; the numbers are those of userlib/units/sbeet.h."""

    WHOLE = lib.GPURT_SBEET_WHOLE
    STATIC = lib.GPURT_SBEET_STATIC
    ALLOCATE = lib.GPURT_SBEET_ALLOCATE
    MIGRATE = lib.GPURT_SBEET_MIGRATE
    EXACT = lib.GPURT_SBEET_EXACT
    BIG = lib.GPURT_SBEET_BIG
    SMALL = lib.GPURT_SBEET_SMALL
    FREE = lib.GPURT_SBEET_FREE


class Order(Enum):
    """The order of the ready queue; ties by release, then by the file's order."""

    EDF = lib.GPURT_SBEET_EDF
    RM = lib.GPURT_SBEET_RM
    FIFO = lib.GPURT_SBEET_FIFO


@dataclass(frozen=True)
class UnitsPolicy:
    """A scheduler.  ``packing``: how tasks are assigned to GPUs; empty: algorithm 4.  ``single``: for one GPU only."""

    name: str
    rule: UnitsRule
    order: Order
    about: str
    packing: str = ""
    single: bool = False


_LISTED = (
    UnitsPolicy("sbeet", UnitsRule.ALLOCATE, Order.EDF, "algorithms 1 to 3, ready queue by deadline", single=True),
    UnitsPolicy("sbeet-mg", UnitsRule.MIGRATE, Order.RM, "algorithms 4 and 5"),
    UnitsPolicy("mg-offline", UnitsRule.EXACT, Order.RM, "algorithm 4, then m^opt units or none"),
    UnitsPolicy("fcfs", UnitsRule.WHOLE, Order.FIFO, "one job at a time on the whole GPU, by release", single=True),
    UnitsPolicy("rm", UnitsRule.WHOLE, Order.RM, "one job at a time on the whole GPU, by period", single=True),
    UnitsPolicy("edf", UnitsRule.WHOLE, Order.EDF, "one job at a time on the whole GPU, by deadline", single=True),
    UnitsPolicy(
        "stgm", UnitsRule.STATIC, Order.RM, "fixed units for each task; our reading, not a golden one", single=True
    ),
    UnitsPolicy("lcf", UnitsRule.SMALL, Order.RM, "the smallest GPU that is not full"),
    UnitsPolicy("bcf", UnitsRule.BIG, Order.RM, "the biggest GPU that is not full"),
    UnitsPolicy("ld", UnitsRule.FREE, Order.RM, "an idle GPU, else that with most free units"),
    UnitsPolicy("ffd-sbeet", UnitsRule.ALLOCATE, Order.RM, "first fit decreasing, then algorithm 2", "first"),
    UnitsPolicy("bfd-sbeet", UnitsRule.ALLOCATE, Order.RM, "best fit decreasing, then algorithm 2", "best"),
    UnitsPolicy("wfd-sbeet", UnitsRule.ALLOCATE, Order.RM, "worst fit decreasing, then algorithm 2", "worst"),
)
POLICIES: dict[str, UnitsPolicy] = {policy.name: policy for policy in _LISTED}


@dataclass(frozen=True)
class Readings:
    """The choices that the papers leave open; the defaults are the chosen readings.

    ``active``: compare active energies of complete schedules, not energies of windows that differ.  ``hold_job``: a job
    keeps its units until its copy out is done.  ``at_best``: algorithm 4 counts the utilization at m^opt, as printed in
    line 6.  ``run_late``: a job that is pending at its deadline still runs.

    ``weigh``: algorithm 5 compares energies before a job waits for its full GPU, as printed in lines 32 to 37;
    otherwise a job waits whenever this keeps its deadline.  ``copies``: units draw active power, and are held, from the
    dispatch to the end of the copy out.  ``measured``: m^opt and preferred GPUs by measured energies, not by the model.
    """

    active: bool = False
    hold_job: bool = False
    at_best: bool = False
    run_late: bool = False
    weigh: bool = False
    copies: bool = False
    measured: bool = False
