# SPDX-License-Identifier: GPL-2.0
"""The work of co-runners until they are killed; a script.  `cpu NUMBER BYTES`: copies memory on that CPU.  `gpu`: keeps
a virtual GPU busy.  Each co-runner writes a line once it does."""

import os
import sys

#: Length of an item of GPU work, ns, and how many items are always queued.
WORK, DEEP = 1_000_000, 4


def cpu(number: int, size: int) -> None:
    """Copies memory while no other thread of the CPU is ready.

    It gets its memory first, with a share of the CPU: without a share, that would take for ever on a busy machine.
    """
    os.sched_setaffinity(0, {number})
    source, target = bytes(max(size // 2, 1)), memoryview(bytearray(max(size // 2, 1)))
    target[:] = source
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("ready", flush=True)
    while True:
        target[:] = source


def _gpu() -> None:
    """Submits work and waits for it, so that the GPU is always busy."""
    from gpurt.segments import Client

    with Client() as client:
        tsg = client.open_tsg()
        waiting = [client.submit(tsg, WORK) for _ in range(DEEP)]
        print("ready", flush=True)
        while True:
            client.wait_work(tsg, waiting.pop(0))
            waiting.append(client.submit(tsg, WORK))


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        cpu(int(sys.argv[2]), int(sys.argv[3]))
    else:
        _gpu()
