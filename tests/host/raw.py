# SPDX-License-Identifier: GPL-2.0
"""A client that writes and reads the host's packets itself, so that it can send wrong ones."""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpurt._gpurt import ffi, lib
from gpurt.enums import Packet
from pycontrol.host.calls import KINDS
from pycontrol.live.netlink import PACKET

#: How long anything may take before it counts as hung, seconds: far longer than a busy machine needs.
PATIENCE = 200.0

#: Starts a host with options and returns its socket.
StartHost = Callable[..., Path]


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until ``holds()`` is true; fails if it is not within PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.005)


class Raw:
    """A client that sends any bytes."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(path))
        self.cookies = itertools.count(1)
        self.early: dict[int, tuple[int, bytes]] = {}

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, code: int, payload: bytes) -> int:
        """Sends an ioctl and returns its cookie."""
        cookie = next(self.cookies)
        self.sock.send(PACKET.pack(Packet.IOCTL, code, cookie, 0) + payload)
        return cookie

    def start(self, code: int, **fields: int) -> int:
        """Sends an ioctl with a structure of the right size and returns its cookie."""
        made = ffi.new(KINDS[code] + " *", fields)
        made.size = ffi.sizeof(made[0])
        return self.send(code, bytes(ffi.buffer(made)))

    def answer(self, cookie: int) -> tuple[int, bytes]:
        """Result and structure of the call with that cookie."""
        while cookie not in self.early:
            kind, _, got, result = PACKET.unpack_from(data := self.sock.recv(1 << 16))
            assert kind == Packet.REPLY
            self.early[got] = (result, data[PACKET.size :])
        return self.early.pop(cookie)

    def answered(self, cookie: int) -> bool:
        """Whether the answer has arrived.  Does not wait for it."""
        while select.select([self.sock], [], [], 0)[0] and cookie not in self.early:
            _, _, got, result = PACKET.unpack_from(data := self.sock.recv(1 << 16))
            self.early[got] = (result, data[PACKET.size :])
        return cookie in self.early

    def call(self, code: int, **fields: int) -> tuple[int, Any]:
        """Sends an ioctl and waits; returns its result and the structure in the answer."""
        return self.result(code, self.start(code, **fields))

    def result(self, code: int, cookie: int) -> tuple[int, Any]:
        """Waits for a call that was started; returns its result and structure."""
        result, payload = self.answer(cookie)
        made = ffi.new(KINDS[code] + " *")
        ffi.memmove(made, payload, min(len(payload), ffi.sizeof(made[0])))
        return result, made

    # Shorthands that must succeed

    def begin(self, **fields: int) -> int:
        result, made = self.call(lib.GPURT_IOC_BEGIN, **fields)
        assert result == 0
        return int(made.state)

    def end(self, **fields: int) -> None:
        assert self.call(lib.GPURT_IOC_END, **fields)[0] == 0

    def tsg(self) -> int:
        result, made = self.call(lib.GPURT_IOC_TSG_OPEN)
        assert result == 0
        return int(made.tsg)

    def submit(self, tsg: int, duration: int, **fields: int) -> int:
        result, made = self.call(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=duration, **fields)
        assert result == 0
        return int(made.work)

    def finished(self, tsg: int, work: int) -> int:
        """Waits for that work and returns when it completed."""
        result, made = self.call(
            lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_WORK, tsg=tsg, work=work, timeout_ns=lib.GPURT_FOREVER
        )
        assert result == 0
        return int(made.completed_ns)
