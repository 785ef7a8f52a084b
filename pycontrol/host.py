# SPDX-License-Identifier: GPL-2.0
"""The user-space host: the module's interface on a Unix socket, with virtual GPUs (`gpurt emulate`).

One process, one thread, one epoll loop with one timer.  Nothing in it blocks on a client: sockets do not block,
what a client does not read is bounded, and a client that breaks the rules gets an error and is counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import heapq
import itertools
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from pycontrol import procs
from pycontrol._gpurt import lib
from pycontrol.enums import Cause, Command, EventKind, Packet, Policy
from pycontrol.errors import DeviceError, UsageError
from pycontrol.host_calls import Calls
from pycontrol.host_control import Control
from pycontrol.host_gpu import FOREVER, Gpu, Member, Shape
from pycontrol.host_peer import Peer, Rules, receive, tell_senders, watch
from pycontrol.host_wire import Head, Malformed, Refusal, finish, head_of, message, refuse, reply, request
from pycontrol.netlink import PACKET
from pycontrol.units import parse_time

#: Bytes that a client may leave unread before replies close it and events are dropped.
BACKLOG = 1 << 20
#: Packets of one client that are handled before others get their turn.
BURST = 16
PRIORITY = 98
#: How much earlier than an event is due the host wakes, to be on time whatever waking takes; it spins the rest, ns.
LEAD = 120_000


@dataclass(frozen=True)
class Config:
    """How to serve.  ``ready_fd``: a line is written there once clients may connect."""

    socket: Path
    gpus: int = 1
    policy: str = "segment"
    shape: Shape = field(default_factory=Shape)
    priority: int = PRIORITY
    ready_fd: int | None = None
    quiet: bool = False


class Connection:
    """One connected process."""

    def __init__(self, host: Host, sock: socket.socket, id_: int) -> None:
        self.host, self.sock, self.id = host, sock, id_
        self.peer = Peer.of(sock)
        self.pidfd = watch(self.peer.pid)
        self.members: dict[int, Member] = {}
        self.queue: deque[bytes] = deque()
        self.queued = 0
        self.subscribed = False
        self.lost = 0

    def member(self, gpu: Gpu) -> Member:
        """Its client on a GPU, made on first use."""
        if gpu.index not in self.members:
            self.members[gpu.index] = gpu.join(next(self.host.ids), self.peer, self.host.rules.exempts(self.peer))
        return self.members[gpu.index]

    def send(self, data: bytes, droppable: bool = False) -> None:
        """Sends a packet, or keeps it until the client reads; one that never does is disconnected."""
        if self.queued + len(data) > BACKLOG:
            if droppable:
                self.lost += 1
            else:
                self.host.drop(self)
            return
        self.queue.append(data)
        self.queued += len(data)
        if len(self.queue) == 1:
            self.flush()

    def flush(self) -> None:
        """Sends what it can."""
        while self.queue:
            try:
                self.sock.send(self.queue[0])
            except BlockingIOError:
                break
            except OSError:
                self.host.drop(self)
                return
            self.queued -= len(self.queue.popleft())
        if not self.queue and self.lost:
            lost, self.lost = self.lost, 0
            event: list[tuple[str, Any]] = [
                ("EVENT", int(EventKind.LOST)), ("TIME_NS", time.monotonic_ns()), ("LOST", lost)
            ]  # fmt: skip
            self.send(message(Command.EVENT, event, Head()), droppable=True)
        self.host.want_write(self, bool(self.queue))


class Timer:
    """A timerfd on CLOCK_MONOTONIC: epoll's own timeout is only good for milliseconds."""

    _libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self) -> None:
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._armed = -1

    def arm(self, when: int) -> None:
        """Makes the descriptor readable at `when` ns; FOREVER disarms it."""
        if when == self._armed:
            return
        self._armed = when
        seconds, ns = (0, 0) if when == FOREVER else divmod(max(when, 1), 10**9)
        spec = (ctypes.c_long * 4)(0, 0, seconds, ns)
        self._libc.timerfd_settime(self.fd, 1, spec, None)  # 1: TFD_TIMER_ABSTIME

    def clear(self) -> None:
        """Takes note that it went off."""
        self._armed = -1
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)


