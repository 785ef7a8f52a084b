# SPDX-License-Identifier: GPL-2.0
"""An inference engine that owns the GPU, and waits for workers that compute on the GPU for it.

    python engine.py                              never ends: the workers wait for the GPU, the engine for the workers
    gpurt run --group llm -- python engine.py     ends
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import gpurt

MS = 1_000_000


def worker(engine: Connection) -> None:
    """Computes each part that the engine sends."""
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        while part := engine.recv():
            with gpurt.segment(client=gpu, priority=5):
                gpu.wait_work(tsg, gpu.submit(tsg, part))
            engine.send(part)


def main() -> None:
    """Computes a batch with two workers."""
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe() for _ in range(2)]
    workers = [fork.Process(target=worker, args=[theirs], daemon=True) for _, theirs in pipes]
    for one in workers:
        one.start()
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        with gpurt.segment(client=gpu, priority=10):
            gpu.wait_work(tsg, gpu.submit(tsg, MS))
            for ours, _ in pipes:
                ours.send(2 * MS)
            for ours, _ in pipes:
                ours.recv()  # inside its segment
            gpu.wait_work(tsg, gpu.submit(tsg, MS))
    for ours, _ in pipes:
        ours.send(0)
    for one in workers:
        one.join()
    print("the batch is done")


if __name__ == "__main__":
    main()
