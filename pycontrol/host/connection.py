# SPDX-License-Identifier: GPL-2.0
"""One process's connection to the user-space host, and the host's timer."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import socket
import termios
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpurt._gpurt import lib
from gpurt.enums import Command, EventKind
from pycontrol.host.calls import Call
from pycontrol.host.gpu import Gpu, GpuClient
from pycontrol.host.groups import Group
from pycontrol.host.lanes import AGENTS, URGENT_AGENTS, Lane
from pycontrol.host.peer import Peer
from pycontrol.host.pieces import HostPieces
from pycontrol.host.threads import Callers, HostThread, Scheduling
from pycontrol.host.users import ANSWER, Account
from pycontrol.host.waiter import FOREVER
from pycontrol.host.wire import Head, Refusal, message

if TYPE_CHECKING:
    from pycontrol.host.loop import Host

#: The answers that a client may leave unread, bytes; one answer more closes its connection.
MAX_UNREAD_BYTES = 1 << 20
#: The calls that a client may have under way; each thread of a program has one at a time.
MOST_CALLS = 256
#: The packets that a socket holds: 208 KiB (net.core.wmem_default), and each packet takes at least 768 bytes.
MOST_UNREAD = 278


class Connection:
    """One connected process.  An answer comes after all events that happened before it."""

    def __init__(self, host: Host, sock: socket.socket, id_: int, peer: Peer, pidfd: int, account: Account) -> None:
        self.host, self.sock, self.id = host, sock, id_
        self.peer, self.pidfd, self.account = peer, pidfd, account
        self.clients: dict[int, GpuClient] = {}
        self.group: Group | None = None  # the group that the connection is a member of
        self.kept = False  # it joined with GPURT_GROUP_ALL
        self.answers: deque[tuple[int, bytes]] = deque()  # each with the number of the first event to send after it
        self.queued = 0
        self.streams: deque[tuple[int, Iterator[bytes]]] = deque()  # long answers, made as the client reads
        self.cursor = -1  # number of the next event for the client; -1: the client reads no events
        self.blocked = False  # the socket is full: epoll says when it has room again
        self.owed = False  # the host has noted that the connection has something to send
        self.idle_since = -1  # see Host.owe
        self.calls = 0  # how many calls are under way
        self.unread = MOST_UNREAD  # how many packets may still be read once the process has ended
        self.numbers = itertools.count()  # numbers of calls, since several calls may have one cookie
        self.waiting: dict[tuple[int, int], Call] = {}  # calls under way, by cookie and number
        self.tid = 0  # the thread that made the call under way, as the client says; 0: the main thread
        self.callers = Callers(peer.pid)
        self.pieces = HostPieces()
        self.packet: tuple[bytes, int] | None = None  # a packet that is not finished, and the process that sent it
        self.lane: Lane  # of connections that wait to be served together
        self._next: bytes | None = None  # the packet that did not fit into the socket
        self._thread: HostThread | None = None  # the last caller, which will probably be the next caller

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self.sock.fileno() < 0

    def has_unread(self) -> bool:
        """Whether the client has still to read something that was sent."""
        return not self.closed and any(fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))  # unix(7): SIOCOUTQ

    def client(self, gpu: Gpu) -> GpuClient:
        """The connection's client on a GPU, made on first use."""
        if gpu.index not in self.clients:
            self.clients[gpu.index] = self.host.admit(self, gpu)
        return self.clients[gpu.index]

    def thread(self) -> HostThread:
        """The thread that made the call under way.  Raises Unfinished, or Refusal EPERM if the process lacks it."""
        self._thread = self.host.threads.of(self.peer.pid, self.tid, self.callers.tid(self.tid), self.pieces)
        return self._thread

    def scheduling(self, thread: HostThread) -> Scheduling:
        """The scheduling of a calling thread, without a raise."""
        found = thread.own_now()
        self.callers.note(self.tid, thread.tid, found.own)
        return found

    def urgency(self) -> int:
        """The level at which the next packet is served: the highest at which a thread of the client would get a GPU."""
        own = self.callers.highest()
        level = max((gpu_level(one, own) for one in self.clients.values()), default=own)
        if any(one.agent for one in self.clients.values()):
            return URGENT_AGENTS if level else AGENTS
        return level

    def asks(self) -> None:
        """Counts a request as under way until `answered`.  Raises Refusal EDQUOT."""
        if self.calls >= MOST_CALLS:
            raise Refusal(errno.EDQUOT, f"the connection has {MOST_CALLS} calls under way, the most that it may have")
        self.account.call()
        self.calls += 1

    def answered(self) -> None:
        """Counts a request as under way no longer."""
        if not self.closed:
            self.calls -= 1
            self.account.calls -= 1

    def subscribe(self) -> None:
        """The client gets events from now on."""
        if self.cursor < 0:
            self.cursor = self.host.feed.head
            self.host.owe(self)

    def send(self, data: bytes) -> None:
        """Sends a packet, or keeps it until its turn comes or the client reads.  Drops a client that never reads."""
        waits = self.blocked or self.owed or self.answers or self.streams or 0 <= self.cursor < self.host.feed.head
        if not waits and self.host.at_once(self):
            if not self._sent(data):
                self._next = data
            return
        try:
            if self.queued + len(data) > MAX_UNREAD_BYTES:
                raise Refusal(errno.ENOBUFS, "the client does not read")
            self.account.take(len(data))
        except Refusal:
            self.host.doom(self)
            return
        self.queued += len(data)
        self.answers.append((self.host.feed.head, data))
        self.host.owe(self)

    def stream(self, packets: Iterator[bytes]) -> None:
        """Answers with any number of packets, made as the client reads.  Raises Refusal EDQUOT."""
        self.account.take(ANSWER)
        self.streams.append((self.host.feed.head, packets))
        self.host.owe(self)

    def pump(self, most: int) -> bool:
        """Sends up to ``most`` of the packets that the client awaits.  Returns whether more may be sent now."""
        for _ in range(most):
            if self._next is None:
                self._next = self._take()
            if self._next is None:
                return False
            if self._next and not self._sent(self._next):
                return False
            self._next = None
        return True

    def _sent(self, data: bytes) -> bool:
        try:
            self.sock.send(data)
        except BlockingIOError:
            self._block(True)
            return False
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client reads no more; the host still reads what the client sent before its end
        except OSError:
            self.host.doom(self)
            return False
        self._block(False)
        return True

    def _block(self, blocked: bool) -> None:
        if self.blocked != blocked:
            self.blocked = blocked
            self.host.want_write(self, blocked)

    def _take(self) -> bytes | None:
        """The next packet for the client, or None."""
        first = self.answers or self.streams
        if 0 <= self.cursor < (first[0][0] if first else self.host.feed.head):
            return self._event()
        if self.answers:
            _, data = self.answers.popleft()
            self.queued -= len(data)
            self.account.give(len(data))
            return data
        while self.streams:
            made = next(self.streams[0][1], None)
            if made is not None:
                return made
            self.streams.popleft()
            self.account.give(ANSWER)
            self.answered()
        return None

    def _event(self) -> bytes:
        """The next event, or the number of events that the client has lost by reading too late."""
        feed = self.host.feed
        lost = feed.first - self.cursor
        if lost > 0:
            self.cursor = feed.first
            event: list[tuple[str, int | str | bytes]] = [
                ("EVENT", int(EventKind.LOST)), ("TIME_NS", time.monotonic_ns()), ("LOST", lost)
            ]  # fmt: skip
            return message(Command.EVENT, event, Head())
        self.cursor += 1
        return feed.get(self.cursor - 1).packet(self.peer)

    def close(self) -> None:
        """Gives back all that the connection holds, except its clients."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.account.give(self.queued + ANSWER * len(self.streams))
        self.account.calls -= self.calls
        self.calls = self.queued = 0
        self.answers.clear()
        self.streams.clear()
        for call in self.waiting.values():
            call.forget()
        self.waiting.clear()
        self.sock.close()


def gpu_level(client: GpuClient, own: int) -> int:
    """The level of a client's next segment, if a thread of priority ``own`` begins it with the last hint."""
    return int(lib.gpurt_client_begin_level(client.core, own, client.hint))


class Timer:
    """A timerfd on CLOCK_MONOTONIC: the timeout of epoll has a resolution of 1 ms only."""

    _libc = ctypes.CDLL(None, use_errno=True)
    _itimerspec = ctypes.c_long * 4

    def __init__(self) -> None:
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._armed = int(FOREVER)

    def arm(self, when: int) -> None:
        """Makes the descriptor readable at `when` ns; FOREVER: never.

        An earlier time that was armed before stays; the host arms the timer anew when it wakes.  So each segment
        postpones the time without a system call.
        """
        if self._armed <= when:
            return
        self._armed = when
        seconds, ns = divmod(max(when, 1), 10**9)
        spec = self._itimerspec(0, 0, seconds, ns)
        self._libc.timerfd_settime(self.fd, 1, spec, None)  # 1: TFD_TIMER_ABSTIME

    def clear(self) -> None:
        """Notes that the timer went off."""
        self._armed = FOREVER
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
