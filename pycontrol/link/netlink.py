# SPDX-License-Identifier: GPL-2.0
"""The control plane's messages (kmod/uapi/gpurt.h, enum gpurt_attr) and their two transports.

Generic netlink carries the messages to the kernel module, and packets on a Unix socket carry them to the user-space
host.  Code above a transport is the same for both.  pyroute2 gives the message format, the C compiler the numbers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, EventKind, Packet
from gpurt.errors import DeviceError, RefusedError
from gpurt.segments import explain
from pycontrol.link.formats import formats
from pycontrol.readable import readable

__all__ = [
    "HEADER", "LATER", "NLMSG_DONE", "NLMSG_ERROR", "NLM_F_CAPPED", "NLM_F_DUMP", "NLM_F_REQUEST", "NUMBERS", "PACKET",
    "PREFIX", "SOCKET_FAMILY", "TYPES", "GenericTransport", "Link", "Message", "SocketTransport", "Value",
    "_check", "decode", "done_verdict", "encode",
]  # fmt: skip

NLM_F_DUMP: int = formats.NLM_F_DUMP
NLM_F_REQUEST: int = formats.NLM_F_REQUEST
NLMSG_DONE: int = formats.NLMSG_DONE
NLMSG_ERROR: int = formats.NLMSG_ERROR

Value: TypeAlias = int | str | bytes
Attributes: TypeAlias = Mapping[str, Value]

#: The prefix of attribute names in C; Python omits it.
PREFIX = "GPURT_A_"
#: pyroute2's names of these types.
PYROUTE2 = {"u32": "uint32", "u64": "uint64", "string": "asciiz", "binary": "cdata"}
#: The number of each attribute, by its name without the prefix.
NUMBERS: dict[str, int] = {
    name.removeprefix(PREFIX): number for number, name in ffi.typeof("enum gpurt_attr").elements.items()
}
#: The type of each attribute's payload: u32, u64, string or binary (core/attributes.h).
TYPES: dict[str, str] = {
    name: ffi.string(ffi.cast("enum gpurt_attribute_type", found.type)).removeprefix("GPURT_TYPE_").lower()
    for name, number in NUMBERS.items()
    if (found := lib.gpurt_attribute_find(number))
}
#: The message type on a Unix socket.  It is fixed, because no kernel assigns family numbers there.
SOCKET_FAMILY = formats.GENL_ID_CTRL + 1
#: The flag of a dump's messages if its subject changed meanwhile (linux/netlink.h; not in pyroute2).
NLM_F_DUMP_INTR = 0x10
#: How often a changed dump is requested again.
MAX_DUMPS = 50
#: The flag of an NLMSG_ERROR that holds only the header of the request (linux/netlink.h; not in pyroute2).
NLM_F_CAPPED = 0x100
#: The bits of an attribute's type that are its number; the bits above are flags (linux/netlink.h).
NLA_TYPE_MASK = 0x3FFF
#: From asm-generic/socket.h; not in Python.
SO_RCVBUFFORCE = 33
#: How many bytes of events may wait to be read.
EVENT_ROOM_BYTES = 8 << 20
#: The end of an error about a number that only a later release's header names.
LATER = "which this release of gpurt does not know: use the host's release"
#: A host that has not answered after this time counts as hung, seconds.
HOST_PATIENCE_S = 30.0

HEADER = struct.Struct("=IHHII")
#: The size of a generic netlink header, bytes; its first byte is the command.
GENERIC_BYTES = 4
_ATTRIBUTE = struct.Struct("=HH").unpack_from
_NUMBERS = {"u32": struct.Struct("=I").unpack_from, "u64": struct.Struct("=Q").unpack_from}
#: The name of each attribute by its number, and the function that reads it if it is a number.
READERS = {NUMBERS[name]: (name, _NUMBERS.get(kind)) for name, kind in TYPES.items()}
_HEAD = struct.Struct("=I").unpack_from
#: The attributes that are numbers, by the four bytes before them (length and number), and the bytes that each takes.
_FIXED = {
    _HEAD(struct.pack("=HH", 4 + size, number))[0]: (name, _NUMBERS[kind], 4 + size)
    for kind, size in (("u32", 4), ("u64", 8)) for number, (name, _) in READERS.items() if TYPES[name] == kind
}  # fmt: skip
_COMMANDS = {int(command): command for command in Command}
PACKET = struct.Struct("=IIIi")


class GpurtMessage(formats.genlmsg):  # type: ignore[misc]
    """One message of family gpurt, as pyroute2 encodes and decodes it."""

    nla_map = tuple((NUMBERS[name], PREFIX + name, PYROUTE2[kind]) for name, kind in TYPES.items())


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded message: its command and its attributes by name, without the prefix."""

    command: Command
    attributes: dict[str, Value]


