# SPDX-License-Identifier: GPL-2.0
"""How much of the time the user-space host works for clients that are not urgent.

While the host works for others, it takes its CPU from an urgent client there, so its pieces of work are short.  Also,
Linux stops all SCHED_FIFO threads of a CPU for 50 ms of each second in which they took 950 ms
(sched_rt_runtime_us).  Without this pace any user could cause that by keeping the host busy.  A rest takes at
least as long as a client polls for its answer, since that is SCHED_FIFO time of that CPU, too.
"""

from __future__ import annotations

import os
from typing import Protocol

#: After MAX_DEBT_NS of work without a rest, the host rests for as long as that work took.
MAX_DEBT_NS = 100_000
#: After an urgent answer the host rests until the client has read it, MAX_SPARED_NS at most; it looks every LOOK_NS.
LOOK_NS, MAX_SPARED_NS = 150_000, 500_000


class Reader(Protocol):
    """A client's connection."""

    def has_unread(self) -> bool:
        """Whether the client has unread data."""
        ...


def is_real_time() -> bool:
    """Whether this process executes at a real-time priority."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR)


class Pace:
    """The work and the rests of one thread."""

    def __init__(self) -> None:
        """Starts without work."""
        self._now = self._worked = self._debt = self._latest = 0
        self._reader: Reader | None = None

    def restart(self, now: int, worked: int) -> None:
        """A rest is over: the work during the rest does not count for the next rest."""
        self._now, self._worked = now, worked

    def rests(self, now: int, worked: int) -> int:
        """Until when the thread must rest, ns; 0: it need not.  ``worked``: the CPU time that it has taken, ns."""
        work, time = worked - self._worked, now - self._now
        self._now, self._worked, self._debt = now, worked, max(0, self._debt + 2 * work - time)
        if self._debt < MAX_DEBT_NS:
            return 0
        until, self._debt = now + self._debt, 0
        return until

    def answers(self, reader: Reader, now: int) -> None:
        """A packet of an urgent client has been served."""
        if not self._reader:
            self._latest = now + MAX_SPARED_NS
        self._reader = reader

    def spares(self, now: int) -> int:
        """Until when it rests, ns, since an urgent client may need this CPU to read its answer; 0: it need not."""
        if self._reader and now < self._latest and self._reader.has_unread():
            return now + LOOK_NS
        self._reader = None
        return 0
