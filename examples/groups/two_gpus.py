# SPDX-License-Identifier: GPL-2.0
"""Two jobs, each with a rank on GPU 0 and one on GPU 1 which meet inside their segments, as in a collective of NCCL.

    python two_gpus.py            never ends: job p owns GPU 0, job q owns GPU 1, and each waits for the other's
    python two_gpus.py --group    ends: each job is a group
"""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Event

import gpurt

MS = 1_000_000


def rank(job: str, number: int, turn: Event, begun: Event, together: Barrier) -> None:
    """One rank of a job on the GPU of its number; it begins when it is its turn."""
    os.environ["GPURT_GPU"] = str(number)
    with gpurt.Client() as gpu:
        if "--group" in sys.argv:
            gpu.join(job)
        tsg = gpu.open_tsg()
        turn.wait()
        with gpurt.segment(client=gpu, priority=10):
            begun.set()
            gpu.wait()
            together.wait()  # until the other rank has its GPU too
            gpu.wait_work(tsg, gpu.submit(tsg, 2 * MS))


def main() -> None:
    """Each job begins on one GPU, then both want the other one."""
    fork = get_context("fork")
    order = [("p", 0), ("q", 1), ("p", 1), ("q", 0)]
    turns = [fork.Event() for _ in range(len(order) + 1)]
    meet = {job: fork.Barrier(2) for job in "pq"}
    ranks = [
        fork.Process(target=rank, args=[job, number, turns[at], turns[at + 1], meet[job]], daemon=True)
        for at, (job, number) in enumerate(order)
    ]
    for one in ranks:
        one.start()
    turns[0].set()
    for one in ranks:
        one.join()
    print("both jobs are done")


if __name__ == "__main__":
    main()
