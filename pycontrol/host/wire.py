# SPDX-License-Identifier: GPL-2.0
"""The user-space host's side of the wire: reads strictly what clients send, and writes answers.

The code trusts no length.  Every refusal carries an error number and, for netlink, a text that names the attribute.
"""

from __future__ import annotations

import errno
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, Packet
from gpurt.types import CData
from pycontrol.link.netlink import (
    HEADER,
    NLM_F_CAPPED,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    NUMBERS,
    PACKET,
    PREFIX,
    SOCKET_FAMILY,
    TYPES,
    Value,
)

GENERIC = struct.Struct("=BBH")
ATTRIBUTE = struct.Struct("=HH")
NUMERIC = {"u32": struct.Struct("=I"), "u64": struct.Struct("=Q")}
#: Flags in an attribute's type (linux/netlink.h).
NLA_F_NESTED, NLA_F_NET_BYTEORDER = 1 << 15, 1 << 14
#: The flag of an NLMSG_ERROR with attributes, and the attribute that is its text (linux/netlink.h).
NLM_F_ACK_TLVS, NLMSGERR_ATTR_MSG = 0x200, 1
NLM_F_MULTI = 2

NAMES = {number: name for name, number in NUMBERS.items() if name in TYPES}


class Refusal(Exception):
    """A request that is not carried out: an error number, and a text for people."""

    def __init__(self, error: int, text: str) -> None:
        """Keeps the error number and the text."""
        super().__init__(error, text)
        self.error = error
        self.text = text


