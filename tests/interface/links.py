# SPDX-License-Identifier: GPL-2.0
"""Clients that can send wrong calls: over the emulator's socket, or over the kernel module's device.

Both have the same methods, so that a test is the same for both hosts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import platform
import signal
import socket
import stat
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpurt._gpurt import ffi, lib
from gpurt.enums import Packet
from pycontrol.host.calls import KINDS
from pycontrol.link.netlink import PACKET, GenericTransport, SocketTransport
from pycontrol.readable import readable

T = TypeVar("T")
#: How long anything may take before it counts as hung, seconds: far longer than a busy or emulated machine needs.
PATIENCE = 200.0
MS = 1_000_000
IDLE, PENDING, RUNNING = lib.GPURT_STATE_IDLE, lib.GPURT_STATE_PENDING, lib.GPURT_STATE_RUNNING
#: The number of ioctl(2) as /proc/PID/syscall prints it.
IOCTL = {"x86_64": "16", "aarch64": "29"}.get(platform.machine(), "")

# Python's fcntl.ioctl takes no bad pointers, and may hide EINTR.
_ioctl = ctypes.CDLL(None, use_errno=True).ioctl
_ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]


def is_device(host: Path) -> bool:
    """Whether the host is the kernel module."""
    return stat.S_ISCHR(host.stat().st_mode)


def listening(path: Path) -> socket.socket:
    """A socket at ``path`` that listens, as a daemon's."""
    made = socket.socket(socket.AF_UNIX)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.bind(str(path))
    made.listen()
    return made


def eventually(holds: Callable[[], object]) -> None:
    """Waits until ``holds()`` is true; fails if it is not within PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.002)


def await_host(host: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a host that writes to that file serves; ends it, and fails, if it does not."""
    try:
        eventually(lambda: "gpurt: serving" in log.read_text() or host.poll() is not None)
        assert host.poll() is None, log.read_text()
    except AssertionError:
        host.kill()
        host.wait()
        raise


def ioctl(fd: int, code: int, address: int | None) -> int:
    """The system call: 0 or -errno."""
    return int(-ctypes.get_errno() if _ioctl(fd, code, address) < 0 else 0)


def structure(code: int, **fields: int | bytes) -> bytes:
    """The structure of an ioctl; its size field is right unless ``fields`` has another."""
    made = ffi.new(KINDS[code] + " *", {"size": ffi.sizeof(KINDS[code]), **fields})
    return bytes(ffi.buffer(made))


class Pending(Protocol):
    """A call that has reached the host."""

    def done(self) -> bool:
        """Whether the answer has arrived.  Does not wait."""

    def wait(self) -> tuple[int, bytes]:
        """Waits; returns the result (0 or -errno) and the structure in the answer."""


@dataclass(frozen=True)
class Call:
    """A started call with a structure of the right type."""

    code: int
    pending: Pending

    def done(self) -> bool:
        """Whether the answer has arrived.  Does not wait."""
        return self.pending.done()

    def result(self) -> tuple[int, Any]:
        """Waits; returns the result (0 or -errno) and the structure in the answer."""
        result, payload = self.pending.wait()
        made = ffi.new(KINDS[self.code] + " *")
        ffi.memmove(made, payload, min(len(payload), ffi.sizeof(made[0])))
        return result, made


class Client(ABC):
    """A client: one descriptor of this process.  A context manager.

    ``tid``: the thread that calls are said to be of, 0 for the main thread.  The kernel module knows it without.
    """

    host: Path
    tid = 0

    @abstractmethod
    def send(self, code: int, payload: bytes) -> Pending:
        """Makes a call with those bytes.  Returns when the call has reached the host."""

    @abstractmethod
    def close(self) -> None:
        """Closes the descriptor, which ends the client."""

    @abstractmethod
    def descriptor(self) -> int:
        """The descriptor."""

    def exchange(self, code: int, payload: bytes) -> tuple[int, bytes]:
        """Makes a call with those bytes and waits for its answer."""
        return self.send(code, payload).wait()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, code: int, **fields: int | bytes) -> Call:
        """Starts a call that may block."""
        return Call(code, self.send(code, structure(code, **fields)))

    def call(self, code: int, **fields: int | bytes) -> tuple[int, Any]:
        """Makes a call and waits; returns its result and the structure in the answer."""
        result, payload = self.exchange(code, structure(code, **fields))
        made = ffi.new(KINDS[code] + " *")
        ffi.memmove(made, payload, ffi.sizeof(made[0]))
        return result, made

    def code(self, code: int, **fields: int) -> int:
        """Makes a call and waits; returns only the result, 0 or -errno."""
        return self.call(code, **fields)[0]

    def join(self, group: str, flags: int = 0) -> int:
        """Joins a group; returns only the result."""
        return self.call(lib.GPURT_IOC_GROUP_JOIN, name=group.encode(), flags=flags)[0]

    def granted(self, timeout_ns: int = lib.GPURT_FOREVER) -> Call:
        """Starts to wait for the GPU."""
        return self.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=timeout_ns)

    # Shorthands that must succeed

    def begin(self, **fields: int) -> int:
        """Begins a segment and returns the client's state."""
        result, made = self.call(lib.GPURT_IOC_BEGIN, **fields)
        assert result == 0, os.strerror(-result)
        return int(made.state)

    def end(self, **fields: int) -> None:
        """Ends the innermost segment."""
        assert self.code(lib.GPURT_IOC_END, **fields) == 0

    def tsg(self, **fields: int) -> int:
        """Opens a time-slice group and returns its number."""
        result, made = self.call(lib.GPURT_IOC_TSG_OPEN, **fields)
        assert result == 0, os.strerror(-result)
        return int(made.tsg)

    def close_tsg(self, tsg: int) -> None:
        """Closes a time-slice group."""
        assert self.code(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg) == 0

    def submit(self, tsg: int, duration: int, **fields: int) -> int:
        """Submits work and returns its number."""
        result, made = self.call(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=duration, **fields)
        assert result == 0, os.strerror(-result)
        return int(made.work)

    def finished(self, tsg: int, work: int) -> int:
        """Waits for that work and returns when it completed."""
        fields = {"what": lib.GPURT_WAIT_WORK, "tsg": tsg, "work": work, "timeout_ns": lib.GPURT_FOREVER}
        result, made = self.call(lib.GPURT_IOC_WAIT, **fields)
        assert result == 0, os.strerror(-result)
        return int(made.completed_ns)


