# SPDX-License-Identifier: GPL-2.0
"""How much of the time the user-space host works for those that are not urgent.

An urgent client that shares a CPU with the host has none of it while the host works for others, so that pieces of work
are short.  And Linux stops all SCHED_FIFO threads of a CPU for 50 ms of each second in which they took 950 ms of it
(sched_rt_runtime_us), which any user who keeps the host busy could have happen without a pace.  The rest is longer than
a client polls for its answer, which is SCHED_FIFO time of that CPU, too.
"""

from __future__ import annotations

import os

#: The host rests after WORK ns of work within WINDOW ns, and from then on in the same proportion.
WORK, WINDOW = 250_000, 500_000


def is_real_time() -> bool:
    """Whether this process executes at a real-time priority."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR)


class Pace:
    """The work of one thread."""

    def __init__(self) -> None:
        """None yet."""
        self._since = self._before = 0

    def restart(self, now: int, worked: int) -> None:
        """A rest is over: what was done in it does not lead to the next one."""
        self._since, self._before = now, worked

    def rests(self, now: int, worked: int) -> int:
        """Until when it has to rest, ns; 0: it need not.  ``worked``: the CPU time that it has taken so far, ns."""
        if now >= self._since + WINDOW:
            self._since, self._before = now, worked
        if worked - self._before < WORK:
            return 0
        rest = (worked - self._before) * (WINDOW - WORK) // WORK
        self._since, self._before = now + rest, worked
        return now + rest