class Malformed(Refusal):
    """A packet that is no request at all; the host counts it."""

    def __init__(self, text: str, error: int = errno.EINVAL) -> None:
        """Keeps the text; the error is EINVAL unless the packet is too long (E2BIG)."""
        super().__init__(error, text)


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a request that its answer repeats."""

    kind: int = SOCKET_FAMILY
    sequence: int = 0
    port: int = 0
    dump: bool = False


# The data plane


def structure(call: CData, kind: str, payload: bytes) -> CData:
    """The structure of C type `kind` of a call (struct gpurt_call *) from a packet: a copy that the caller owns.

    The rules are "Structures that grow" in uapi/gpurt.h.

    Raises:
        Malformed: the size differs from the size that it states, or the content is unknown to this host.
    """
    if len(payload) < 4:
        raise Malformed("no structure")
    size = int.from_bytes(payload[:4], sys.byteorder)
    error = -lib.gpurt_call_check_size(call, size)
    if error == errno.EINVAL or size != len(payload):
        raise Malformed(f"{kind}: size {size} of {len(payload)} bytes")
    if error or any(payload[call.size :]):
        raise Malformed(f"{kind}: newer than this host", errno.E2BIG)
    made = ffi.new(kind + " *")
    ffi.memmove(made, payload, call.size)
    return made


def reply(code: int, cookie: int, result: int, made: CData, payload: bytes) -> bytes:
    """The packet that answers an ioctl: the result, and the structure at the length that it came in."""
    body = payload if made is None else bytes(ffi.buffer(made)) + payload[ffi.sizeof(made[0]) :]
    return PACKET.pack(Packet.REPLY, code, cookie, result) + body


# The control plane: reading


def read_request(payload: bytes) -> tuple[Head, Command, dict[str, int | str]]:
    """Reads one netlink request.

    Raises:
        Refusal: it is no request, or has attributes that are missing, unknown, repeated or of wrong size.
    """
    if len(payload) < HEADER.size + GENERIC.size:
        raise Malformed("the message is shorter than its headers")
    command, version, reserved = GENERIC.unpack_from(payload, HEADER.size)
    head = header(payload)
    if version != lib.GPURT_GENL_VERSION or reserved:
        raise Malformed(f"version {version} is not {lib.GPURT_GENL_VERSION}, or reserved bits are set")
    rules = lib.gpurt_request_find(command)
    if not rules:
        raise Refusal(errno.EOPNOTSUPP, f"no such command: {command}")
    if head.dump and not rules.dump:
        raise Refusal(errno.EOPNOTSUPP, "a SET command cannot be dumped")
    required = _names(rules.required)
    found = dict(attributes(payload[HEADER.size + GENERIC.size :], required | _names(rules.optional)))
    for name in sorted(required - found.keys()):
        raise Malformed(f"missing attribute {PREFIX}{name}")
    return head, Command(command), found


def _names(mask: int) -> set[str]:
    """The names of a set of attributes in core/attributes.h, which has a bit for each attribute."""
    return {name for number, name in NAMES.items() if mask >> number & 1}


def header(payload: bytes) -> Head:
    """Checks a netlink header and keeps the fields that the answer needs."""
    length, kind, flags, sequence, port = HEADER.unpack_from(payload)
    if length != len(payload):
        raise Malformed(f"the message says {length} bytes and has {len(payload)}")
    if kind < SOCKET_FAMILY - 1 or not flags & NLM_F_REQUEST:
        raise Malformed("not a generic netlink request")
    return Head(kind, sequence, port, flags & NLM_F_DUMP == NLM_F_DUMP)


def head_of(payload: bytes) -> Head:
    """The header of a request that may be malformed, so that it can be answered."""
    if len(payload) < HEADER.size:
        return Head()
    _, kind, _, sequence, port = HEADER.unpack_from(payload)
    return Head(kind, sequence, port)


def attributes(data: bytes, allowed: set[str]) -> Iterator[tuple[str, int | str]]:
    """Reads attributes strictly; see read_request()."""
    seen: set[str] = set()
    while data:
        if len(data) < ATTRIBUTE.size:
            raise Malformed(f"{len(data)} bytes are left over after the last attribute")
        length, kind = ATTRIBUTE.unpack_from(data)
        name = NAMES.get(kind & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER), "")
        if not name:
            raise Malformed(f"unknown attribute {kind}")
        if length < ATTRIBUTE.size or length > len(data):
            raise Malformed(f"truncated attribute {PREFIX}{name}")
        if kind & (NLA_F_NESTED | NLA_F_NET_BYTEORDER):
            raise Malformed(f"attribute {PREFIX}{name} must be neither nested nor in network byte order")
        if name in seen:
            raise Malformed(f"duplicate attribute {PREFIX}{name}")
        if name not in allowed:
            raise Malformed(f"attribute {PREFIX}{name} does not belong to this command")
        seen.add(name)
        yield name, value(name, data[ATTRIBUTE.size : length])
        data = data[(length + 3) & ~3 :]


def value(name: str, data: bytes) -> int | str:
    """The value of one attribute."""
    form = NUMERIC.get(TYPES[name])
    if form:
        if len(data) != form.size:
            raise Malformed(f"attribute {PREFIX}{name} has {len(data)} bytes, not {form.size}")
        return int(form.unpack(data)[0])
    text = data[:-1]
    if not text or b"\0" in text or data[-1:] != b"\0" or len(data) > lib.gpurt_attribute_find(NUMBERS[name]).size:
        raise Malformed(f"attribute {PREFIX}{name} is empty, too long, or has not one NUL at its end")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Malformed(f"attribute {PREFIX}{name} is not UTF-8") from None


# The control plane: writing


def attribute(name: str, content: Value) -> bytes:
    """One attribute, padded."""
    form = NUMERIC.get(TYPES[name])
    raw = content.encode() + b"\0" if isinstance(content, str) else content
    data = form.pack(content) if form else bytes(raw)
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(data), NUMBERS[name]) + data + bytes(-len(data) % 4)


def packet(kind: int, flags: int, head: Head, body: bytes) -> bytes:
    """A packet with one netlink message."""
    made = HEADER.pack(HEADER.size + len(body), kind, flags, head.sequence, head.port)
    return PACKET.pack(Packet.NETLINK, 0, 0, 0) + made + body


def message(command: Command, content: Iterable[tuple[str, Value]], head: Head) -> bytes:
    """A packet with an answer or an event."""
    body = GENERIC.pack(command, lib.GPURT_GENL_VERSION, 0)
    body += b"".join(attribute(name, what) for name, what in content)
    return packet(head.kind, NLM_F_MULTI if head.dump else 0, head, body)


def finish_answer(head: Head) -> bytes:
    """The packet that ends the answer to a successful request."""
    if head.dump:
        return packet(NLMSG_DONE, NLM_F_MULTI, head, struct.pack("=i", 0))
    return refuse(head, 0, "")


def refuse(head: Head, error: int, text: str) -> bytes:
    """An NLMSG_ERROR: an acknowledgement if `error` is 0, else a refusal with extack text."""
    body = struct.pack("=i", -error) + HEADER.pack(HEADER.size, head.kind, 0, head.sequence, head.port)
    flags = NLM_F_CAPPED
    if text:
        data = text.encode() + b"\0"
        body += ATTRIBUTE.pack(ATTRIBUTE.size + len(data), NLMSGERR_ATTR_MSG) + data + bytes(-len(data) % 4)
        flags |= NLM_F_ACK_TLVS
    return packet(NLMSG_ERROR, flags, head, body)
