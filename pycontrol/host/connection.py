# SPDX-License-Identifier: GPL-2.0
"""One process's connection to the user-space host, and the host's timer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from gpurt.enums import Command, EventKind
from pycontrol.host.gpu import Client, Gpu
from pycontrol.host.peer import Peer, watch
from pycontrol.host.threads import Thread, Threads
from pycontrol.host.waiter import FOREVER
from pycontrol.host.wire import Head, message

#: Bytes that a client may leave unread before replies close it and events are dropped.
BACKLOG = 1 << 20
#: Requests that a client may have under way before it is disconnected; a thread of a program has one.
UNANSWERED = 8192
#: Packets of a long answer that are made at once.  Then other clients have their turn.
PIECE = 64


class Owner(Protocol):
    """The host, as a connection sees it."""

    threads: Threads

    def admit(self, connection: Connection, gpu: Gpu) -> Client:
        """Makes its client on a GPU."""

    def doom(self, connection: Connection) -> None:
        """To be dropped, but not from inside a decision."""

    def want_write(self, connection: Connection, wanted: bool) -> None:
        """Whether to be told when the client reads again."""


class Connection:
    """One connected process."""

    def __init__(self, host: Owner, sock: socket.socket, id_: int) -> None:
        self.host, self.sock, self.id = host, sock, id_
        self.peer = Peer.of(sock)
        self.pidfd = watch(self.peer.pid)
        self.clients: dict[int, Client] = {}
        self.queue: deque[bytes] = deque()
        self.queued = 0
        self.streams: deque[Iterator[bytes]] = deque()  # long answers, made as the client reads
        self.blocked = False  # its socket is full, or there is more: the host is told when it can be sent
        self.lost = 0
        self.unanswered = 0
        self.tid = 0  # of the thread that made the call under way, as it says; 0: the main thread
        self._thread: Thread | None = None  # the last one, which will probably be the next one

    def client(self, gpu: Gpu) -> Client:
        """Its client on a GPU, made on first use."""
        if gpu.index not in self.clients:
            self.clients[gpu.index] = self.host.admit(self, gpu)
        return self.clients[gpu.index]

    def thread(self) -> Thread:
        """The thread that made the call under way.  Raises Refusal EPERM if it is not one of this process."""
        self._thread = self.host.threads.of(self.peer.pid, self.tid)
        return self._thread

    def asks(self) -> None:
        """A request has come, and is under way until `unanswered` is counted down."""
        self.unanswered += 1
        if self.unanswered > UNANSWERED:
            self.host.doom(self)

    def send(self, data: bytes, droppable: bool = False) -> None:
        """Sends a packet, or keeps it until the client reads; one that never does is disconnected."""
        if self.queued + len(data) > BACKLOG:
            if droppable:
                self.lost += 1
            else:
                self.host.doom(self)
            return
        self.queue.append(data)
        self.queued += len(data)
        if len(self.queue) == 1:
            self.flush()

    def stream(self, packets: Iterator[bytes]) -> None:
        """Sends packets that are made as the client reads, however many there are."""
        self.streams.append(packets)
        self.flush()

    def _refill(self) -> None:
        """Makes the next packets of a long answer, if all before have been sent."""
        if self.queue or not self.streams:
            return
        made = list(islice(self.streams[0], PIECE))
        if len(made) < PIECE:
            self.streams.popleft()
        self.queue.extend(made)
        self.queued += sum(map(len, made))

    def flush(self) -> None:
        """Sends what it can."""
        self._refill()
        while self.queue:
            try:
                self.sock.send(self.queue[0])
            except BlockingIOError:
                break
            except OSError:
                self.host.doom(self)
                return
            self.queued -= len(self.queue.popleft())
        if not self.queue and self.lost:
            lost, self.lost = self.lost, 0
            event: list[tuple[str, Any]] = [
                ("EVENT", int(EventKind.LOST)), ("TIME_NS", time.monotonic_ns()), ("LOST", lost)
            ]  # fmt: skip
            self.send(message(Command.EVENT, event, Head()), droppable=True)
        if self.blocked != bool(self.queue or self.streams):
            self.blocked = not self.blocked
            self.host.want_write(self, self.blocked)


class Timer:
    """A timerfd on CLOCK_MONOTONIC: epoll's own timeout is only good for milliseconds."""

    _libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self) -> None:
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._armed = -1

    def arm(self, when: int) -> None:
        """Makes the descriptor readable at `when` ns; FOREVER disarms it."""
        if when == self._armed:
            return
        self._armed = when
        seconds, ns = (0, 0) if when == FOREVER else divmod(max(when, 1), 10**9)
        spec = (ctypes.c_long * 4)(0, 0, seconds, ns)
        self._libc.timerfd_settime(self.fd, 1, spec, None)  # 1: TFD_TIMER_ABSTIME

    def clear(self) -> None:
        """Takes note that it went off."""
        self._armed = -1
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
