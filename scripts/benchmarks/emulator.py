# SPDX-License-Identifier: GPL-2.0
"""The emulator: how late a client learns of a completion, and what begin and end cost it.

A begin and an end are four messages, each of which wakes a process.  What waking takes differs between machines more
than what the emulator does, so that an echo between two processes is measured beside it: four messages of that size.
Both are measured one after the other; "rested", after a millisecond of sleep each, in which CPUs become idle and caches
cold, as between the segments of a program; and, where /dev/cpu_dma_latency can be written, "awake": idle CPUs poll
instead of halting.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator

from analysis.model import Platform
from gpurt.segments import Client
from pycontrol.run.emulator import Emulator

#: Of the packets of a begin.
SIZE = 40


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not exceeded by that share."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def times(action: Callable[[], object], samples: int, rest: float = 0) -> list[float]:
    """What an action takes, us, each time after `rest` seconds of sleep."""
    found = []
    for _ in range(samples):
        if rest:
            time.sleep(rest)
        start = time.monotonic_ns()
        action()
        found.append((time.monotonic_ns() - start) / 1e3)
    return found


@contextlib.contextmanager
def echo() -> Iterator[Callable[[], object]]:
    """Sends two packets, one after the other, to a process that sends each of them back."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    packet = bytes(SIZE)
    child = os.fork()
    if not child:
        ours.close()
        while data := theirs.recv(SIZE):
            theirs.send(data)
        os._exit(0)
    theirs.close()

    def both() -> None:
        for _ in range(2):
            ours.send(packet)
            ours.recv(SIZE)

    yield both
    ours.close()
    os.waitpid(child, 0)


@contextlib.contextmanager
def awake() -> Iterator[bool]:
    """Keeps idle CPUs from halting; whether that is permitted here."""
    try:
        file = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    except OSError:
        yield False
        return
    os.write(file, struct.pack("i", 0))
    yield True
    os.close(file)


def late(client: Client, samples: int) -> list[float]:
    """How late a client learns of a completion, ms."""
    tsg = client.open_tsg()
    found = []
    for index in range(samples):
        work = client.submit(tsg, 1_000_000 + 7919 * index)
        completed = client.wait_work(tsg, work)
        found.append((time.monotonic_ns() - completed) / 1e6)
    return found


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields p50 and p99 of emulator.completion_error_ms, .begin_end_us and .echo_us, and the ratio of the medians."""
    samples = 5 if quick else 500
    with Emulator(Platform(1)) as emulator, Client(str(emulator.socket)) as client, echo() as both:

        def pair() -> None:
            client.begin(priority=1)
            client.end()

        def measured(how: str, rest: float = 0) -> Iterator[tuple[str, float, str]]:
            found = {name: times(action, samples, rest) for name, action in (("begin_end", pair), ("echo", both))}
            for name, values in found.items():
                yield f"emulator.{name}{how}_us.p50", percentile(values, 0.5), "us"
                yield f"emulator.{name}{how}_us.p99", percentile(values, 0.99), "us"
            ratio = percentile(found["begin_end"], 0.5) / percentile(found["echo"], 0.5)
            yield f"emulator.begin_end{how}_over_echo", ratio, "ratio"

        errors = late(client, samples)
        yield "emulator.completion_error_ms.p50", percentile(errors, 0.5), "ms"
        yield "emulator.completion_error_ms.p99", percentile(errors, 0.99), "ms"
        yield from measured("")
        yield from measured("_rested", 0.001)
        with awake() as permitted:
            if permitted:
                yield from measured("_rested_awake", 0.001)
