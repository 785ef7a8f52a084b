# SPDX-License-Identifier: GPL-2.0
"""What a judge finds wrong in a running system, or in a trace of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Sort(str, Enum):
    """What a finding means.

    PROMISE: what the analysis promises did not hold.  ASSUMPTION: what it takes for granted did not hold, so that it
    promises nothing until the system has been idle once.  BLIND: the judge did not see everything.
    """

    PROMISE = "promise"
    ASSUMPTION = "assumption"
    BLIND = "blind"


class What(str, Enum):
    """What was found; the value is its name in JSON and metrics."""

    BOUND = "bound"
    DEADLINE = "deadline"
    SEGMENT = "segment"
    CPU_TIME = "cpu-time"
    PERIOD = "period"
    EPSILON = "epsilon"
    UNDECLARED = "undeclared"
    PRIORITY = "priority"
    OVERRUN = "overrun"
    LATE = "late"
    POLICY = "policy"
    RESET = "reset"
    ENDED = "ended"
    LOST = "lost"
    CLOCK = "clock"

    @property
    def sort(self) -> Sort:
        """What it means."""
        if self in (What.BOUND, What.DEADLINE):
            return Sort.PROMISE
        return Sort.BLIND if self in (What.LOST, What.CLOCK) else Sort.ASSUMPTION


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding at ``time``, ns of the events' clock.

    ``seen``, ``allowed``: ns, None where they are no times.  ``because``: of a broken promise, assumptions that were
    seen broken before it since the system was idle last; empty: none was seen.
    """

    time: int
    what: What
    task: str
    text: str
    job: int | None = None
    seen: int | None = None
    allowed: int | None = None
    because: tuple[What, ...] = ()

    def line(self) -> str:
        """The finding in words."""
        head = f"{self.task} #{self.job}" if self.job is not None else self.task
        text = f"{head}: {self.text}" if head else self.text
        if self.seen is not None and self.allowed is not None:
            most = "at least" if self.what is What.PERIOD else "at most"
            text += f": {self.seen / 1e6:.6f} ms, not {self.allowed / 1e6:.6f} ms {most}"
        if self.because:
            return f"{text}; assumptions were broken before: {', '.join(one.value for one in self.because)}"
        return text
