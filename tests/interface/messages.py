# SPDX-License-Identifier: GPL-2.0
"""Sends raw netlink messages, right and wrong, to a host, and reads its verdicts."""

from __future__ import annotations

from pathlib import Path

from links import PATIENCE, transport_of

from gpurt.enums import Command
from pycontrol.host.wire import ATTRIBUTE, GENERIC, attribute
from pycontrol.link.netlink import (
    HEADER,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    NUMBERS,
    Value,
    done_verdict,
    error_verdict,
    split,
)
from pycontrol.readable import readable

NLM_F_ACK = 4
GETS = (Command.GET_STATUS, Command.GET_CLIENTS, Command.GET_LATENCY, Command.GET_BUS, Command.GET_RULES)
SEQUENCE = 4711


def attributes(**content: Value) -> bytes:
    """Well-formed attributes."""
    return b"".join(attribute(name, what) for name, what in content.items())


def raw_attribute(kind: int | str, data: bytes, length: int | None = None) -> bytes:
    """An attribute with any type, payload and length."""
    number = NUMBERS[kind] if isinstance(kind, str) else kind
    size = ATTRIBUTE.size + len(data) if length is None else length
    return ATTRIBUTE.pack(size, number) + data + bytes(-len(data) % 4)


def ask(
    host: Path, command: int, body: bytes = b"", *, version: int = 1, reserved: int = 0, flags: int | None = None
) -> tuple[int, str]:
    """The host's verdict on a message: error number (0: carried out) and text.

    Raises:
        AssertionError: the host does not answer within PATIENCE.
    """
    if flags is None:
        flags = NLM_F_DUMP if command in GETS else NLM_F_ACK
    transport = transport_of(host)
    payload = GENERIC.pack(command, version, reserved) + body
    head = HEADER.pack(HEADER.size + len(payload), transport.family, NLM_F_REQUEST | flags, SEQUENCE, 0)
    try:
        transport.send(head + payload)
        while True:
            assert readable(transport, PATIENCE), "no answer"
            for kind, got, sequence, data in split(transport.receive()):
                assert sequence == SEQUENCE
                if kind == NLMSG_ERROR:
                    return error_verdict(got, data)
                if kind == NLMSG_DONE:
                    return done_verdict(data)
    finally:
        transport.close()