def encode(command: Command, attributes: Attributes, family: int, flags: int, sequence: int) -> bytes:
    """One request as bytes."""
    message = GpurtMessage()
    message["cmd"] = int(command)
    message["version"] = lib.GPURT_GENL_VERSION
    message["header"].update(type=family, flags=flags, sequence_number=sequence, pid=0)
    message["attrs"] = [(PREFIX + name, value) for name, value in attributes.items()]
    message.encode()
    return bytes(message.data)


def decode(data: bytes) -> Message:
    """Reads one message of family gpurt.  Omits attributes that this version does not know.

    pyroute2 takes several times as long, which a reader of 10,000 events a second would notice.

    Raises:
        DeviceError: an attribute is cut off or too short for its type, or the message is from a later release.
    """
    known: dict[str, Value] = {}
    at, end = HEADER.size + GENERIC_BYTES, len(data)
    try:
        while at + 4 <= end:
            if fixed := _FIXED.get(_HEAD(data, at)[0]):
                name, number, length = fixed
                known[name] = number(data, at + 4)[0]
                at += length
                continue
            length, kind = _ATTRIBUTE(data, at)
            if length < 4 or at + length > end:
                raise DeviceError("an attribute of the host's message is cut off")
            if found := READERS.get(kind & NLA_TYPE_MASK):
                name, reader = found
                known[name] = reader(data, at + 4)[0] if reader else _content(name, data[at + 4 : at + length])
            at += (length + 3) & ~3
    except struct.error:
        raise DeviceError("an attribute of the host's message is too short") from None
    command = _COMMANDS.get(data[HEADER.size])
    if command is None:
        raise DeviceError(f"the host sends messages of kind {data[HEADER.size]}, {LATER}")
    return Message(command, known)


def _content(name: str, data: bytes) -> Value:
    return data.partition(b"\0")[0].decode("utf-8", "replace") if TYPES[name] == "string" else data


