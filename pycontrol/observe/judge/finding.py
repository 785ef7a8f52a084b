# SPDX-License-Identifier: GPL-2.0
"""The findings of a judge about a running system, or about a trace of one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Sort(str, Enum):
    """What a finding means.

    PROMISE: something that the analysis promises did not hold.  ASSUMPTION: something that the analysis assumes did not
    hold, so it promises nothing until the system has been idle once.  BLIND: the judge did not see everything.
    """

    PROMISE = "promise"
    ASSUMPTION = "assumption"
    BLIND = "blind"


class What(str, Enum):
    """The kind of a finding; the value is its name in JSON and metrics."""

    BOUND = "bound"
    DEADLINE = "deadline"
    CHAIN = "chain"
    SEGMENT = "segment"
    CPU_TIME = "cpu-time"
    WAITING = "waiting"
    PERIOD = "period"
    THREAD = "thread"
    EPSILON = "epsilon"
    UNDECLARED = "undeclared"
    PRIORITY = "priority"
    OVERRUN = "overrun"
    LATE = "late"
    STUCK = "stuck"
    POLICY = "policy"
    SPEED = "speed"
    RESET = "reset"
    ENDED = "ended"
    LOST = "lost"
    CLOCK = "clock"

    @property
    def sort(self) -> Sort:
        """The meaning of the kind."""
        if self in (What.BOUND, What.DEADLINE, What.CHAIN):
            return Sort.PROMISE
        return Sort.BLIND if self in (What.LOST, What.CLOCK) else Sort.ASSUMPTION


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding at ``time``, ns of the events' clock.

    ``seen``, ``allowed``: ns; None if they are no times.  ``because``: for a broken promise, the assumptions that were
    seen broken since the system was last idle; empty: none.
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
            most = "at least" if self.seen < self.allowed else "at most"
            text += f": {self.seen / 1e6:.6f} ms, not {self.allowed / 1e6:.6f} ms {most}"
        if self.because:
            return f"{text}; assumptions were broken before: {', '.join(one.value for one in self.because)}"
        return text


@dataclass
class Log:
    """The findings so far.  ``excuses``: the kinds of broken assumptions since the system was last idle."""

    counts: Counter[tuple[What, str]] = field(default_factory=Counter)
    excuses: dict[What, None] = field(default_factory=dict)
    _new: list[Finding] = field(default_factory=list)

    def add(
        self, time: int, what: What, task: str, text: str, job: int | None = None, seen: int | None = None,
        allowed: int | None = None,
    ) -> None:  # fmt: skip
        """Adds a finding; a finding of a broken promise also gets the assumptions that were broken before it."""
        because: tuple[What, ...] = ()
        if what.sort is Sort.PROMISE:
            because = tuple(self.excuses)
        else:
            self.excuses[what] = None
        self.counts[what, task] += 1
        self._new.append(Finding(time, what, task, text, job, seen, allowed, because))

    def take(self) -> list[Finding]:
        """The findings since the previous call."""
        new, self._new = self._new, []
        return new