class Host:
    """All GPUs and all connections."""

    def __init__(self, config: Config, listener: socket.socket) -> None:
        self.listener = listener
        self.rules = Rules()
        self.malformed = 0
        self.running = True
        self.connections: dict[int, Connection] = {}
        self._pidfds: dict[int, Connection] = {}
        self.ids = itertools.count(1)  # of connections and of clients
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._next_poll = 0
        policy = int(Policy.parse(config.policy))
        clock = time.monotonic_ns
        self.gpus = [Gpu(index, config.shape, policy, self.tell, clock) for index in range(config.gpus)]
        self.calls = Calls(self.gpus, clock, self.at)
        self.control = Control(self.gpus, self.rules, lambda: self.malformed, clock)
        self.epoll = select.epoll()
        self.timer = Timer()
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        self.epoll.register(self.timer.fd, select.EPOLLIN)

    def at(self, when: int, then: Callable[[], None]) -> None:
        """Runs `then` at `when` ns."""
        heapq.heappush(self._timers, (when, next(self._order), then))

    # The loop

    def serve(self, wake: int) -> None:
        """Serves until stopped; `wake` is a descriptor that signals are written to."""
        self.epoll.register(wake, select.EPOLLIN)
        while self.running:
            self.timer.arm(self._next())
            for fd, events in self.epoll.poll():
                if fd == wake:
                    self.running = False
                elif fd == self.timer.fd:
                    self.timer.clear()
                elif fd == self.listener.fileno():
                    self._accept()
                elif fd in self._pidfds:
                    self.drop(self._pidfds[fd])
                elif fd in self.connections:
                    self._serve_one(self.connections[fd], events)
            self._pass_time()

    def _prompt(self) -> int:
        """When a client is to be told something."""
        prompt = min(gpu.prompt() for gpu in self.gpus)
        return min(prompt, self._timers[0][0]) if self._timers else prompt

    def _next(self) -> int:
        """When to wake."""
        prompt = self._prompt()
        times = [prompt - LEAD if prompt != FOREVER else prompt, *(gpu.next() for gpu in self.gpus)]
        if any(gpu.sched.policy == lib.GPURT_POLICY_JOB for gpu in self.gpus):
            times.append(self._next_poll)
        return min(times)

    def _pass_time(self) -> None:
        prompt = self._prompt()
        while (now := time.monotonic_ns()) < prompt <= now + LEAD:
            pass
        for gpu in self.gpus:
            gpu.advance(now)
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        jobs = [gpu for gpu in self.gpus if gpu.sched.policy == lib.GPURT_POLICY_JOB]
        if jobs and now >= self._next_poll:
            for gpu in jobs:
                self._poll(gpu)
            period = min(gpu.poll_ns for gpu in jobs)
            self._next_poll = max(self._next_poll + period, now)

    def _poll(self, gpu: Gpu) -> None:
        """Policy `job`: looks at the states of the real-time clients with TSGs; starts before ends."""
        changed: list[tuple[bool, Member, int]] = []
        for member in gpu.members.values():
            stat = procs.stat(member.peer.pid) if member.tsgs else None
            own = stat.priority if stat else 0
            runnable = stat is not None and stat.runnable
            if runnable != bool(member.core.runnable) or own != member.core.own:
                changed.append((runnable, member, own))
        for runnable, member, own in sorted(changed, key=lambda change: not change[0]):
            lib.gpurt_job(gpu.sched, member.core, own, runnable, time.monotonic_ns())
        gpu.settle()

    # Connections

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                print("gpurt: too many connections; raise the limit of open files", file=sys.stderr)
                time.sleep(0.01)
            return
        sock.setblocking(False)
        try:
            connection = Connection(self, sock, next(self.ids))
        except OSError:
            sock.close()
            return
        self.connections[sock.fileno()] = connection
        self.epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        if connection.pidfd >= 0:
            self._pidfds[connection.pidfd] = connection
            self.epoll.register(connection.pidfd, select.EPOLLIN)

    def want_write(self, connection: Connection, wanted: bool) -> None:
        """Whether to be told when the client reads again."""
        if connection.sock.fileno() in self.connections:
            events = select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if wanted else 0)
            self.epoll.modify(connection.sock.fileno(), events)

    def drop(self, connection: Connection) -> None:
        """Forgets a connection: its clients are gone, whoever waits behind them runs."""
        if self.connections.pop(connection.sock.fileno(), None) is None:
            return
        if connection.pidfd >= 0:
            del self._pidfds[connection.pidfd]
            os.close(connection.pidfd)
        for index, member in connection.members.items():
            self.gpus[index].leave(member)
        connection.sock.close()

    def _serve_one(self, connection: Connection, events: int) -> None:
        if events & select.EPOLLOUT:
            connection.flush()
        for _ in range(BURST):
            if connection.sock.fileno() < 0:
                return
            try:
                data, sender = receive(connection.sock, lib.GPURT_MAX_PACKET + 1)
            except BlockingIOError:
                break
            except OSError:
                data, sender = b"", 0
            if not data:
                self.drop(connection)
                return
            self._packet(connection, data, sender)
        if events & (select.EPOLLHUP | select.EPOLLERR):
            self.drop(connection)

    def _packet(self, connection: Connection, data: bytes, sender: int) -> None:
        """Handles one packet; a mistake of ours costs that client its connection, and nobody else anything."""
        now = time.monotonic_ns()
        try:
            for gpu in self.gpus:
                gpu.advance(now)
            self._handle(connection, data, sender)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            print(f"gpurt: dropped client {connection.id} ({connection.peer.comm}): {text}", file=sys.stderr)
            self.drop(connection)

    def _handle(self, connection: Connection, data: bytes, sender: int) -> None:
        if len(data) < PACKET.size or len(data) > lib.GPURT_MAX_PACKET:
            self.malformed += 1
            connection.send(reply(0, 0, -errno.EINVAL, None, b""))
            return
        kind, code, cookie, _ = PACKET.unpack_from(data)
        payload = data[PACKET.size :]
        if kind == Packet.IOCTL:
            self._ioctl(connection, code, cookie, payload, sender)
        elif kind == Packet.NETLINK:
            self._netlink(connection, payload)
        elif kind == Packet.SUBSCRIBE and not payload:
            connection.subscribed = True
        else:
            self.malformed += 1
            connection.send(reply(code, cookie, -errno.EINVAL, None, b""))

    def _ioctl(self, connection: Connection, code: int, cookie: int, payload: bytes, sender: int) -> None:
        def answer(result: int, made: Any) -> None:
            if cookie and connection.sock.fileno() >= 0:
                connection.send(reply(code, cookie, result, made, payload))

        try:
            if sender != connection.peer.pid and code != lib.GPURT_IOC_QUERY:
                raise Refusal(errno.EPERM, "the connection is another process's")
            self.calls.call(connection, code, payload, answer)
        except Refusal as refusal:
            self.malformed += isinstance(refusal, Malformed)
            answer(-refusal.error, None)

    def _netlink(self, connection: Connection, payload: bytes) -> None:
        try:
            head, command, attributes = request(payload)
            records = self.control.carry_out(connection.peer, command, attributes)
        except Refusal as refusal:
            self.malformed += isinstance(refusal, Malformed)
            connection.send(refuse(head_of(payload), refusal.error, refusal.text))
            return
        for record in records:
            connection.send(message(command, record, head))
        connection.send(finish(head))

    def tell(
        self, gpu: Gpu, member: Member | None, kind: EventKind, when: int, cause: Cause | None, latency: int
    ) -> None:
        """Sends an event to whoever subscribed."""
        readers = [connection for connection in self.connections.values() if connection.subscribed]
        if not readers:
            return
        record: list[tuple[str, Any]] = [("EVENT", int(kind)), ("TIME_NS", when), ("GPU", gpu.index)]
        if member:
            record += [("CLIENT", member.id), ("PID", member.peer.pid), ("COMM", member.peer.comm)]
            record.append(("PRIORITY", member.core.level))
        if cause is not None:
            record.append(("CAUSE", int(cause)))
        if latency:
            record.append(("LATENCY_NS", latency))
        data = message(Command.EVENT, record, Head())
        for connection in readers:
            connection.send(data, droppable=True)