def split(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags, sequence number and bytes of each netlink message in a datagram."""
    while len(data) >= HEADER.size:
        length, kind, flags, sequence, _ = HEADER.unpack_from(data)
        if length < HEADER.size or length > len(data):
            raise DeviceError("the host's answer is not a netlink message")
        yield kind, flags, sequence, data[:length]
        data = data[(length + 3) & ~3 :]


def error_verdict(flags: int, data: bytes) -> tuple[int, str]:
    """Error number and extack text of an NLMSG_ERROR: it holds the error, the request (or its header), attributes."""
    (error,) = struct.unpack_from("=i", data, HEADER.size)
    request, length = data[HEADER.size + 4 :], HEADER.size
    if error and not flags & NLM_F_CAPPED:
        length = (int.from_bytes(request[:4], sys.byteorder) + 3) & ~3
    return -error, _explanation(request[:length], request[length:])


def done_verdict(data: bytes) -> tuple[int, str]:
    """Error number and extack text of an NLMSG_DONE, by which the kernel can refuse a dump, too."""
    if len(data) < HEADER.size + 4:
        return 0, ""
    (error,) = struct.unpack_from("=i", data, HEADER.size)
    return -min(error, 0), _explanation(b"", data[HEADER.size + 4 :])


def _explanation(request: bytes, rest: bytes) -> str:
    """The text of an acknowledgement's attributes.  The kernel's own checks name an attribute by its offset."""
    names = [name for name, _ in formats.nlmsgerr.nla_map]
    text = culprit = ""
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if length < 4:
            break
        if kind == names.index("NLMSGERR_ATTR_MSG"):
            text = rest[4:length].rstrip(b"\0").decode("utf-8", "replace")
        elif kind == names.index("NLMSGERR_ATTR_OFFS") and length >= 8:
            culprit = _attribute_at(request, int.from_bytes(rest[4:8], sys.byteorder))
        rest = rest[(length + 3) & ~3 :]
    return f"{text}: {culprit}" if text and culprit and culprit not in text else text


def _attribute_at(request: bytes, offset: int) -> str:
    """The name of the attribute at that offset of a request; empty if this version does not know it."""
    if offset + 4 > len(request):
        return ""
    (kind,) = struct.unpack_from("=H", request, offset + 2)
    return next((PREFIX + name for name, number in NUMBERS.items() if number == kind & NLA_TYPE_MASK), "")


class Transport(Protocol):
    """Carries netlink messages to a host and back."""

    family: int

    def fileno(self) -> int:
        """A descriptor that is readable when a message has arrived."""

    def send(self, data: bytes) -> None:
        """Sends one message."""

    def receive(self, flags: int = 0) -> bytes:
        """Waits for the next datagram.  It is empty if the reader was too slow and lost some.

        Raises:
            BlockingIOError: ``flags`` has MSG_DONTWAIT, and no datagram has arrived.
        """

    def subscribe(self) -> None:
        """Joins the multicast group of events."""

    def close(self) -> None:
        """Releases the connection."""


class HungError(DeviceError):
    """The host does not answer."""

    def __init__(self, patience: float) -> None:
        cure = "if it is stopped, continue it (kill -CONT); else restart it"
        super().__init__(f"the host has not answered for {patience:.0f} s; {cure}")


class SocketTransport:
    """Packets to and from the user-space host."""

    family = SOCKET_FAMILY

    def __init__(self, path: str, patience: float = HOST_PATIENCE_S) -> None:
        """Connects.  A stopped host with many waiting connections accepts no further ones.

        Raises:
            DeviceError: no host listens there, the host does not accept within `patience` seconds, or this process may
                not connect.
        """
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._limit(patience)
            self._socket.connect(path)
            self._limit(0)
        except BlockingIOError:
            self._socket.close()
            raise HungError(patience) from None
        except OSError as error:
            self._socket.close()
            raise DeviceError(explain(path, -(error.errno or 0))) from error

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Sends one message as a packet."""
        self._packet(Packet.NETLINK, data)

    def receive(self, flags: int = 0) -> bytes:
        """The message in the next packet."""
        while True:
            try:
                packet = self._socket.recv(lib.GPURT_MAX_PACKET, flags)
            except ConnectionResetError:  # raised once; what the host sent before can still be read
                packet = self._socket.recv(lib.GPURT_MAX_PACKET, flags)
            if len(packet) < PACKET.size:
                raise DeviceError("the host closed the connection")
            kind, _, _, result = PACKET.unpack_from(packet)
            if kind == Packet.NETLINK:
                return packet[PACKET.size :]
            if result:
                raise DeviceError(explain(self._path, result))

    def subscribe(self) -> None:
        """Asks the host for events, which arrive as netlink messages."""
        self._packet(Packet.SUBSCRIBE, b"")

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _limit(self, seconds: float) -> None:
        """Limits how long connecting and sending may take, seconds; 0: no limit."""
        whole = int(seconds)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                struct.pack("@ll", whole, int((seconds - whole) * 1e6)))  # fmt: skip

    def _packet(self, kind: Packet, payload: bytes) -> None:
        try:
            self._socket.send(PACKET.pack(kind, 0, 0, 0) + payload, socket.MSG_NOSIGNAL)
        except OSError as error:
            with contextlib.suppress(BlockingIOError):
                self.receive(socket.MSG_DONTWAIT)  # the host may have said why it refuses the connection
            raise DeviceError(f"the host is gone: {error.strerror}") from error


class GenericTransport:
    """Generic netlink to and from the kernel module."""

    def __init__(self, name: str) -> None:
        """Looks the netlink family up.

        Raises:
            DeviceError: the module is not loaded, or the kernel has no generic netlink.
        """
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, formats.NETLINK_GENERIC)
        except OSError as error:
            raise DeviceError(f"generic netlink: {error.strerror}") from error
        self._socket.bind((0, 0))
        self._socket.setsockopt(formats.SOL_NETLINK, formats.NETLINK_EXT_ACK, 1)
        try:
            found = self._look_up(name)
        except DeviceError:
            self._socket.close()
            raise
        self.family = int(found.get_attr("CTRL_ATTR_FAMILY_ID"))
        self._groups = {
            group.get_attr("CTRL_ATTR_MCAST_GRP_NAME"): group.get_attr("CTRL_ATTR_MCAST_GRP_ID")
            for group in found.get_attr("CTRL_ATTR_MCAST_GROUPS") or []
        }

    def _look_up(self, name: str) -> Any:
        message = formats.ctrlmsg()
        message["cmd"] = formats.CTRL_CMD_GETFAMILY
        message["version"] = 1
        message["attrs"] = [("CTRL_ATTR_FAMILY_NAME", name)]
        message["header"].update(type=formats.GENL_ID_CTRL, flags=NLM_F_REQUEST, sequence_number=0, pid=0)
        message.encode()
        self.send(bytes(message.data))
        for kind, _, _, data in split(self.receive()):
            if kind == formats.GENL_ID_CTRL:
                answer = formats.ctrlmsg(data)
                answer.decode()
                return answer
        raise DeviceError(f"the kernel has no netlink family {name!r}; load the module: modprobe gpurt")

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Sends one message."""
        self._socket.send(data)

    def receive(self, flags: int = 0) -> bytes:
        """The next datagram."""
        try:
            return self._socket.recv(1 << 16, flags)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return b""
            raise

    def subscribe(self) -> None:
        """Joins the group of events that name processes if it exists and this process may; else the other group."""
        for name in (lib.GPURT_GENL_NAMED_EVENTS, lib.GPURT_GENL_EVENTS):
            group = self._groups.get(ffi.string(name).decode())
            try:
                if group is not None:
                    self._make_room()
                    self._socket.setsockopt(formats.SOL_NETLINK, formats.NETLINK_ADD_MEMBERSHIP, group)
                    return
            except PermissionError:
                continue

    def _make_room(self) -> None:
        """Enlarges the usual buffer, which holds few events.  A size above the system's limit needs privilege."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, EVENT_ROOM_BYTES)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, EVENT_ROOM_BYTES)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


