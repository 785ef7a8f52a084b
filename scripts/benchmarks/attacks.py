# SPDX-License-Identifier: GPL-2.0
"""Cost of an unprivileged user's attacks on the user-space host for a real-time client: begins of a FIFO-50 thread.

Each figure is shown with the figure of the client alone, from the same run.  The attackers are the host's own user, who
has no limits, so that the attacks are as strong as possible.  Yields nothing without the right to SCHED_FIFO.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.model import Platform
from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, Packet
from gpurt.segments import Client
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import connect
from pycontrol.link.netlink import NLM_F_DUMP, NLM_F_REQUEST, PACKET, SOCKET_FAMILY, encode

#: The number of connections of each attack, and with --quick.
MANY, FEW = 1000, 20
PRIORITY = 50
GPUS = 16
#: Executes a command below n shells.
BELOW = 'n=$1; shift; if [ $n -gt 0 ]; then sh -c "$0" "$0" $((n - 1)) "$@"; exit; fi; exec "$@"'
#: Sends a packet on a new connection each time, and reads the answer.
COMES_AGAIN = """
import socket, sys
while True:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.connect(sys.argv[1])
        one.send(bytes.fromhex(sys.argv[2]))
        one.recv(1 << 16)
    print(end="x", flush=True)
"""
#: Constants of sched.h and prctl.h.
CLONE_NEWPID, PR_SET_PDEATHSIG = 0x20000000, 1
#: How long each thread of the benchmark rests between two segments, seconds.
REST = 0.001


def ioctl(code: int, cookie: int, kind: str, **fields: int | bytes) -> bytes:
    """The packet of a call."""
    made = ffi.new(f"struct {kind} *", {"size": ffi.sizeof(f"struct {kind}"), **fields})
    return PACKET.pack(Packet.IOCTL, code, cookie, 0) + bytes(ffi.buffer(made))


def connected(path: Path, count: int) -> list[socket.socket]:
    """``count`` connections that do not block."""
    made = []
    for _ in range(count):
        made.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        made[-1].connect(str(path))
        made[-1].setblocking(False)
    return made


def flood(packet: bytes, path: Path, count: int) -> Iterator[None]:
    """All connections send the packet as often as the kernel takes it, and read the answers."""
    connections = connected(path, count)
    while True:
        for at, one in enumerate(connections):
            with contextlib.suppress(BlockingIOError):
                try:
                    while True:
                        one.send(packet)
                except ConnectionError:  # its client has left answers unread
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
    """As many clients as possible whose calls wait for the GPU; each gets it whenever a segment has ended."""
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


def call(one: socket.socket, code: int, kind: str, **fields: int | bytes) -> None:
    """Makes a call and waits for its answer."""
    one.setblocking(True)
    one.send(ioctl(code, 1, kind, **fields))
    one.recv(1 << 16)


def threads(path: Path, _count: int) -> Iterator[None]:
    """Begins of a thread that does not exist, from a process with 900 threads in a pid namespace."""
    if ctypes.CDLL(None).unshare(CLONE_NEWPID):
        raise SystemExit("bench attacks: threads needs the right to make a pid namespace")
    if child := os.fork():
        os.waitpid(child, 0)
        os._exit(1)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.stack_size(1 << 16)
    for _ in range(900):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    packet = bytearray(ioctl(lib.GPURT_IOC_BEGIN, 1, "gpurt_begin"))
    packet[PACKET.size - 4 : PACKET.size] = (30_000).to_bytes(4, sys.byteorder)
    yield from flood(bytes(packet), path, FEW)


def descendants(path: Path, count: int) -> Iterator[None]:
    """New clients of processes below 500 (or ``count``) nested processes, of which the first has a budget."""
    with connect(str(path)) as control:
        control.set_budget(os.getpid(), 1_000_000, 10_000_000)
    packet = ioctl(lib.GPURT_IOC_BEGIN, 1, "gpurt_begin").hex()
    command = ["sh", "-c", BELOW, BELOW, str(min(count, 500)), sys.executable, "-c", COMES_AGAIN, str(path), packet]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        while process.stdout.read(1):
            yield


def member(path: Path) -> socket.socket:
    """A connection that is in a group, with a client on each GPU."""
    (one,) = connected(path, 1)
    for gpu in range(GPUS):
        call(one, lib.GPURT_IOC_BEGIN, "gpurt_begin", gpu=gpu)
        call(one, lib.GPURT_IOC_END, "gpurt_end", gpu=gpu)
    call(one, lib.GPURT_IOC_GROUP_JOIN, "gpurt_group_join", name=b"attack")
    return one


def joins(path: Path, _count: int) -> Iterator[None]:
    """The last member of a full group on 16 GPUs joins, and leaves, without a pause."""
    members = [member(path) for _ in range(lib.GPURT_MAX_MEMBERS - 1)]
    while members:
        member(path).close()
        yield


def ends(path: Path, _count: int) -> Iterator[None]:
    """Clients that end with much queued work in many TSGs."""
    while True:
        for one in connected(path, 1):
            for tsg in range(lib.GPURT_MAX_CLIENT_TSGS):
                call(one, lib.GPURT_IOC_TSG_OPEN, "gpurt_tsg")
                for _ in range(16):
                    call(one, lib.GPURT_IOC_SUBMIT, "gpurt_submit", tsg=tsg, duration_ns=lib.GPURT_MAX_WORK_NS)
            one.close()
        yield


def works(path: Path, _count: int) -> Iterator[None]:
    """Work of a microsecond each, as much as the host takes."""
    (one,) = connected(path, 1)
    call(one, lib.GPURT_IOC_TSG_OPEN, "gpurt_tsg")
    while True:
        for _ in range(FEW):
            call(one, lib.GPURT_IOC_SUBMIT, "gpurt_submit", duration_ns=lib.GPURT_MIN_WORK_NS)
        yield


@contextlib.contextmanager
def attack(how: Callable[[Path, int], Iterator[None]], path: Path, count: int) -> Iterator[int]:
    """An attacking group of processes, once it has all its connections: yields the group's number."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)  # it attacks even if the machine has other work
        for number, _ in enumerate(how(path, count)):
            if not number:
                os.write(writer, b"x")
        os._exit(0)
    os.close(writer)
    if not os.read(reader, 1):
        raise SystemExit(f"bench attacks: {how.__name__} failed")
    os.close(reader)
    yield child
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def begins(path: Path, samples: int) -> list[float]:
    """Times of begins of a FIFO thread, us, sorted."""
    found = []
    with Client(str(path)) as client:
        for _ in range(samples):
            time.sleep(REST)
            start = time.monotonic_ns()
            client.begin()
            found.append((time.monotonic_ns() - start) / 1e3)
            client.end()
    return sorted(found)


