# SPDX-License-Identifier: GPL-2.0
"""Whether the machine was suspended: CLOCK_MONOTONIC, which times events, stands still during suspension."""

from __future__ import annotations

import time

NS = 1_000_000_000
#: The two clocks are read one after the other; a smaller difference is no suspension, ns.
LEAST = NS // 10


class Sleep:
    """Detects suspensions since the previous call, or since this object was made."""

    def __init__(self) -> None:
        self._before = _asleep()

    def since(self) -> str:
        """How long the machine was suspended, in words; empty if it was not."""
        slept, self._before = _asleep() - self._before, _asleep()
        return "" if slept < LEAST else f"the machine was suspended for {slept / NS:.1f} s"


def _asleep() -> int:
    """How long the machine has been suspended since it started, ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
