# SPDX-License-Identifier: GPL-2.0
"""Kills process groups when its stdin ends; a script that imports nothing of gpurt, so that it is quick.

Each line of stdin is a group: `+NUMBER` is to be killed, `-NUMBER` no more.
"""

import contextlib
import os
import signal
import sys


def guard_main() -> None:
    """Reads to the end, and kills what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends after its parent only
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    guard_main()