class Link:
    """Requests and their answers over a transport."""

    def __init__(self, transport: Transport, patience: float = HOST_PATIENCE_S) -> None:
        """Uses the transport, and closes it in the end.  ``patience``: how long an answer may take, seconds."""
        self._transport = transport
        self._patience = patience
        self._sequence = 0
        self._early: list[Message] = []
        self._torn = False
        #: The host's remark about the last request, if the host carried it out; empty if there is none.
        self.remark = ""

    def request(self, command: Command, attributes: Attributes) -> list[Message]:
        """Sends a command and collects its answers, which all show one moment.

        Raises:
            RefusedError: the host refused; the text is the host's own.
            DeviceError: the host is gone or does not answer, or the answers change all the time.
        """
        kind = NLM_F_DUMP if command.name.startswith("GET_") else formats.NLM_F_ACK
        for _ in range(MAX_DUMPS):
            self._sequence += 1
            self._torn = False
            family, sequence = self._transport.family, self._sequence
            self._transport.send(encode(command, attributes, family, NLM_F_REQUEST | kind, sequence))
            answers = self._answers()
            if not self._torn:
                return answers
        raise DeviceError(f"the host's answer changed each of the {MAX_DUMPS} times that it was read; try again")

    def _answers(self) -> list[Message]:
        answers: list[Message] = []
        while True:
            for kind, flags, sequence, data in split(self._receive()):
                if sequence != self._sequence:
                    if kind == self._transport.family:
                        self._early.append(decode(data))
                    continue
                self._torn = self._torn or bool(kind != NLMSG_ERROR and flags & NLM_F_DUMP_INTR)
                if kind == NLMSG_DONE:
                    _check(*done_verdict(data))
                    return answers
                if kind == NLMSG_ERROR:
                    error, self.remark = error_verdict(flags, data)
                    _check(error, self.remark)
                    return answers
                answers.append(decode(data))

    def _receive(self) -> bytes:
        if not readable(self._transport, self._patience):
            raise HungError(self._patience)
        try:
            return self._transport.receive()
        except OSError as error:
            raise DeviceError(f"the host is gone: {error.strerror}") from error

    def events(self, timeout: float | None = None) -> Iterator[Message]:
        """Joins the group of events at once.  Yields events, and stops after `timeout` seconds without an event."""
        self._transport.subscribe()
        self.request(Command.GET_STATUS, {})  # with this answer, the subscription is certain
        return self._events(timeout)

    def more(self, timeout: float | None) -> Iterator[Message]:
        """Yields the events after those of `events`."""
        return self._events(timeout)

    def _events(self, timeout: float | None) -> Iterator[Message]:
        while True:
            while self._early:
                yield self._early.pop(0)
            try:
                data = self._transport.receive(socket.MSG_DONTWAIT)  # mostly a message waits: no poll() for each
            except BlockingIOError:
                if not readable(self._transport, timeout):
                    return
                continue
            if not data:
                lost: dict[str, Value] = {"EVENT": int(EventKind.LOST), "TIME_NS": time.monotonic_ns(), "LOST": 0}
                self._early.append(Message(Command.EVENT, lost))
            self._early += [decode(message) for kind, _, _, message in split(data) if kind == self._transport.family]

    def fileno(self) -> int:
        """A descriptor that is readable when a message has arrived."""
        return self._transport.fileno()

    def close(self) -> None:
        """Closes the transport."""
        self._transport.close()


def _check(error: int, text: str) -> None:
    """Raises RefusedError unless `error` is 0."""
    if error:
        raise RefusedError(text or os.strerror(error), error)