class SocketClient(Client):
    """A client of the emulator: sends packets."""

    def __init__(self, host: Path) -> None:
        self.host = host
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(host))
        self.cookies = itertools.count(1)
        self.early: dict[int, tuple[int, bytes]] = {}

    def close(self) -> None:
        self.sock.close()

    def descriptor(self) -> int:
        return self.sock.fileno()

    def send(self, code: int, payload: bytes) -> Pending:
        cookie = next(self.cookies)
        self.sock.send(PACKET.pack(Packet.IOCTL, code, cookie, self.tid) + payload)
        return SocketPending(self, cookie)

    def receive(self) -> None:
        """Receives one answer and stores it."""
        kind, _, cookie, result = PACKET.unpack_from(data := self.sock.recv(1 << 16))
        assert kind == Packet.REPLY
        self.early[cookie] = (result, data[PACKET.size :])


@dataclass
class SocketPending:
    """A packet that was sent; answers come in any order.  The answer stays, however often it is asked for."""

    client: SocketClient
    cookie: int
    outcome: tuple[int, bytes] | None = None

    def done(self) -> bool:
        while not self._arrived() and readable(self.client.sock, 0):
            self.client.receive()
        return self.outcome is not None

    def wait(self) -> tuple[int, bytes]:
        while not self._arrived():
            self.client.receive()
        assert self.outcome
        return self.outcome

    def _arrived(self) -> bool:
        if self.outcome is None:
            self.outcome = self.client.early.pop(self.cookie, None)
        return self.outcome is not None


class DeviceClient(Client):
    """A client of the kernel module: makes ioctls.  An ioctl that may block gets a thread of its own."""

    def __init__(self, host: Path) -> None:
        self.host = host
        self.fd = os.open(host, os.O_RDWR | os.O_CLOEXEC)
        self.calls: list[DevicePending] = []

    def close(self) -> None:
        """Interrupts blocked calls first: they would keep the descriptor open."""
        for call in self.calls:
            while not call.done():
                call.interrupt()
                call.thread.join(0.01)
        self.calls = []
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def descriptor(self) -> int:
        return self.fd

    def send(self, code: int, payload: bytes) -> Pending:
        pending = DevicePending(self.fd, code, payload)
        self.calls.append(pending)
        pending.begin()
        return pending

    def exchange(self, code: int, payload: bytes) -> tuple[int, bytes]:
        buffer = ctypes.create_string_buffer(payload, len(payload))
        return ioctl(self.fd, code, ctypes.addressof(buffer)), buffer.raw


class DevicePending:
    """An ioctl on its own thread."""

    def __init__(self, fd: int, code: int, payload: bytes) -> None:
        self.buffer = ctypes.create_string_buffer(payload, len(payload))
        self.outcome: int | None = None
        self.thread = threading.Thread(target=self._run, args=(fd, code), daemon=True)

    def _run(self, fd: int, code: int) -> None:
        self.outcome = ioctl(fd, code, ctypes.addressof(self.buffer))

    def begin(self) -> None:
        """Starts the thread.  Returns when the call is answered or sleeps in the kernel, so calls have an order."""
        self.thread.start()
        eventually(lambda: self.done() or self._sleeps())

    def _sleeps(self) -> bool:
        task = Path(f"/proc/self/task/{self.thread.native_id}")
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            return state in "SD" and (task / "syscall").read_text().split()[0] == IOCTL
        except OSError:
            return False

    def interrupt(self) -> None:
        """Sends the thread a signal that has a handler.  Only the main thread may set the handler."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, lambda *_: None)
        assert self.thread.ident is not None
        with contextlib.suppress(ProcessLookupError):
            signal.pthread_kill(self.thread.ident, signal.SIGUSR1)

    def done(self) -> bool:
        return self.outcome is not None

    def wait(self) -> tuple[int, bytes]:
        self.thread.join(PATIENCE)
        assert self.outcome is not None, os.strerror(errno.ETIMEDOUT)
        return self.outcome, self.buffer.raw


def client_of(host: Path) -> Client:
    """A new client of the host."""
    return DeviceClient(host) if is_device(host) else SocketClient(host)


def transport_of(host: Path) -> GenericTransport | SocketTransport:
    """A transport for raw netlink messages to the host."""
    if is_device(host):
        return GenericTransport(bytes(ffi.string(lib.GPURT_GENL_NAME)).decode())
    return SocketTransport(str(host))
