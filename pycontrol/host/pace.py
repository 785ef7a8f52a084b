# SPDX-License-Identifier: GPL-2.0
"""How much of the time the user-space host works for clients that are not urgent.

While the host works for others, it takes its CPU from an urgent client there, so its pieces of work are short.  Also,
Linux stops all SCHED_FIFO threads of a CPU for 50 ms of each second in which they took 950 ms
(sched_rt_runtime_us).  Without this pace any user could cause that by keeping the host busy.  The host rests for longer
than a client polls for its answer, since that is SCHED_FIFO time of that CPU, too.
"""

from __future__ import annotations

import os

#: The host rests after WORK ns of work within WINDOW ns, and from then on in the same proportion.
WORK, WINDOW = 250_000, 500_000


def is_real_time() -> bool:
    """Whether this process executes at a real-time priority."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR)


class Pace:
    """The work and the rests of one thread."""

    def __init__(self) -> None:
        """Starts without work."""
        self._since = self._before = 0

    def restart(self, now: int, worked: int) -> None:
        """A rest is over: the work during the rest does not count for the next rest."""
        self._since, self._before = now, worked

    def rests(self, now: int, worked: int) -> int:
        """Until when the thread must rest, ns; 0: it need not.  ``worked``: the CPU time that it has taken, ns."""
        if now >= self._since + WINDOW:
            self._since, self._before = now, worked
        if worked - self._before < WORK:
            return 0
        rest = (worked - self._before) * (WINDOW - WORK) // WORK
        self._since, self._before = now + rest, worked
        return now + rest
