# SPDX-License-Identifier: GPL-2.0
"""Owners of agents, where that takes a kernel: users, user namespaces, and a process that executes another program."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from actors import Actor, nothing
from agent_actors import PARKED, Make, begin, comes, enlist, ordinary, park, ready, strike
from links import client_of, eventually
from loading import DEVICE, load, unload

from pycontrol.link.control import Control, connect

CLONE_NEWUSER = 0x10000000


@pytest.fixture
def strict() -> Iterator[Control]:
    """Two GPUs of agents; a user may have one agent on each, and that has all the time that it needs."""
    load("agent_gpus=2", "vgpus=0", "agent_bound_ms=60000", "agent_limit=1")
    DEVICE.chmod(0o666)
    with connect(str(DEVICE)) as control:
        yield control
    unload()
    load()


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes processes; all are killed in the end."""
    made: list[Actor] = []
    with ExitStack() as stack:

        def one(first: Callable[[], None] = nothing) -> Actor:
            made.append(stack.enter_context(Actor(DEVICE, first)))
            return made[-1]

        yield one
        for actor in made:
            strike(actor)


def enter_namespace() -> None:
    """Becomes root of a user namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWUSER) == 0, os.strerror(ctypes.get_errno())


def container_of_root() -> None:
    """Root makes a user namespace."""
    enter_namespace()


def container_of_a_user() -> None:
    """An ordinary user makes a user namespace."""
    ordinary()
    enter_namespace()


def test_containers_of_root_do_not_share_a_limit(strict: Control, make: Make) -> None:
    first, second, ordinary_one = make(container_of_root), make(container_of_root), make(ordinary)
    assert [one.run(enlist).code for one in (first, second, ordinary_one)] == [0, 0, 0]
    assert strict.status()[0].refused == 0


def test_namespaces_that_a_user_makes_share_his_limit(strict: Control, make: Make) -> None:
    outside, inside, another = make(ordinary), make(container_of_a_user), make(container_of_a_user)
    assert inside.run(enlist).code == 0
    assert [one.run(enlist).code for one in (outside, another)] == [-errno.EDQUOT] * 2
    assert strict.status()[0].refused == 2


def has_two_descriptors(client: Any) -> int:
    """An agent on GPU 1; then a client of GPU 0 by a descriptor that is newer, and so ends first."""
    code: int = enlist(client, gpu=1).code
    client.newer = client_of(client.host)
    client.newer.begin()
    client.newer.end()
    return code


def becomes(client: Any, program: Path, drops: bool, path: Path) -> None:
    """Executes a program, as an ordinary user if it ``drops`` its rights first.  Its descriptors stay open."""
    result = os.open(path, os.O_WRONLY | os.O_CREAT)
    for kept in (result, client.descriptor(), client.newer.descriptor()):
        os.set_inheritable(kept, True)
    executable = os.open(program, os.O_RDONLY)  # the folder may be root's
    if drops:
        ordinary()
    os.execve(executable, [str(program), str(result)], {})


class Executed:
    """A process with an agent of root on GPU 1, which executes a program that registers an agent of its own.

    The old program's clients cannot end before `finish`: until then an update of GPU 0 is under way.
    """

    def __init__(self, make: Make, program: Path, path: Path) -> None:
        self.process, self.silent, owner = make(), ready(make), make()
        assert self.process.run(has_two_descriptors) == 0
        owner.run(begin, 10)
        self.off = comes(self.silent)
        self.program, self.path = program, path

    def execute(self, drops: bool) -> int:
        """The error number that the new program's agent gets."""
        self.process.start(becomes, self.program, drops, self.path)
        eventually(lambda: self.path.exists() and bool(self.path.read_text()))
        return int(self.path.read_text())

    def finish(self) -> None:
        """The update ends."""
        assert self.off.on == 0
        assert self.silent.run(park, self.off.sequence) is PARKED


def clients_of(control: Control, gpu: int) -> int:
    """How many clients the GPU has."""
    return sum(one.gpu == gpu for one in control.clients())


def test_a_program_that_drops_its_rights_has_not_its_predecessors_agents(
    strict: Control, make: Make, compiled: Path, tmp_path: Path
) -> None:
    executed, another = Executed(make, compiled / "agent", tmp_path / "error"), make(ordinary)
    assert another.run(enlist, 1, 1).code == 0
    assert executed.execute(drops=True) == errno.EDQUOT
    executed.finish()


def test_the_late_end_of_a_program_leaves_the_agent_of_the_next_one(
    strict: Control, make: Make, compiled: Path, tmp_path: Path
) -> None:
    executed = Executed(make, compiled / "agent", tmp_path / "error")
    assert executed.execute(drops=False) == 0
    assert (clients_of(strict, 1), strict.status()[1].driver) == (2, "new")
    executed.finish()
    eventually(lambda: clients_of(strict, 1) == 1)
    assert strict.status()[1].driver == "new"
