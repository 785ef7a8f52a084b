# SPDX-License-Identifier: GPL-2.0
"""How much the times of a taskset may grow: the document of `gpurt margins`, also a part of `gpurt report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from analysis.answers import compiled
from analysis.answers.beside import Beside
from analysis.answers.chosen import beside_of, covering_test
from analysis.answers.periods import Period, own_periods, periods
from analysis.answers.sensitivity import MAX_TASKS_SEARCHED, Margin, epsilon_budget, margin_steps, time_margins
from analysis.answers.verdict import beyond
from analysis.chains.bounds import Bounded, bound_of
from analysis.model import Taskset
from analysis.rta import Test
from gpurt.errors import TooLargeError
from gpurt.types import Document


class Bar(Protocol):
    """A display of the progress of a search."""

    def update(self, n_steps: int) -> None:
        """Adds to the number of steps done."""

    def reach(self, done: int) -> None:
        """Sets the total number of steps done."""


#: Starts the display of a search, from its number of steps and a title.
Show = Callable[[int, str], AbstractContextManager[Bar]]


@dataclass(frozen=True)
class Growth:
    """How much times may grow under a test; the test is None if no test applies.

    ``why``: why nothing is proved for the present times.  ``failing``: why the test fails for them; empty if it passes.
    ``epsilon``: the largest that passes, ns; None if none passes, or if the test does not depend on it.  ``chains``:
    the chains whose limits fail although every task is in time.
    """

    test: Test | None
    why: str
    notes: Sequence[str]
    failing: str = ""
    margins: Sequence[Margin] = ()
    epsilon: int | None = None
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
            "most_epsilon_ns": self.epsilon, "notes": self.notes, **self.beside.data(),
        }  # fmt: skip


#: Called at Ctrl-C with the margins found so far.
Told = Callable[[Test, Sequence[Margin]], None]


def growth(
    taskset: Taskset, name: str | None, show: Show, own: bool = True, interrupted: Told | None = None,
) -> Growth:  # fmt: skip
    """How much times may grow.  ``own``: search the times and periods of single tasks, too.

    ``name``: the test; None: the test on which the verdict on the taskset rests.  Raises UsageError if there is no such
    test, TooLargeError if the taskset has more tasks than are searched.
    """
    test, why, notes = covering_test(taskset, name)
    if test is None or not taskset.real_time:
        return Growth(None, why, notes, beside=beside_of(taskset, None, why, name, "margins"))
    if own and len(taskset) > MAX_TASKS_SEARCHED:
        most = f"files of at most {MAX_TASKS_SEARCHED} tasks"
        raise TooLargeError(f"gpurt margins searches {most}; this one has {len(taskset)}")
    result = compiled.run_compiled(test, taskset)
    more = result.why or beyond(test, taskset, result)
    why = why or more
    with show(margin_steps(taskset) + len(own_periods(taskset)) * own, f"runs of {test.name}") as bar:
        found = _margins(test, taskset, bar, own, interrupted)
        moved = list(periods(test, taskset, bar.update)) if own else []
        epsilon = None if test.rules.units else epsilon_budget(test, taskset, bar.update)
    known = beside_of(taskset, test, why, name, "margins")
    bounded = [bound_of(chain, taskset, result) for chain in taskset.chains] if result.schedulable else []
    failed = [one for one in bounded if one.objection]
    return Growth(test, why, notes, more, found, epsilon, failed, moved, known)


def _margins(test: Test, taskset: Taskset, bar: Bar, own: bool, interrupted: Told | None) -> list[Margin]:
    found: list[Margin] = []
    try:
        for one in time_margins(test, taskset, bar.update, own):
            found.append(one)  # counts even if the next search is interrupted
    except KeyboardInterrupt:
        if interrupted:
            interrupted(test, found)
        raise
    return found
