# SPDX-License-Identifier: GPL-2.0
"""A test's bounds against every schedule of a small taskset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attack_outcome import limits_of, named

from analysis.attack.exact import MAX_EXACT_STATES, exact_ways, explore, prioritised
from analysis.model import Taskset
from analysis.rta import Test


@dataclass(frozen=True)
class Compared:
    """The bounds of a test, and the exact worst cases of the same system, by task, and by chain and key.

    ``states``: looked at.
    """

    taskset: Taskset
    bounds: Mapping[str, int]
    exact: Mapping[str, int]
    states: int

    @property
    def broken(self) -> str | None:
        """A task, or a chain's time, that is longer than its bound."""
        return next((name for name, bound in self.bounds.items() if self.exact[name] > bound), None)


def compare(test: Test, taskset: Taskset, states: int = MAX_EXACT_STATES, finer: int = 1) -> Compared | None:
    """A test's bounds against every schedule; None if it does not bound every task.

    A schedule is not followed beyond a response longer than its bound.  Raises as explore().
    """
    taskset = prioritised(test, taskset)
    result = test.run(taskset)
    bounds = {t.name: wcrt for t in taskset.real_time if (wcrt := result.wcrt(t.name)) is not None}
    if not result.schedulable or not bounds:
        return None
    chains = limits_of(taskset, result)
    bounds |= named(chains)
    exact: dict[str, int] = dict.fromkeys(bounds, 0)
    looked = 0
    for options in exact_ways(test, taskset):
        found = explore(
            taskset, options, bounds, states, chains, periodic=test.periodic, stop=True, finer=finer
        )  # fmt: skip
        looked += found.states
        seen = {**found.worst, **named(found.chains)}
        exact = {name: max(before, seen[name]) for name, before in exact.items()}
        if found.late:
            break
    return Compared(taskset, bounds, exact, looked)
