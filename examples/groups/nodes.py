# SPDX-License-Identifier: GPL-2.0
"""Two nodes, as of ROS 2, that share one buffer on the GPU: the camera fills it again when the detector has read it.

    python nodes.py                               never ends: the detector waits for the GPU, the camera for it
    gpurt run --group eyes -- python nodes.py     ends
"""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.synchronize import Semaphore

import gpurt

MS = 1_000_000
FRAMES = 3


def detector(filled: Semaphore, empty: Semaphore) -> None:
    """Reads each frame on the GPU."""
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        for _ in range(FRAMES):
            filled.acquire()
            with gpurt.segment(client=gpu, priority=5):
                gpu.wait_work(tsg, gpu.submit(tsg, 2 * MS))
            empty.release()


def main() -> None:
    """Fills the buffer; the segment holds from one frame to the next, since the buffer is in use so long."""
    fork = get_context("fork")
    filled, empty = fork.Semaphore(0), fork.Semaphore(0)
    reader = fork.Process(target=detector, args=[filled, empty], daemon=True)
    reader.start()
    with gpurt.Client() as gpu:
        tsg = gpu.open_tsg()
        for _ in range(FRAMES):
            with gpurt.segment(client=gpu, priority=10):
                gpu.wait_work(tsg, gpu.submit(tsg, MS))
                filled.release()
                empty.acquire()  # inside its segment
    reader.join()
    print(f"{FRAMES} frames are done")


if __name__ == "__main__":
    main()
