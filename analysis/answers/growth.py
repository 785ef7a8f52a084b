# SPDX-License-Identifier: GPL-2.0
"""How much the times of a taskset may grow: the document of `gpurt margins`; `gpurt report` has a part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from analysis.answers import compiled
from analysis.answers import units as units
from analysis.answers.beside import Beside
from analysis.answers.chosen import beside_of, covering_test
from analysis.answers.periods import Period, own_periods, periods
from analysis.answers.sensitivity import MAX_TASKS_SEARCHED, Margin, epsilon_budgets, margin_steps, time_margins
from analysis.answers.units import PassingLimits
from analysis.answers.verdict import beyond
from analysis.chains.bounds import Bounded, bound_of
from analysis.model import Taskset
from analysis.rta import Test
from analysis.rtgpu.method import METHODS
from gpurt.errors import TooLargeError, UsageError
from gpurt.types import Document


class Bar(Protocol):
    """A display of how far a search is."""

    def update(self, n_steps: int) -> None:
        """Counts more steps as done."""

    def reach(self, done: int) -> None:
        """Sets how many steps are done in all."""


#: Begins to show a search, by the number of its steps and a title.
Show = Callable[[int, str], AbstractContextManager[Bar]]


@dataclass(frozen=True)
class Growth:
    """How much times may grow under a test; the test is None if no test applies.

    ``why``: why nothing is proved as it is.  ``failing``: why the test fails as it is; empty: it passes.  ``hardware``:
    factors of all times except epsilon, by name.  ``budgets``: the largest epsilon on each, ns.  ``limits``: what else
    may change where tasks own units.  ``chains``: those whose limits fail although every task is in time.
    """

    test: Test | None
    why: str
    notes: Sequence[str]
    failing: str = ""
    margins: Sequence[Margin] = ()
    hardware: Mapping[str, Fraction] = field(default_factory=dict)
    budgets: Mapping[str, int | None] = field(default_factory=dict)
    limits: PassingLimits | None = None
    chains: Sequence[Bounded] = ()
    periods: Sequence[Period] = ()
    beside: Beside = field(default_factory=Beside)

    def data(self, file: Path) -> Document:
        """The document."""
        return {
            "file": file, "test": self.test.name if self.test else None,
            "sound": self.test.sound if self.test else None, "schedulable": not self.why, "why": self.why or None,
            "margins": [{"what": one.what, "task": one.task, "now_ns": one.now or None, "most_ns": one.most,
                         "factor": one.factor} for one in self.margins],
            "periods": [{"task": one.task, "now_ns": one.now, "least_ns": one.least, "most_ns": one.most,
                         "factor": one.factor} for one in self.periods],
            "hardware": [{"name": name, "factor": factor, "most_epsilon_ns": self.budgets[name]}
                         for name, factor in self.hardware.items()],
            "limits": self.limits and _limits(self.limits), "notes": self.notes, **self.beside.data(),
        }  # fmt: skip


#: Why the other limits of tasks that own units are not searched.
CHAINED = (
    "the file limits chains, which no search for limits of units judges: how few units the tasks can do with, and how "
    "much interleaving, overhead and copies they bear, is not known"
)
#: Told at Ctrl-C of the margins that were found until then.
Told = Callable[[Test, Sequence[Margin]], None]


def growth(
    taskset: Taskset, name: str | None, show: Show, clocks: Sequence[str] = (), own: bool = True,
    interrupted: Told | None = None,
) -> Growth:  # fmt: skip
    """How much may grow.  ``own``: the times and periods of single tasks, too.

    ``name``: the test; None: the one that the verdict on the taskset rests on.  ``clocks``: hardware such as
    "orin=0.6".  Raises UsageError if there is no such test, for a wrong clock, or for clocks that make no difference.
    Raises TooLargeError for more tasks than are searched.
    """
    hardware = _hardware(clocks)
    test, why, notes = covering_test(taskset, name)
    units_owned = test is not None and test.rules.units
    if clocks and test is not None and units_owned:
        raise UsageError(f"--clock: what is searched for is the largest epsilon, which {test.name} does not depend on")
    if test is None or not taskset.real_time:
        return Growth(None, why, notes, beside=beside_of(taskset, None, why, name, "margins"))
    if own and len(taskset) > MAX_TASKS_SEARCHED:
        most = f"files of at most {MAX_TASKS_SEARCHED} tasks"
        raise TooLargeError(f"gpurt margins searches {most}; this one has {len(taskset)}")
    result = compiled.run_compiled(test, taskset)
    more = result.why or beyond(test, taskset, result)
    why = why or more
    hardware = {} if units_owned else hardware
    with show(margin_steps(taskset, len(hardware)) + len(own_periods(taskset)) * own, f"runs of {test.name}") as bar:
        found = _margins(test, taskset, bar, own, interrupted)
        moved = list(periods(test, taskset, bar.update)) if own else []
        budgets = epsilon_budgets(test, taskset, hardware, bar.update)
    chained = any(chain.limits for chain in taskset.chains)
    notes = [*notes, CHAINED] if units_owned and chained else notes
    limits = _searched(test.name, taskset, show) if units_owned and not chained else None
    known = beside_of(taskset, test, why, name, "margins")
    bounded = [bound_of(chain, taskset, result) for chain in taskset.chains] if result.schedulable else []
    failed = [one for one in bounded if one.objection]
    return Growth(test, why, notes, more, found, hardware, budgets, limits, failed, moved, known)


def _margins(test: Test, taskset: Taskset, bar: Bar, own: bool, interrupted: Told | None) -> list[Margin]:
    found: list[Margin] = []
    try:
        for one in time_margins(test, taskset, bar.update, own):
            found.append(one)  # what is found counts if the next search is interrupted
    except KeyboardInterrupt:
        if interrupted:
            interrupted(test, found)
        raise
    return found


def _searched(name: str, taskset: Taskset, show: Show) -> PassingLimits:
    """The limits of what else may change where tasks own units of the GPU."""
    total = units.effort(taskset)
    with show(total, "searching limits") as bar:
        found = units.limits(METHODS[name], taskset, bar.update)
        bar.reach(total)
    return found


def _limits(found: PassingLimits) -> Document:
    return {
        "units": found.units, "interleave_factor": _number(found.interleave),
        "overhead_factor": _number(found.overhead), "copies_factor": _number(found.copies), "chunk_ns": found.chunk,
    }  # fmt: skip


def _number(found: Fraction | None) -> float | None:
    return None if found is None else float(found)


def _hardware(clocks: Sequence[str]) -> dict[str, Fraction]:
    """The factor of each hardware by its name.  Raises UsageError."""
    found = {"this one": Fraction(1)}
    for name, factor in map(_clock, clocks):
        if name in found:
            raise UsageError(f"--clock: {name!r} is named twice")
        found[name] = factor
    return found


def _clock(text: str) -> tuple[str, Fraction]:
    """A name and a factor such as "orin=0.6"."""
    name, _, factor = text.partition("=")
    try:
        value = Fraction(factor)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not name or not 0 < value <= 1000:
        raise UsageError(f"--clock: expected a name and a factor up to 1000, such as orin=0.6, got {text[:40]!r}")
    return name, value
