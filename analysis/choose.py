# SPDX-License-Identifier: GPL-2.0
"""The choice of policy and waiting mode for a taskset: what makes it schedulable with the most slack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from analysis import rta
from analysis.model import Taskset, Waiting
from analysis.rta import Bound, Result, Test

#: What the module and the hosts implement; MPCP and FMLP+ need boosting, which they do not.
SHIPPED = ("segment", "job", "lock-priority", "lock-fifo", "timesliced")


@dataclass(frozen=True)
class Choice:
    """One way to run the taskset, and what its test says.

    ``slack``: the least (D - R) / D of all real-time tasks, None if a task has no bound.  ``priorities``: the GPU
    priorities that it needs, empty if those of the file will do.
    """

    test: str
    policy: str
    waiting: Waiting
    result: Result
    slack: Fraction | None
    priorities: Mapping[str, int]

    @property
    def schedulable(self) -> bool:
        """Whether every real-time task has a bound within its deadline."""
        return self.slack is not None


def choices(taskset: Taskset) -> list[Choice]:
    """Every way that ships, the one with the most slack first; of equals the one that is earlier in the registry.

    A way whose test assigns GPU priorities is listed only where the file's own fail and others pass.
    """
    found = [_choice(test, taskset) for test in rta.TESTS.values() if _eligible(test)]
    kept = [c for c in found if c is not None]
    return sorted(kept, key=lambda c: -1 if c.slack is None else c.slack, reverse=True)


def choose(taskset: Taskset) -> Choice | None:
    """The best way to run the taskset; None if no test passes."""
    best = next(iter(choices(taskset)), None)
    return best if best is not None and best.schedulable else None


def _eligible(test: Test) -> bool:
    """Sound for sporadic releases, and of a policy that ships."""
    return test.sound and not test.periodic and test.policy in SHIPPED


def _choice(test: Test, taskset: Taskset) -> Choice | None:
    priorities: Mapping[str, int] = {}
    if test.assigns:
        if rta.find(test.name.removesuffix(rta.SUFFIX)).run(taskset).schedulable:
            return None
        try:
            priorities = test.assign(taskset).priorities or {}
        except ValueError:
            return None
        if not priorities:
            return None
    result = test.run(taskset)
    return Choice(test.name, test.policy, test.waiting, result, slack(result), priorities)


def slack(result: Result) -> Fraction | None:
    """The least (D - R) / D over the tasks with a deadline; 1 if there are none, None if one has no bound."""
    if not result.schedulable:
        return None
    bounds = [v for v in result.verdicts.values() if isinstance(v, Bound)]
    return min((Fraction(v.slack, v.deadline) for v in bounds), default=Fraction(1))
