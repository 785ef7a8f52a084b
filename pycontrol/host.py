# SPDX-License-Identifier: GPL-2.0
"""The commands that serve: `gpurt emulate` with virtual GPUs, `gpurt serve` with real ones and agents."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pycontrol._gpurt import ffi, lib
from pycontrol.enums import Policy
from pycontrol.errors import DeviceError, UsageError
from pycontrol.host_agents import AgentGpu, Obedience
from pycontrol.host_gpu import Gpu, Tell
from pycontrol.host_loop import Host
from pycontrol.host_peer import tell_senders
from pycontrol.host_virtual import Shape, VirtualGpu
from pycontrol.units import parse_time

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


class Time(click.ParamType[int]):
    """A time with a unit, as nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        try:
            return value if isinstance(value, int) else parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def serving(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every serving command has."""
    for option in reversed((
        click.option("--socket", "path", type=click.Path(path_type=Path),
                     help="Where; /run/gpurt/host.sock if writable."),
        click.option("--gpus", default=1, show_default=True, type=click.IntRange(1, lib.GPURT_MAX_GPUS),
                     help="How many."),
        click.option("--policy", default="segment", show_default=True, type=click.Choice(Policy.words())),
        click.option("--priority", default=PRIORITY, show_default=True, type=click.IntRange(1, 99),
                     help="Its SCHED_FIFO one."),
        click.option("--ready-fd", type=int, help="Descriptor that a line is written to once it serves."),
        click.option("--quiet", is_flag=True, help="Say only what is wrong."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  gpurt emulate
  gpurt emulate --gpus 2 --alpha 0.8ms --theta 200us --policy segment
\b
Exit codes: 0 ended by a signal; 2 wrong usage; 4 the socket cannot be used.""",
)
@serving
@click.option("--alpha", default="0ns", type=Time(), show_default=True, help="Runlist update cost.")
@click.option("--theta", default="0ns", type=Time(), show_default=True, help="GPU context switch cost.")
@click.option("--slice", "slice_", default="1024us", type=Time(), show_default=True, help="Time slice L.")
@click.option("--no-copy-engine", is_flag=True, help="Copies take the execution engine.")
def emulate(
    path: Path | None, gpus: int, policy: str, priority: int, ready_fd: int | None, quiet: bool,
    alpha: int, theta: int, slice_: int, no_copy_engine: bool,
) -> int:  # fmt: skip
    """Serve virtual GPUs with the kernel module's interface on a Unix socket."""
    if slice_ <= 0:
        raise UsageError("--slice must be longer than 0")
    shape = Shape(alpha, theta, slice_, not no_copy_engine)
    number = int(Policy.parse(policy))

    def make(tell: Tell) -> list[Gpu]:
        return [VirtualGpu(index, shape, number, tell, time.monotonic_ns) for index in range(gpus)]

    what = f"{gpus} virtual GPU(s), policy {policy},"
    run(Config(path or default_socket(), what, make, priority, ready_fd, quiet))
    return 0


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  gpurt serve
  gpurt serve --gpus 2 --answer-bound 20ms --when-late wait
\b
Exit codes: 0 ended by a signal; 2 wrong usage; 4 the socket cannot be used.""",
)
@serving
@click.option("--answer-bound", default="100ms", type=Time(), show_default=True,
              help="How long an agent may take to carry out an order.")
@click.option("--when-late", default="go-on", show_default=True, type=click.Choice(["go-on", "wait"]),
              help="An agent is late: go on, with the isolation lost, or wait for it.")  # fmt: skip
def serve(
    path: Path | None, gpus: int, policy: str, priority: int, ready_fd: int | None, quiet: bool,
    answer_bound: int, when_late: str,
) -> int:  # fmt: skip
    """Schedule real GPUs on unmodified drivers, through the agents of programs run by `gpurt run --auto`.

    Each process takes its own time-slice groups off the GPU and puts them back when this host says so; which
    drivers that works on, and its limits, are in docs/unpatched.md.
    """
    if answer_bound <= 0:
        raise UsageError("--answer-bound must be longer than 0")
    obedience = Obedience(answer_bound, when_late == "go-on")
    number = int(Policy.parse(policy))

    def make(tell: Tell) -> list[Gpu]:
        return [AgentGpu(index, obedience, number, tell, time.monotonic_ns) for index in range(gpus)]

    what = f"{gpus} GPU(s) through agents, policy {policy},"
    run(Config(path or default_socket(), what, make, priority, ready_fd, quiet))
    return 0


if __name__ == "__main__":
    from pycontrol.errors import GpurtError

    try:
        click.Group("gpurt", commands={"emulate": emulate, "serve": serve})(prog_name="gpurt")
    except GpurtError as error:
        print(f"gpurt: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
