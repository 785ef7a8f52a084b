# SPDX-License-Identifier: GPL-2.0
"""Serving: the socket, the process's rights and limits, and the loop until a signal comes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpurt._gpurt import ffi, lib
from gpurt.errors import DeviceError
from pycontrol.host.gpu import Gpu, Tell
from pycontrol.host.loop import Host
from pycontrol.host.peer import tell_senders

PRIORITY = 98


@dataclass(frozen=True)
class Config:
    """How to serve.  ``ready_fd``: a line is written there once clients may connect."""

    socket: Path
    what: str
    make: Callable[[Tell], Sequence[Gpu]]
    priority: int = PRIORITY
    ready_fd: int | None = None
    quiet: bool = False


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
        remarks.append(f"the host runs without SCHED_FIFO ({error.strerror}): its times may be late")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(3):
        remarks.append(f"the host's memory is not locked ({os.strerror(ctypes.get_errno())})")
    gc.collect()
    gc.freeze()
    return remarks


def run(config: Config) -> None:
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
        host = Host(listener, config.make)
        for remark in prepare(config):
            print(f"gpurt: {remark}", file=sys.stderr, flush=True)
        if not config.quiet:
            print(f"gpurt: serving {config.what} at {config.socket}", flush=True)
        if config.ready_fd is not None:
            os.write(config.ready_fd, b"ready\n")
            os.close(config.ready_fd)
        host.serve(reader)
    finally:
        listener.close()
        config.socket.unlink(missing_ok=True)
