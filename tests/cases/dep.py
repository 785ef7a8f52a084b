# SPDX-License-Identifier: GPL-2.0
"""A more urgent program waits, inside its segment, for what a less urgent program computes on the GPU: for ever.

dep.py jobs: both tell of their jobs.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

import gpurt


@contextlib.contextmanager
def segment(client: gpurt.Client, name: str) -> Iterator[None]:
    """A segment, in a job of that name."""
    job = gpurt.job(name, 0, time.monotonic_ns(), client=client) if "jobs" in sys.argv else contextlib.nullcontext()
    with job, gpurt.segment(client=client):
        yield


def work(client: gpurt.Client, group: int) -> None:
    """1 ms of the GPU."""
    client.wait_work(group, client.submit(group, 1_000_000))


answer, answered = os.pipe()
question, asked = os.pipe()
helper = os.fork() == 0
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5 if helper else 10))
with gpurt.Client() as client:
    group = client.open_tsg()
    if helper:
        os.read(question, 1)
        with segment(client, "helper"):
            work(client, group)
        os.write(answered, b"x")
    else:
        with segment(client, "urgent"):
            work(client, group)
            os.write(asked, b"x")
            os.read(answer, 1)
