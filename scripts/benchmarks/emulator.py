# SPDX-License-Identifier: GPL-2.0
"""The emulator: how late a client learns of a completion, and what begin and end cost it.

A begin and an end are four messages, each of which wakes a process.  Waking a process on another CPU takes longer than
all work of the emulator, and differs most between machines.  So both are measured in three placements: client and host
wherever the kernel puts them, on one CPU, and on two.  Each is measured without pauses, and "rested": after a
millisecond of sleep, in which CPUs become idle and caches cold, as between the segments of a program.  The figure
"echo" is for comparison: four messages of that size between two processes in the same placement, without gpurt.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator

from analysis.model import Platform
from gpurt.segments import Client
from pycontrol.act.run.emulator import Emulator

#: The size of a begin's packets, bytes.
SIZE = 40


def percentile(values: list[float], share: float) -> float:
    """The value at this share of the sorted values, a quantile."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def times(action: Callable[[], object], samples: int, rest: float = 0) -> list[float]:
    """Times of an action, us, each after `rest` seconds of sleep."""
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
def on(cpus: set[int]) -> Iterator[None]:
    """Keeps this process and its children on these CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    yield
    os.sched_setaffinity(0, before)


def late(client: Client, samples: int) -> list[float]:
    """How late a client learns of a completion, ms."""
    tsg = client.open_tsg()
    found = []
    for index in range(samples):
        work = client.submit(tsg, 1_000_000 + 7919 * index)
        completed = client.wait_work(tsg, work)
        found.append((time.monotonic_ns() - completed) / 1e6)
    return found


def placed(how: str, ours: set[int], theirs: set[int], samples: int) -> Iterator[tuple[str, float, str]]:
    """Times of begin and end and of an echo with this process on CPUs `ours` and the other process on CPUs `theirs`."""
    with contextlib.ExitStack() as stack:
        with on(theirs):
            emulator = stack.enter_context(Emulator(Platform(1)))
            both = stack.enter_context(echo())
        stack.enter_context(on(ours))
        client = stack.enter_context(Client(str(emulator.socket)))

        def pair() -> None:
            client.begin(priority=1)
            client.end()

        for action, what in ((pair, "begin_end"), (both, "echo")):
            for rest, suffix in ((0.0, ""), (0.001, "_rested")):
                found = times(action, samples, rest)
                yield f"emulator.{what}{how}{suffix}_us.p50", percentile(found, 0.5), "us"
                yield f"emulator.{what}{how}{suffix}_us.p99", percentile(found, 0.99), "us"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields p50 and p99 of emulator.completion_error_ms, and the times of begin and end and of an echo, us."""
    samples = 5 if quick else 500
    with Emulator(Platform(1)) as emulator, Client(str(emulator.socket)) as client:
        errors = late(client, samples)
    yield "emulator.completion_error_ms.p50", percentile(errors, 0.5), "ms"
    yield "emulator.completion_error_ms.p99", percentile(errors, 0.99), "ms"
    cpus = os.sched_getaffinity(0)
    yield from placed("", cpus, cpus, samples)
    first, *others = sorted(cpus)
    yield from placed("_one_cpu", {first}, {first}, samples)
    if others:
        yield from placed("_two_cpus", {first}, {others[0]}, samples)
