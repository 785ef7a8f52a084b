# SPDX-License-Identifier: GPL-2.0
"""A host of a later release, whose header has numbers that this one lacks: an error says so, and is no bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from types import MappingProxyType
from typing import Any

import pytest

from gpurt._gpurt import lib
from gpurt.enums import Cause, Command, EventKind, Form, Image, State
from gpurt.errors import DeviceError
from pycontrol.link.control import FIELDS, ClientInfo, Control, EventRecord, GpuStatus
from pycontrol.link.netlink import HEADER, SOCKET_FAMILY, Link, Message, Value, decode, encode

ADVICE = "which this release of gpurt does not know: use the host's release"


class Later(Link):
    """Has one event to tell, and one answer to each request."""

    def __init__(self, kind: int = 0, **answer: int) -> None:
        self.kind, self.answer = kind, answer

    def more(self, timeout: float | None) -> Iterator[Message]:
        event = {"EVENT": self.kind, "TIME_NS": 5, **self.answer}
        yield decode(encode(Command.EVENT, event, SOCKET_FAMILY, 0, 1))

    def request(self, command: Command, attributes: Mapping[str, Value] = MappingProxyType({})) -> list[Message]:
        return [decode(encode(command, self.answer, SOCKET_FAMILY, 0, 1))]


def told(kind: int) -> EventRecord:
    return next(Control(Later(kind), "later").more())


def test_an_event_of_a_later_release() -> None:
    assert told(lib.GPURT_EVENT_COUNT - 1).time_ns == 5
    with pytest.raises(DeviceError, match=f"event {lib.GPURT_EVENT_COUNT}, {ADVICE}"):
        told(lib.GPURT_EVENT_COUNT)


def test_a_message_of_a_later_release() -> None:
    message = bytearray(encode(Command.EVENT, {}, SOCKET_FAMILY, 0, 1))
    assert decode(bytes(message)).command is Command.EVENT
    message[HEADER.size] = 250
    with pytest.raises(DeviceError, match=f"messages of kind 250, {ADVICE}"):
        decode(bytes(message))


@pytest.mark.parametrize(
    ("ask", "name", "count"),
    [
        (Control.status, "POLICY", lib.GPURT_POLICY_COUNT), (Control.status, "TIER", lib.GPURT_TIER_COUNT),
        (Control.status, "NOTICE", lib.GPURT_NOTICE_COUNT), (Control.status, "IMAGE", len(Image)),
        (Control.clients, "STATE", len(State)), (Control.clients, "FORM", len(Form)),
        (Control.clients, "COPY", len(State)), (Control.latency, "CAUSE", lib.GPURT_CAUSE_COUNT),
    ],
)  # fmt: skip
def test_a_number_of_a_later_release(ask: Callable[[Control], object], name: str, count: int) -> None:
    whole: dict[str, Any] = {one.upper(): kind() if kind in (int, str) else 0 for record in (GpuStatus, ClientInfo)
                             for one, (kind, default) in FIELDS[record].items() if default is MISSING}  # fmt: skip
    for number in range(count):
        assert ask(Control(Later(**{**whole, name: number}), "later"))
    with pytest.raises(DeviceError, match=f"the host sends {name.lower()} {count}, {ADVICE}"):
        ask(Control(Later(**{**whole, name: count}), "later"))


def test_an_update_for_a_reason_of_a_later_release() -> None:
    """It is no update without a reason."""
    commit = int(EventKind.COMMIT)
    events = next(Control(Later(commit, CAUSE=int(Cause.RESET)), "later").more())
    assert events.cause is Cause.RESET
    with pytest.raises(DeviceError, match=f"cause {lib.GPURT_CAUSE_COUNT}, {ADVICE}"):
        next(Control(Later(commit, CAUSE=lib.GPURT_CAUSE_COUNT), "later").more())
