# SPDX-License-Identifier: GPL-2.0
"""Cost of an unprivileged user's attacks on the user-space host for a real-time client: begins of a FIFO-50 thread.

Each figure stands beside that of the client alone, in the same run.  The attackers have the host's own user here, which
has no limits, so that the attacks are as strong as they can be.  Yields nothing without the right to SCHED_FIFO.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.model import Platform
from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, Packet
from gpurt.segments import Client
from pycontrol.live.netlink import NLM_F_DUMP, NLM_F_REQUEST, PACKET, SOCKET_FAMILY, encode
from pycontrol.run.emulator import Emulator

#: Connections of each attack, and with --quick.
MANY, FEW = 1000, 20
PRIORITY = 50
#: Each thread of the benchmark rests for so long between two segments, seconds.
REST = 0.001


def ioctl(code: int, cookie: int, kind: str, **fields: int) -> bytes:
    """The packet of a call."""
    made = ffi.new(f"struct {kind} *", {"size": ffi.sizeof(f"struct {kind}"), **fields})
    return PACKET.pack(Packet.IOCTL, code, cookie, 0) + bytes(ffi.buffer(made))


def connected(path: Path, count: int) -> list[socket.socket]:
    """So many connections, which do not block."""
    made = []
    for _ in range(count):
        made.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        made[-1].connect(str(path))
        made[-1].setblocking(False)
    return made


def flood(packet: bytes, path: Path, count: int) -> Iterator[None]:
    """All connections send that as often as the kernel takes it, and read what comes."""
    connections = connected(path, count)
    while True:
        for at, one in enumerate(connections):
            with contextlib.suppress(BlockingIOError):
                try:
                    while True:
                        one.send(packet)
                except ConnectionError:  # it has not read what it was answered
                    one.close()
                    (connections[at],) = connected(path, 1)
                    continue
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while one.recv(1 << 16):
                    pass
        yield


def queries(path: Path, count: int) -> Iterator[None]:
    """Connections that send QUERY."""
    return flood(ioctl(lib.GPURT_IOC_QUERY, 1, "gpurt_query"), path, count)


def dumps(path: Path, count: int) -> Iterator[None]:
    """Connections that ask for all clients."""
    asked = encode(Command.GET_CLIENTS, {}, SOCKET_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1)
    return flood(PACKET.pack(Packet.NETLINK, 0, 0, 0) + asked, path, count)


def readers(path: Path, count: int) -> Iterator[None]:
    """Subscribers that never read."""
    connections = connected(path, 3 * count)
    for one in connections:
        one.send(PACKET.pack(Packet.SUBSCRIBE, 0, 0, 0))
    while True:
        time.sleep(REST)
        yield


def waits(path: Path, count: int) -> Iterator[None]:
    """Clients whose calls wait for the GPU, as many as there can be, which get it whenever a segment has ended."""
    connections = connected(path, count)
    wait = ioctl(lib.GPURT_IOC_WAIT, 1, "gpurt_wait", what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
    for one in connections:
        one.setblocking(True)
        one.send(ioctl(lib.GPURT_IOC_BEGIN, 1, "gpurt_begin"))
        one.recv(1 << 16)
        one.setblocking(False)
    while True:
        for one in connections:
            with contextlib.suppress(BlockingIOError):
                one.send(wait)
            with contextlib.suppress(BlockingIOError):
                while True:
                    one.recv(1 << 16)
        yield


def connects(path: Path, _count: int) -> Iterator[None]:
    """Connections that end at once."""
    while True:
        for one in connected(path, FEW):
            one.close()
        yield


@contextlib.contextmanager
def attack(how: Callable[[Path, int], Iterator[None]], path: Path, count: int) -> Iterator[None]:
    """A process that attacks, once it has all its connections."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        for number, _ in enumerate(how(path, count)):
            if not number:
                os.write(writer, b"x")
        os._exit(0)
    os.close(writer)
    if not os.read(reader, 1):
        raise SystemExit(f"bench attacks: {how.__name__} failed")
    os.close(reader)
    yield
    os.kill(child, 9)
    os.waitpid(child, 0)


def begins(path: Path, samples: int) -> list[float]:
    """Times of begins of a FIFO thread, us."""
    found = []
    with Client(str(path)) as client:
        for _ in range(samples):
            time.sleep(REST)
            start = time.monotonic_ns()
            client.begin()
            found.append((time.monotonic_ns() - start) / 1e3)
            client.end()
    return found


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields the median and the worst begin alone and beside each attack, us, and the medians' ratio."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except PermissionError:
        print("attacks: without the right to SCHED_FIFO there is nothing to measure", file=sys.stderr)
        return
    samples, count = (5, FEW) if quick else (2000, MANY)  # for longer than the second of sched_rt_period_us
    try:
        with Emulator(Platform(1)) as emulator:
            alone = begins(emulator.socket, samples)
            yield "attacks.alone_us.p50", statistics.median(alone), "us"
            yield "attacks.alone_us.max", max(alone), "us"
            for how in (queries, readers, waits, dumps, connects):
                with attack(how, emulator.socket, count):
                    beside = begins(emulator.socket, samples)
                yield f"attacks.{how.__name__}_us.p50", statistics.median(beside), "us"
                yield f"attacks.{how.__name__}_us.max", max(beside), "us"
                yield f"attacks.{how.__name__}.ratio", statistics.median(beside) / statistics.median(alone), ""
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
