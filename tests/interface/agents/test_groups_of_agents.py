# SPDX-License-Identifier: GPL-2.0
"""Groups of processes that agents switch: they are ordered off and on together, with one update for all."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from actors import Actor
from agent_actors import (
    PARKED,
    Make,
    Order,
    begin,
    begun,
    comes,
    end,
    enlist,
    log_of,
    look,
    park,
    ready,
    serve,
    shortly,
    strike,
)
from links import RUNNING, client_of, eventually

from gpurt._gpurt import lib
from pycontrol.link.control import Control

GROUP = "llm"


def join(client: Any) -> None:
    """The agent's descriptor becomes a member."""
    assert client.join(GROUP) == 0


def begin_as_member(client: Any) -> None:
    """As `begin`, by a descriptor that has joined."""
    client.second = client_of(client.host)
    assert client.second.join(GROUP) == 0
    client.beginning = client.second.start(lib.GPURT_IOC_BEGIN)


def join_another(client: Any) -> int:
    """A second descriptor of the process tries to join another group; 0 or -errno."""
    with client_of(client.host) as second:
        joined = int(second.join("other"))
        return joined or int(second.call(lib.GPURT_IOC_BEGIN)[0])


@pytest.fixture
def members(patient: Control, make: Make) -> list[Actor]:
    """Two processes of a group with priority 20."""
    made = [ready(make) for _ in range(2)]
    for one in made:
        one.run(join)
        patient.set_priority(one.pid, 20)
    return made


@pytest.fixture
def stranger(make: Make) -> Actor:
    return ready(make)


def off(owner: Actor, members: list[Actor]) -> None:
    """Another process has the GPU."""
    owner.run(begin, 10)
    for one in members:
        assert comes(one) == Order(0, 2, 0)
        assert one.run(park, 2) is PARKED
    assert comes(owner, begun) == RUNNING


def test_members_are_ordered_on_together_and_the_update_waits_for_all_of_them(
    members: list[Actor], stranger: Actor, patient: Control
) -> None:
    off(stranger, members)
    first, second = members
    first.run(begin_as_member)
    assert comes(stranger) == Order(0, 2, 0)
    assert [one.run(look) for one in members] == [PARKED, PARKED]
    assert stranger.run(park, 2) is PARKED
    assert [comes(one) for one in members] == [Order(0, 3, 1)] * 2
    assert first.run(park, 3) is PARKED
    shortly(first, begun)
    assert second.run(park, 3) is PARKED
    assert comes(first, begun) == RUNNING
    assert {one.pid for one in patient.clients() if one.group == GROUP} == {first.pid, second.pid}


def test_no_update_waits_for_a_member_that_is_killed(members: list[Actor], stranger: Actor, patient: Control) -> None:
    off(stranger, members)
    first, second = members
    first.run(begin_as_member)
    assert comes(stranger) == Order(0, 2, 0)
    assert stranger.run(park, 2) is PARKED
    assert [comes(one) for one in members] == [Order(0, 3, 1)] * 2
    assert first.run(park, 3) is PARKED
    strike(second)
    assert comes(first, begun) == RUNNING
    assert stranger.run(look) is PARKED
    strike(first)
    assert comes(stranger) == Order(0, 3, 1)
    assert stranger.run(park, 3) is PARKED
    eventually(lambda: patient.status()[0].client_count == 2)  # the stranger's two descriptors


def test_the_administrator_has_the_owner_and_another_process_own_the_gpu_together(patient: Control, make: Make) -> None:
    """The cure where the owner waits, in its segment, for one that is off."""
    owner, helper = ready(make), make()
    assert helper.run(enlist) == Order(0, 1, 1)
    helper.run(serve)
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    patient.set_group(owner.pid, GROUP)
    assert helper.run(log_of)[-1][2] == 0
    patient.set_group(helper.pid, GROUP)  # answers when the update is over
    assert helper.run(log_of)[-1][2] == 1
    assert owner.run(look) is PARKED  # it was not taken off
    owner.run(end)
    assert not patient.status()[0].runner_pid


def test_a_process_is_of_one_group(members: list[Actor]) -> None:
    assert members[0].run(join_another) == -errno.EBUSY
