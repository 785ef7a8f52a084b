# SPDX-License-Identifier: GPL-2.0
"""How benchmarks take times."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Clocks: this process's CPU time, and wall-clock time.
CPU, WALL = time.process_time, time.perf_counter


def seconds(action: Callable[[], object], repeats: int, clock: Callable[[], float] = CPU) -> float:
    """The median time of an action."""
    times = []
    for _ in range(repeats):
        start = clock()
        action()
        times.append(clock() - start)
    return sorted(times)[repeats // 2]
