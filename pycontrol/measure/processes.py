# SPDX-License-Identifier: GPL-2.0
"""The processes of a measurement: the program and its co-runners.  All end with this process, however it ends.

If this process is killed, the children of these processes stay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gpurt.errors import RuntimeFailure
from gpurt.text import visible
from pycontrol.ending import later
from pycontrol.measure.conditions import Condition, Here, buffer_size
from pycontrol.readable import readable

CHILD, LOAD = (Path(__file__).with_name(f"{name}.py") for name in ("child", "load"))
#: How long a co-runner may take to get ready, and a program to end after SIGINT, seconds.
READY, GRACE = 30.0, 5.0


def start(
    command: Sequence[str], environment: Mapping[str, str], *, stdout: int | None = None, priority: int = 0,
    preload: str = "",
) -> tuple[subprocess.Popen[bytes], int]:  # fmt: skip
    """Starts a program in its own process group, without stdin; returns it and the CPU time before its start, ns.

    Raises:
        RuntimeFailure: the program cannot be started.
    """
    heard, told = os.pipe()
    try:
        words = [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), str(told), str(priority), preload, *command]
        try:
            with later():  # else a process could start and not be noted
                process = subprocess.Popen(
                    words, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, pass_fds=[told]
                )  # fmt: skip
        except (OSError, ValueError) as error:  # too many arguments, or a NUL in an argument
            raise RuntimeFailure(f"{visible(command[0])}: cannot be started: {error}") from None
        finally:
            os.close(told)
        try:
            said = b"".join(iter(lambda: os.read(heard, 64), b"")).decode()
        except BaseException:  # Ctrl-C
            over(process)
            raise
    finally:
        os.close(heard)
    before, _, failed = said.partition("!")
    if failed or not before:
        over(process)
        why = os.strerror(int(failed)) if failed else f"status {process.returncode}"
        raise RuntimeFailure(f"{visible(command[0])}: cannot be started: {why}")
    return process, int(before)


def _end(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """Sends a signal to the remaining processes of a process's group."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def over(process: subprocess.Popen[bytes]) -> None:
    """Kills the remaining processes of a process's group."""
    _end(process)
    with suppress(PermissionError):
        process.kill()  # it may not have made its group yet
    process.wait()


def interrupt_program(process: subprocess.Popen[bytes]) -> bool:
    """Ends a program by SIGINT, or by SIGKILL after GRACE seconds; returns whether SIGINT was enough."""
    _end(process, signal.SIGINT)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def running_beside(condition: Condition, here: Here, device: str) -> Iterator[Sequence[int]]:
    """While the context is entered, the condition's co-runners execute; yields their process groups.

    Raises:
        RuntimeFailure: a co-runner does not start, or has ended before the context ends.
    """
    environment = {**os.environ, "GPURT_DEVICE": device}
    with ExitStack() as stack:
        groups = [stack.enter_context(_running(command, environment, ready=True)) for command in _loads(condition)]
        if condition is Condition.BESIDE:
            groups.append(stack.enter_context(_running(here.beside, environment, ready=False)))
        yield groups


def _loads(condition: Condition) -> list[list[str]]:
    """The commands of gpurt's own co-runners."""
    script = [sys.executable, str(LOAD)]
    if condition is Condition.CPU:
        cpus = sorted(os.sched_getaffinity(0))
        return [[*script, "cpu", str(cpu), str(buffer_size() // len(cpus))] for cpu in cpus]
    return [[*script, "gpu"]] if condition is Condition.GPU else []


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str], ready: bool) -> Iterator[int]:
    stdout = subprocess.PIPE if ready else subprocess.DEVNULL
    process, _ = start(command, environment, stdout=stdout)
    try:
        if ready and process.stdout:
            _await(process.stdout.fileno(), command)
        yield process.pid
        if process.poll() is not None:
            raise RuntimeFailure(
                f"the co-runner {visible(' '.join(command))} ended before the program, with status "
                f"{process.returncode}: it must execute until it is killed"
            )
    finally:
        over(process)
        if process.stdout:
            process.stdout.close()


def _await(descriptor: int, command: Sequence[str]) -> None:
    """Raises RuntimeFailure unless a co-runner reports that it works."""
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        if readable(descriptor, 1.0):
            if os.read(descriptor, 64):
                return
            break
    raise RuntimeFailure(f"the co-runner {visible(' '.join(command))} did not get to work")