def default_socket() -> Path:
    """Where a host listens unless told otherwise: the system's place where that is writable, else the user's.

    Raises:
        DeviceError: there is neither.
    """
    system = Path(lib_string("GPURT_DEFAULT_SOCKET"))
    with contextlib.suppress(OSError):
        system.parent.mkdir(mode=0o755, exist_ok=True)
    if os.access(system.parent, os.W_OK):
        return system
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise DeviceError(f"{system.parent} is not writable, and there is no XDG_RUNTIME_DIR; use --socket")
    return Path(runtime) / "gpurt" / system.name


def lib_string(name: str) -> str:
    """A string constant of the interface."""
    from pycontrol._gpurt import ffi

    return bytes(ffi.string(getattr(lib, name))).decode()


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`; a stale one is removed, a live host's is not.

    Raises:
        DeviceError: another host serves there, or the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                try:
                    probe.connect(str(path))
                    raise DeviceError(f"{path}: a host serves there already; stop it or name another socket")
                except ConnectionRefusedError:
                    path.unlink()
        tell_senders(listener)
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise DeviceError(f"{path}: cannot listen there: {error.strerror or error}") from None
    except DeviceError:
        listener.close()
        raise
    return listener


def prepare(config: Config) -> list[str]:
    """Real-time priority, locked memory, many descriptors; says what was not permitted."""
    remarks = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if soft < hard else (soft, hard))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(config.priority))
    except OSError as error:
        remarks.append(f"the emulator runs without SCHED_FIFO ({error.strerror}): its times may be late")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(3):
        remarks.append(f"the emulator's memory is not locked ({os.strerror(ctypes.get_errno())})")
    gc.collect()
    gc.freeze()
    return remarks


def serve(config: Config) -> None:
    """Serves until SIGTERM or SIGINT, then removes the socket.

    Raises:
        DeviceError: the socket cannot be used.
    """
    listener = listen(config.socket)
    try:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        host = Host(config, listener)
        for remark in prepare(config):
            print(f"gpurt: {remark}", file=sys.stderr, flush=True)
        if not config.quiet:
            print(f"gpurt: serving {config.gpus} virtual GPU(s) at {config.socket}, policy {config.policy}", flush=True)
        if config.ready_fd is not None:
            os.write(config.ready_fd, b"ready\n")
            os.close(config.ready_fd)
        host.serve(reader)
    finally:
        listener.close()
        config.socket.unlink(missing_ok=True)


class Time(click.ParamType[int]):
    """A time with a unit, as nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        try:
            return value if isinstance(value, int) else parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  gpurt emulate
  gpurt emulate --gpus 2 --alpha 0.8ms --theta 200us --policy segment
\b
Exit codes: 0 ended by a signal; 2 wrong usage; 4 the socket cannot be used.""",
)
@click.option("--socket", "path", type=click.Path(path_type=Path), help="Where; /run/gpurt/host.sock if writable.")
@click.option("--gpus", default=1, show_default=True, type=click.IntRange(1, lib.GPURT_MAX_GPUS), help="Virtual GPUs.")
@click.option("--policy", default="segment", show_default=True, type=click.Choice(Policy.words()))
@click.option("--alpha", default="0ns", type=Time(), show_default=True, help="Runlist update cost.")
@click.option("--theta", default="0ns", type=Time(), show_default=True, help="GPU context switch cost.")
@click.option("--slice", "slice_", default="1024us", type=Time(), show_default=True, help="Time slice L.")
@click.option("--no-copy-engine", is_flag=True, help="Copies take the execution engine.")
@click.option("--priority", default=PRIORITY, show_default=True, type=click.IntRange(1, 99), help="Its SCHED_FIFO one.")
@click.option("--ready-fd", type=int, help="Descriptor that a line is written to once it serves.")
@click.option("--quiet", is_flag=True, help="Say only what is wrong.")
def emulate(
    path: Path | None, gpus: int, policy: str, alpha: int, theta: int, slice_: int, no_copy_engine: bool,
    priority: int, ready_fd: int | None, quiet: bool,
) -> int:  # fmt: skip
    """Serve virtual GPUs with the kernel module's interface on a Unix socket."""
    if slice_ <= 0:
        raise UsageError("--slice must be longer than 0")
    shape = Shape(alpha, theta, slice_, not no_copy_engine)
    serve(Config(path or default_socket(), gpus, policy, shape, priority, ready_fd, quiet))
    return 0


if __name__ == "__main__":
    from pycontrol.errors import GpurtError

    try:
        emulate(prog_name="gpurt emulate")
    except GpurtError as error:
        print(f"gpurt: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
