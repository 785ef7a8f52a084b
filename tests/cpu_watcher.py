# SPDX-License-Identifier: GPL-2.0
"""A process that prints, for each CPU, from when to when it was ready and not executed.

Its arguments are a descriptor and CPUs.  For each CPU, by its place among the arguments, the process writes into that
file the last time at which it executed there.  The time is a double, in seconds of the monotonic clock.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import threading
import time

PERIOD, NOTABLE = 0.25, 0.5  # s
SEEN = struct.Struct("d")


def look(cpu: int, parent: int, file: int, place: int) -> None:
    """Prints from when to when that CPU did not execute this thread, until the parent has ended."""
    with contextlib.suppress(OSError):  # the CPU has gone
        os.sched_setaffinity(0, {cpu})
    while os.getppid() == parent:
        before = time.monotonic()
        time.sleep(PERIOD)
        after = time.monotonic()
        if after - before - PERIOD >= NOTABLE:
            os.write(1, f"{before + PERIOD} {after}\n".encode())
        os.pwrite(file, SEEN.pack(after), place * SEEN.size)


if __name__ == "__main__":
    file, *cpus = map(int, sys.argv[1:])
    print(0, 0, flush=True)
    for place, cpu in enumerate(cpus):
        threading.Thread(target=look, args=(cpu, os.getppid(), file, place)).start()
