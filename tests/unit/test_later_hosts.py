# SPDX-License-Identifier: GPL-2.0
"""A host of a later release, whose header has numbers that this one lacks: an error says so, and is no bug."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpurt._gpurt import lib
from gpurt.enums import Command
from gpurt.errors import DeviceError
from pycontrol.live.control import Control, EventRecord
from pycontrol.live.netlink import HEADER, SOCKET_FAMILY, Link, Message, decode, encode

ADVICE = "which this release of gpurt does not know: use the host's release"


class Later(Link):
    """Has one event to tell."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def more(self, timeout: float | None) -> Iterator[Message]:
        yield decode(encode(Command.EVENT, {"EVENT": self.kind, "TIME_NS": 5}, SOCKET_FAMILY, 0, 1))


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
