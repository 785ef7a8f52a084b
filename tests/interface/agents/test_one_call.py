# SPDX-License-Identifier: GPL-2.0
"""One agent switches channels of others by one call (GPURT_ORDER_MANY); on either host."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import pytest
from actors import Actor
from agent_actors import Make, begin, begun, comes, end
from links import RUNNING, eventually

from gpurt._gpurt import lib
from gpurt.enums import Tier
from pycontrol.link.control import Control

ON, MANY = lib.GPURT_ORDER_ON, lib.GPURT_ORDER_MANY
TAKEN, ANEW = lib.GPURT_ORDER_TAKEN, lib.GPURT_ORDER_ANEW


@dataclass(frozen=True)
class Switch:
    """An order, with the channels that it names."""

    code: int
    sequence: int
    on: int
    set: int = 0
    channels: tuple[tuple[int, int], ...] = ()


def tell(client: Any, number: int, set_: int, flags: int = lib.GPURT_AGENT_MANY) -> int:
    """An agent says which two channels its process has.  Returns the result."""
    channels = {"count": 2, "clients": [number, number], "channels": [1, 2]}
    return int(client.call(lib.GPURT_IOC_AGENT, tier=Tier.UNPATCHED, tsgs=1, driver=b"test", flags=flags, set=set_,
                           channels=channels)[0])  # fmt: skip


def answer(client: Any, answered: int, result: int = 0) -> Switch | None:
    """Answers an order and waits for the next, on a thread of its own; see `order`."""
    client.parked = client.start(lib.GPURT_IOC_ORDER, answered=answered, result=result, timeout_ns=lib.GPURT_FOREVER)
    client.call(lib.GPURT_IOC_QUERY)
    return order(client)


def order(client: Any) -> Switch | None:
    """The order that it waits for, if it has come."""
    if not client.parked.done():
        return None
    code, made = client.parked.result()
    many = made.channels.count if made.on & MANY else 0
    channels = tuple((made.channels.clients[at], made.channels.channels[at]) for at in range(many))
    return Switch(code, int(made.sequence), int(made.on), int(made.set), channels)


def obeys(make: Make, number: int, flags: int = lib.GPURT_AGENT_MANY) -> Actor:
    """A process whose agent waits for orders."""
    actor = make()
    assert actor.run(tell, number, 100 + number, flags) == 0
    first = actor.run(answer, 0)
    while first is not None:
        first = actor.run(answer, first.sequence)
    return actor


def handles(*numbers: int) -> set[tuple[int, int]]:
    """The channels of these processes, as their agents have told."""
    return {(number, channel) for number in numbers for channel in (1, 2)}


def test_one_agent_takes_others_off_and_they_come_back_one_after_the_other(patient: Control, make: Make) -> None:
    urgent, others = obeys(make, 1), {obeys(make, number): number for number in (2, 3, 4)}
    urgent.run(begin, 10)
    call = comes(urgent, order)
    assert (call.on & MANY, set(call.channels)) == (MANY, handles(*others.values()))
    assert urgent.run(answer, call.sequence) is None
    for other, number in others.items():
        told = comes(other, order)
        assert (told.on, told.set) == (TAKEN, 100 + number)
        assert other.run(answer, told.sequence) is None
    assert comes(urgent, begun) == RUNNING
    urgent.run(end)
    waiting = list(others)
    while waiting:
        first, *waiting = waiting
        told = comes(first, order)
        assert told.on == ON
        assert [one.run(order) for one in waiting] == [None] * len(waiting)
        assert first.run(answer, told.sequence) is None


def test_agents_that_cannot_do_that_switch_their_own(patient: Control, make: Make) -> None:
    urgent, able, unable = obeys(make, 1), [obeys(make, number) for number in (2, 3)], obeys(make, 4, flags=0)
    urgent.run(begin, 10)
    call = comes(urgent, order)
    assert (call.on, set(call.channels)) == (ON | MANY, handles(2, 3))
    assert urgent.run(answer, call.sequence) is None
    assert urgent.run(begun) is None
    told = comes(unable, order)
    assert told.on == 0
    assert unable.run(answer, told.sequence) is None
    assert comes(urgent, begun) == RUNNING
    assert [comes(one, order).on for one in able] == [TAKEN] * 2


def test_after_a_call_that_failed_each_switches_its_own_again(patient: Control, make: Make) -> None:
    """The call may have been carried out, or not."""
    urgent, others = obeys(make, 1), [obeys(make, number) for number in (2, 3)]
    urgent.run(begin, 10)
    call = comes(urgent, order)
    assert set(call.channels) == handles(2, 3)
    again = urgent.run(answer, call.sequence, -errno.EIO)
    assert again is None or urgent.run(answer, again.sequence) is None  # that it may run, as before
    for other in others:
        told = comes(other, order)
        while told.on != ANEW:
            assert told.on == TAKEN
            assert urgent.run(begun) is None
            told = other.run(answer, told.sequence) or comes(other, order)
        assert other.run(answer, told.sequence) is None
    assert comes(urgent, begun) == RUNNING


@pytest.mark.parametrize("again", [102, 103])
def test_channels_are_those_that_an_agent_told_last(patient: Control, make: Make, again: int) -> None:
    """An agent that tells another state of its channels has told them anew."""
    urgent, first, second = (obeys(make, number) for number in (1, 2, 3))
    assert first.run(tell, 9, again) == 0
    urgent.run(begin, 10)
    eventually(lambda: urgent.run(order) is not None)
    told = comes(first, order)
    assert told.on & ~ANEW == TAKEN
    assert told.set == again
    assert comes(second, order).on == TAKEN