def shown(name: str, found: list[float], alone: list[float]) -> Iterator[tuple[str, float, str]]:
    """Percentiles, and their ratios to the client's alone."""
    for percent in (50, 99, 100):
        at = max(0, len(found) * percent // 100 - 1)
        yield f"attacks.{name}_us.{'max' if percent == 100 else f'p{percent}'}", found[at], "us"
        if found is not alone and percent < 100:
            yield f"attacks.{name}.ratio{'' if percent == 50 else '.p99'}", found[at] / alone[at], ""


ATTACKS = (queries, readers, waits, dumps, connects, threads, descendants, joins, ends, works)


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields percentiles of begins alone, under each attack, and under all attacks at once, us, and ratios."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except PermissionError:
        print("attacks: without the right to SCHED_FIFO there is nothing to measure", file=sys.stderr)
        return
    attacks = [how for how in ATTACKS if how is not threads or os.geteuid() == 0]  # that attack makes a namespace
    samples, count = (5, FEW) if quick else (2000, MANY)  # longer than the second of sched_rt_period_us
    try:
        with Emulator(Platform(1), gpus=GPUS) as emulator:
            alone = begins(emulator.socket, samples)
        yield from shown("alone", alone, alone)
        for how in attacks:  # each on a new host, without unread packets of another attack
            with Emulator(Platform(1), gpus=GPUS) as emulator, attack(how, emulator.socket, count):
                yield from shown(how.__name__, begins(emulator.socket, samples), alone)
        with Emulator(Platform(1), gpus=GPUS) as emulator, contextlib.ExitStack() as stack:
            groups = []
            for how in attacks:
                groups.append(stack.enter_context(attack(how, emulator.socket, FEW)))
                os.killpg(groups[-1], signal.SIGSTOP)  # until all are ready
            for group in groups:
                os.killpg(group, signal.SIGCONT)
            yield from shown("all", begins(emulator.socket, samples), alone)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
