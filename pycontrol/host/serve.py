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
from dataclasses import dataclass, field
from pathlib import Path

from gpurt._gpurt import lib
from pycontrol.host.endpoint import Access, Endpoint
from pycontrol.host.gpu import Gpu, Tell
from pycontrol.host.journal import Journal
from pycontrol.host.keeper import Keeper
from pycontrol.host.loop import Host
from pycontrol.host.units import Space
from pycontrol.host.users import UserLimits

PRIORITY = 98


@dataclass(frozen=True)
class Config:
    """How to serve.  ``space``: how clients share the GPUs' units."""

    socket: Path
    access: Access
    what: str
    make: Callable[[Tell], Sequence[Gpu]]
    priority: int = PRIORITY
    quiet: bool = False
    raises: bool = False  # whether the host raises clients' threads
    space: Space | None = None
    limits: UserLimits = field(default_factory=UserLimits)  # the limits of one user


def _prepare(config: Config) -> list[str]:
    """Sets real-time priority, locked memory and many descriptors; returns what was not permitted."""
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
    gc.disable()  # a collection visits all objects of all clients, and clients leave nothing that needs one
    return remarks


def forgotten(host: Host) -> str:
    """The settings by `gpurt set` that end with the host, in words; empty: there are none."""
    priorities = sum(one.core.set != lib.GPURT_PRIORITY_OWN for gpu in host.gpus for one in gpu.clients.values())
    counts = (
        (len(host.rules.exempt.rules) + len(host.rules.barred.rules), "rules"),
        (sum(one.used for one in host.budgets.allowances.values()), "budgets"), (priorities, "priorities"),
    )  # fmt: skip
    return ", ".join(f"{what}: {count}" for count, what in counts if count)


def tell_systemd() -> None:
    """Tells systemd that clients may connect, if a unit of Type=notify started the host (sd_notify(3))."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.suppress(OSError):
            manager.sendto(b"READY=1", f"\0{place[1:]}" if place.startswith("@") else place)


def run_host(config: Config) -> None:
    """Serves until SIGTERM or SIGINT, then removes the socket.  Prints on stdout when clients may connect.

    Raises:
        DeviceError: the socket cannot be used.
    """
    host, keeper = None, Keeper()
    if config.raises:
        keeper.start(config.priority)
    endpoint = Endpoint(config.socket, config.access)
    try:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        journal = Journal(sys.stderr.fileno() if sys.stderr else -1, config.quiet)
        host = Host(endpoint.listener, config.make, keeper, config.space, config.limits, journal)
        for remark in _prepare(config):
            print(f"gpurt: {remark}", file=sys.stderr, flush=True)
        print(f"gpurt: serving {config.what} at {config.socket}", flush=True)
        tell_systemd()
        host.serve(reader)
        journal.end()
        if lost := forgotten(host):
            with contextlib.suppress(OSError):
                print(f"gpurt: what `gpurt set` set ends with this host ({lost})", file=sys.stderr, flush=True)
    finally:
        if host:
            host.threads.lower_all()
        endpoint.close()
