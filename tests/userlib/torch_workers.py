# SPDX-License-Identifier: GPL-2.0
"""Uses a DataLoader with two workers in a segment, then a process of torch.multiprocessing; prints their process ids.

The argument is how workers are started: fork, spawn or forkserver.
"""

import json
import os
import sys

import torch
import torch.multiprocessing

import gpurt


class Frames(torch.utils.data.Dataset):
    """Each frame is read in a segment; it is the process that read it."""

    around = gpurt.segment(5, stream=torch.cpu)

    def __len__(self):
        return 4

    def __getitem__(self, at):
        with self.around:
            return os.getpid()


@gpurt.segment(6, stream=torch.cpu)
def detect(rank, queue):
    queue.put(os.getpid())


def main(way):
    frames = Frames()
    with frames.around:
        loader = torch.utils.data.DataLoader(frames, num_workers=2, multiprocessing_context=way)
        workers = [int(one) for one in loader]
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(detect, (queue,), nprocs=1)
    print(json.dumps([*workers[:2], queue.get()]))


if __name__ == "__main__":
    main(sys.argv[1])
