# SPDX-License-Identifier: GPL-2.0
"""Netlink messages, as the kernel has them."""

from __future__ import annotations

import contextlib
import struct

import pytest

from gpurt.enums import Command
from gpurt.errors import DeviceError
from pycontrol.link.netlink import GENL_ID_CTRL, HEADER, NUMBERS, SOCKET_FAMILY, GenericTransport, decode, encode, split


def test_a_datagram_is_cut_where_its_messages_say() -> None:
    """Messages begin at multiples of four bytes.  One that is longer than the datagram, or than none, is no message."""
    first, second = (HEADER.pack(HEADER.size + more, kind, 3, 4, 5) + b"x" * more for kind, more in ((1, 3), (2, 0)))
    assert [*split(first + b"\0" + second)] == [(1, 3, 4, first), (2, 3, 4, second)]
    assert [*split(b""), *split(second[:-1])] == []
    for length in (0, HEADER.size - 1, HEADER.size + 1):
        with pytest.raises(DeviceError, match="not a netlink message"):
            [*split(HEADER.pack(length, 1, 3, 4, 5))]


def test_a_number_is_read_whatever_the_flags_of_its_attribute() -> None:
    """Netlink has flags in the upper bits of an attribute's type.  The host sends none so far."""
    message = encode(Command.EVENT, {}, SOCKET_FAMILY, 0, 1)
    for flag in (0, 0x4000, 0x8000):
        message += struct.pack("=HHI", 8, NUMBERS["GPU"] | flag, 7)
        assert decode(message).attributes == {"GPU": 7}


def test_the_kernel_is_asked_for_a_family_of_its_own() -> None:
    """The controller of generic netlink is such a family, on every machine that has generic netlink."""
    with contextlib.closing(transport("nlctrl")) as found:
        assert found.family == GENL_ID_CTRL
    with pytest.raises(DeviceError, match="no netlink family 'none'"):
        transport("none")


def transport(name: str) -> GenericTransport:
    try:
        return GenericTransport(name)
    except DeviceError as error:
        if str(error).startswith("generic netlink: "):
            pytest.skip(str(error))
        raise
