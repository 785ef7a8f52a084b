# SPDX-License-Identifier: GPL-2.0
"""The time of a single task that has to shrink least for a test to pass."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from analysis.answers import compiled
from analysis.answers.sensitivity import Grows, bisected, changed, own_times
from analysis.answers.verdict import proved
from analysis.model import Taskset
from analysis.rta import Test

#: With more times than these nothing is searched: each takes up to nine verdicts.
MOST_TIMES = 16
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Less:
    """A time of ``now`` ns that has to shrink to ``percent`` of itself; it is ``most`` ns then."""

    task: str
    what: Grows
    now: int
    percent: int

    @property
    def most(self) -> int:
        """The time that is left, ns."""
        return -(-self.now * self.percent // _WHOLE)


def least(test: Test, taskset: Taskset) -> Less | None:
    """The smallest change of a single time with which the test passes, in percent of that time.

    None if no single one suffices, or if that is not to be had with a few compiled verdicts.
    """
    times = own_times(taskset)
    served = taskset.threads and not compiled.serves(test)
    readable = bool(served or taskset.pending or taskset.platform.cpu_latency or taskset.resources or taskset.triggers)
    readable = readable or bool(taskset.forks)
    if len(times) > MOST_TIMES or readable or test.compiled is None:
        return None
    found: Less | None = None
    for name, what, now in times:
        more = found.percent + 1 if found else 0
        percent = bisected(partial(_passes, test, taskset, name, what), more, _WHOLE)
        if percent is not None and percent < _WHOLE:
            found = Less(name, what, now, percent)
    return found


def _passes(test: Test, taskset: Taskset, name: str, what: Grows, percent: int) -> bool:
    return proved(test, changed(taskset, name, what, Fraction(percent, _WHOLE)))
