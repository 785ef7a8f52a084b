# SPDX-License-Identifier: GPL-2.0
"""Child processes that are clients of a host and carry out functions for a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

from links import PATIENCE, Client, client_of

from pycontrol.link.control import ClientInfo, Control

#: What the child executes, or is forked to execute (tests/zygote.py).
SCRIPT = Path(__file__).parent / "actor.py"


def nothing() -> None:
    """The default for Actor's `first`: does nothing."""


def schedule(priority: int, policy: int) -> None:
    """Gives this process a real-time priority."""
    os.sched_setscheduler(0, policy, os.sched_param(priority))


def at(priority: int, policy: int = os.SCHED_FIFO) -> Callable[[], None]:
    """For Actor: gives the child a real-time priority."""
    return partial(schedule, priority, policy)


def enter(folder: Path) -> None:
    """Puts this process into a cgroup."""
    (folder / "cgroup.procs").write_text(str(os.getpid()))


class Actor:
    """A child process with one client; a context manager that kills the process in the end.

    It runs `first`, a function of a module, before its client connects.
    """

    def __init__(self, host: Path, first: Callable[[], None] = nothing) -> None:
        self.pipe, theirs = Pipe()
        command = [sys.executable, str(SCRIPT), str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self.pid = self.process.pid
        theirs.close()
        self.pipe.send((sys.path, host))
        self.pipe.send(first)

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Makes the child call a function of a module, with its client as the first argument; see `answer`."""
        self.pipe.send((function, arguments))

    def answer(self) -> Any:
        """Returns what the function returned.  Raises AssertionError with the traceback if the function raised."""
        assert self.pipe.poll(PATIENCE), "the process does not answer"
        well, value = self.pipe.recv()
        assert well, value
        return value

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Makes the child call a function, and waits for the result."""
        self.start(function, *arguments)
        return self.answer()

    def do(self, method: str, **fields: int) -> Any:
        """Makes the child call a method of its client that returns a plain value."""
        return self.run(call_method, method, fields)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Sends the child a signal and waits for its end."""
        if self.pid:
            os.kill(self.pid, how)
            self.reap()

    def reap(self) -> int:
        """Waits for the end of the child and returns its exit code; less than 0: the signal that killed it."""
        self.pipe.close()
        self.pid = 0
        return self.process.wait()


@contextmanager
def actors(host: Path) -> Iterator[Callable[..., Actor]]:
    """Makes processes that are clients of the host; all are killed in the end."""
    with ExitStack() as stack:
        yield lambda first=nothing: stack.enter_context(Actor(host, first))


def in_child(function: Callable[[], object]) -> str:
    """Calls a function in a forked child that has all descriptors of this process.

    Returns the text of the result, or the traceback.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = repr(function())
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        answer = text.read()
    os.waitpid(child, 0)
    return answer


def sleep_until_killed() -> NoReturn:
    """For a forked child; an alarm kills it if the test fails to."""
    signal.alarm(1000)
    while True:
        signal.pause()


def fork_sleeper(_client: Client) -> int:
    """Forks a child that inherits the client's descriptor and sleeps, and returns its pid."""
    pid = os.fork()
    if pid == 0:
        sleep_until_killed()
    return pid


def of(plane: Control, pid: int) -> ClientInfo:
    """The one client of a process."""
    (found,) = (one for one in plane.clients() if one.pid == pid)
    return found


def call_method(client: Client, method: str, fields: dict[str, int]) -> Any:
    """Calls a method of the client by its name."""
    return getattr(client, method)(**fields)


def act(pipe: Connection) -> None:
    """What the child does (actor.py)."""
    try:
        os.set_inheritable(pipe.fileno(), False)
        sys.path[:], host = pipe.recv()
        pipe.recv()()
        client = client_of(host)
        while True:
            function, arguments = pipe.recv()
            try:
                pipe.send((True, function(client, *arguments)))
            except Exception:
                pipe.send((False, traceback.format_exc()))
    except EOFError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
