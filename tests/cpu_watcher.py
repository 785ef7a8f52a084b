# SPDX-License-Identifier: GPL-2.0
"""A process that prints from when to when it was ready and not executed, on each CPU."""

from __future__ import annotations

import contextlib
import os
import threading
import time

PERIOD, NOTABLE = 0.25, 0.5  # s


def look(cpu: int, parent: int) -> None:
    """Prints from when to when that CPU was not given to this thread, until the parent is gone."""
    with contextlib.suppress(OSError):  # the CPU has gone
        os.sched_setaffinity(0, {cpu})
    while os.getppid() == parent:
        before = time.monotonic()
        time.sleep(PERIOD)
        after = time.monotonic()
        if after - before - PERIOD >= NOTABLE:
            os.write(1, f"{before + PERIOD} {after}\n".encode())


if __name__ == "__main__":
    print(0, 0, flush=True)
    for number in os.sched_getaffinity(0):
        threading.Thread(target=look, args=(number, os.getppid())).start()
