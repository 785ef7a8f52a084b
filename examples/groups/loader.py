# SPDX-License-Identifier: GPL-2.0
"""A training loop whose forked data loader decodes on the GPU, as that of PyTorch with workers does.

    python loader.py                              never ends: an equal never preempts, so the loader waits for the loop
    gpurt run --group train -- python loader.py   ends
"""

from __future__ import annotations

import os
from multiprocessing import get_context
from multiprocessing.connection import Connection

import gpurt

MS = 1_000_000
BATCHES = 3


def load(to: Connection) -> None:
    """Decodes batch after batch, each when the one before has been taken."""
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        for number in range(BATCHES):
            with gpurt.segment(client=gpu, priority=10):
                gpu.wait_work(tsg, gpu.submit(tsg, MS))
            to.send(number)
            to.recv()


def main() -> None:
    """Trains: an epoch is one segment, since nobody is to come between its batches."""
    ours, theirs = get_context("fork").Pipe()
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        with gpurt.segment(client=gpu, priority=10):
            loader = os.fork()
            if loader == 0:
                load(theirs)
                os._exit(0)
            for _ in range(BATCHES):
                ours.recv()  # inside its segment
                gpu.wait_work(tsg, gpu.submit(tsg, 2 * MS))
                ours.send("taken")
    os.waitpid(loader, 0)
    print(f"{BATCHES} batches are done")


if __name__ == "__main__":
    main()
