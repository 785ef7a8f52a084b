# SPDX-License-Identifier: GPL-2.0
"""Hosts with one GPU that agents switch: `gpurt serve`, or the module loaded with agent_gpus=1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from actors import Actor, nothing
from agent_actors import BRIEFLY, NEVER, Make, strike
from hosts import Hosts, Obedience

from pycontrol.link.control import Control, connect


def served(hosts: Hosts, obedience: Obedience) -> Iterator[Control]:
    """The control plane of such a host."""
    with connect(str(hosts.serve(obedience))) as control:
        yield control


@pytest.fixture
def patient(hosts: Hosts) -> Iterator[Control]:
    """Agents have all the time that they need."""
    yield from served(hosts, Obedience(NEVER))


@pytest.fixture
def brief(hosts: Hosts) -> Iterator[Control]:
    """Agents are late soon, and no update waits for them then."""
    yield from served(hosts, Obedience(BRIEFLY))


@pytest.fixture
def strict(hosts: Hosts) -> Iterator[Control]:
    """Agents are late soon, and the GPU is withheld from everyone then."""
    yield from served(hosts, Obedience(BRIEFLY, wait=True))


@pytest.fixture
def few(hosts: Hosts) -> Iterator[Control]:
    """An ordinary user may have two agents, which have all the time that they need."""
    yield from served(hosts, Obedience(NEVER, limit=2))


@pytest.fixture
def make(hosts: Hosts) -> Iterator[Make]:
    """Makes processes that are clients of the host; all are killed in the end."""
    made: list[Actor] = []
    with ExitStack() as stack:

        def one(first: Callable[[], None] = nothing) -> Actor:
            made.append(stack.enter_context(Actor(hosts.latest, first)))
            return made[-1]

        yield one
        for actor in made:
            strike(actor)  # all at once, for none of them obeys any more
