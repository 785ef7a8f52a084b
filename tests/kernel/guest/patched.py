# SPDX-License-Identifier: GPL-2.0
"""GPU drivers with the port and without a GPU, and processes that have TSGs there.

Both drivers, fake_driver/ and kfd_driver/, offer the same device: a descriptor is a TSG, and says whether it is on the
runlist.  Each writes a line that tells of a bug into the kernel's log, and no test passes with such a line.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from actors import Actor
from links import Client, client_of, eventually
from loading import DEVICE, OUT, load, unload
from modules import insert, parameter, remove

from gpurt._gpurt import ffi, lib
from pycontrol.link.control import Control, connect

FOREVER = lib.GPURT_FOREVER


@dataclass(frozen=True)
class Driver:
    """A driver's module, which test_matrix.py builds."""

    name: str

    @property
    def file(self) -> Path:
        return OUT / f"{self.name}.ko"

    @property
    def parameters(self) -> Path:
        """There while it is loaded."""
        return Path("/sys/module") / self.name / "parameters"

    def have(self, what: str, value: int | str) -> None:
        """Has something happen to the driver's GPUs."""
        (self.parameters / what).write_text(str(value))

    def says(self, what: str) -> int:
        """A number that the driver counts."""
        return int((self.parameters / what).read_text())

    def insert(self, *options: str) -> None:
        insert(self.file, *options)

    def remove(self) -> None:
        """Removes the driver's module once it is not in use."""
        if self.parameters.exists():
            eventually(lambda: remove(self.name))

    @contextmanager
    def loaded(self, *options: str, gpurt: tuple[str, ...] = ("vgpus=0",)) -> Iterator[Control]:
        """The driver and then gpurt, and a connection to it."""
        with self.cleaned_up():
            self.insert(*options)
            load(*gpurt)
            with connect(str(DEVICE)) as control:
                yield control

    @contextmanager
    def cleaned_up(self) -> Iterator[None]:
        """Without either module at first; in the end gpurt is as other tests expect it."""
        unload()
        self.remove()
        try:
            yield
        finally:
            for name in ("fail", "late_ms"):
                if self.parameters.exists():
                    self.have(name, 0)
            for tsg in list(Tsg.all):
                tsg.close()
            self.remove()
            load()


class Tsg:
    """A TSG of the process that made it, also in processes that got its descriptor."""

    all: ClassVar[list[Tsg]] = []

    def __init__(self, fd: int | None = None, gpu: int = 0) -> None:
        self.fd = os.open("/dev/fake_gpu", os.O_RDWR) if fd is None else fd
        Tsg.all.append(self)
        if fd is None:
            os.write(self.fd, str(gpu).encode())

    def word(self) -> str:
        """Whether it is on the runlist: "on" or "off"; "gone" without its GPU."""
        return os.read(self.fd, 9).decode()

    def close(self) -> None:
        if self in Tsg.all:
            Tsg.all.remove(self)
            os.close(self.fd)


@contextmanager
def stranger(gpu: int = 0) -> Iterator[tuple[Tsg, int]]:
    """A process that is no client and has a TSG; the TSG and the process's number."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        socket.send_fds(theirs, [b"x"], [Tsg(gpu=gpu).fd])
        os.closerange(3, 1 << 16)
        signal.pause()
        os._exit(0)
    theirs.close()
    with ours:
        fds = socket.recv_fds(ours, 1, 1)[1]
    tsg = Tsg(fds[0])
    try:
        yield tsg, pid
    finally:
        tsg.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


MINE: list[Tsg] = []  # of an actor


def open_tsg(client: Client) -> None:
    MINE.append(Tsg())


def close_tsg(client: Client) -> None:
    MINE.pop().close()


def words(client: Client) -> list[str]:
    return [tsg.word() for tsg in MINE]


@contextmanager
def user() -> Iterator[Actor]:
    """A process that is a client and has a TSG."""
    with Actor(DEVICE) as actor:
        actor.run(open_tsg)
        yield actor


def granted(client: Client) -> int:
    """Waits until the client has the GPU; 0 or -errno."""
    return client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=FOREVER)


def facts() -> list[dict[str, str]]:
    """The module's facts about patched drivers' GPUs."""
    lines = parameter("patched").read_text().splitlines()
    return [dict(word.split("=", 1) for word in line.split(" ", 6)) for line in lines]


def use(used: int) -> None:
    """Begins and ends, opens and closes TSGs, whether there are modules or not.  Writes a byte in each segment."""
    handle = ffi.new("struct gpurt_handle **")
    while True:
        with suppress(OSError):
            tsg = Tsg()
            if not lib.gpurt_open(handle, b"/dev/gpurt"):
                if lib.gpurt_segment_begin(handle[0], 0, random.randrange(1, 90)) >= 0:
                    os.write(used, b".")
                lib.gpurt_segment_end(handle[0], 0)
                lib.gpurt_close(handle[0])
            tsg.close()
        time.sleep(0.02 * random.random())  # else the modules are in use at every instant


def forked(function: Callable[[int], None], argument: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            function(argument)
        finally:
            os._exit(1)
    return pid


def own(_: int) -> None:
    """A client with a TSG that begins and ends for ever."""
    tsg = Tsg()
    with client_of(DEVICE) as client:
        while tsg.word():
            client.begin(priority=60)
            time.sleep(0.001)
            client.end()
