# SPDX-License-Identifier: GPL-2.0
"""One process's connection to the user-space host, and the host's timer."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import socket
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

#: Bytes that a client may leave unread before an answer closes its connection.
MAX_UNREAD_BYTES = 1 << 20
#: Calls that a client may have under way; a thread of a program has one.
MOST_CALLS = 256
#: Packets that a socket holds: of its 208 KiB each takes 768 bytes at least (net.core.wmem_default).
MOST_UNREAD = 278


class Connection:
    """One connected process.  Answers come after the events that were told of before them."""

    def __init__(self, host: Host, sock: socket.socket, id_: int, peer: Peer, pidfd: int, account: Account) -> None:
        self.host, self.sock, self.id = host, sock, id_
        self.peer, self.pidfd, self.account = peer, pidfd, account
        self.clients: dict[int, GpuClient] = {}
        self.group: Group | None = None  # of which it is a member
        self.kept = False  # it joined with GPURT_GROUP_ALL
        self.answers: deque[tuple[int, bytes]] = deque()  # each with the number of the first event that comes after it
        self.queued = 0
        self.streams: deque[tuple[int, Iterator[bytes]]] = deque()  # long answers, made as it reads; empty: none yet
        self.cursor = -1  # number of the event that it gets next; -1: it reads none
        self.blocked = False  # its socket is full: the host is told when it can be sent
        self.owed = False  # the host knows that there is something to send
        self.idle_since = -1  # see Host.owe
        self.calls = 0  # under way
        self.unread = MOST_UNREAD  # packets that are read once the process has ended
        self.numbers = itertools.count()  # of calls: several may have one cookie
        self.waiting: dict[tuple[int, int], Call] = {}  # calls under way, by their cookies and numbers
        self.tid = 0  # of the thread that made the call under way, as it says; 0: the main thread
        self.callers = Callers(peer.pid)
        self.pieces = HostPieces()
        self.packet: tuple[bytes, int] | None = None  # one that is not finished, and the process that sent it
        self.lane: Lane  # whose members wait to be served
        self._next: bytes | None = None  # the packet that did not fit
        self._thread: HostThread | None = None  # the last one, which will probably be the next one

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self.sock.fileno() < 0

    def client(self, gpu: Gpu) -> GpuClient:
        """Its client on a GPU, made on first use."""
        if gpu.index not in self.clients:
            self.clients[gpu.index] = self.host.admit(self, gpu)
        return self.clients[gpu.index]

    def thread(self) -> HostThread:
        """The thread that made the call under way.  Raises Unfinished, or Refusal EPERM: its process has none such."""
        self._thread = self.host.threads.of(self.peer.pid, self.tid, self.callers.tid(self.tid), self.pieces)
        return self._thread

    def scheduling(self, thread: HostThread) -> Scheduling:
        """The scheduling of the thread that makes a call, apart from being raised."""
        found = thread.own_now()
        self.callers.note(self.tid, thread.tid, found.own)
        return found

    def urgency(self) -> int:
        """The level that its next packet is served at: the highest at which one of its threads would get a GPU."""
        own = self.callers.highest()
        level = max((gpu_level(one, own) for one in self.clients.values()), default=own)
        if any(one.agent for one in self.clients.values()):
            return URGENT_AGENTS if level else AGENTS
        return level

    def asks(self) -> None:
        """A request has come, and is under way until `answered`.  Raises Refusal EDQUOT."""
        if self.calls >= MOST_CALLS:
            raise Refusal(errno.EDQUOT, f"the connection has {MOST_CALLS} calls under way, the most that it may have")
        self.account.call()
        self.calls += 1

    def answered(self) -> None:
        """A request is under way no longer."""
        if not self.closed:
            self.calls -= 1
            self.account.calls -= 1

    def subscribe(self) -> None:
        """It gets events from now on."""
        if self.cursor < 0:
            self.cursor = self.host.feed.head
            self.host.owe(self)

    def send(self, data: bytes) -> None:
        """Sends a packet, or keeps it until its turn comes or the client reads.  One that never does is dropped."""
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
        """Answers with packets that are made as the client reads, however many there are.  Raises Refusal EDQUOT."""
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
            pass  # it reads no more: its end comes after what it has sent
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
        """The next event, or how many it has lost because it did not read."""
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
        """Gives back what it has, except its clients."""
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
    """The level of a client's next segment, if a thread of priority ``own`` begins it like the last one."""
    return int(lib.gpurt_client_begin_level(client.core, own, client.hint))


class Timer:
    """A timerfd on CLOCK_MONOTONIC: epoll's own timeout is only good for milliseconds."""

    _libc = ctypes.CDLL(None, use_errno=True)
    _itimerspec = ctypes.c_long * 4

    def __init__(self) -> None:
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._armed = int(FOREVER)

    def arm(self, when: int) -> None:
        """Makes the descriptor readable at `when` ns; FOREVER: never.

        An earlier time that was armed before stays; whoever it wakes arms the timer anew.  So postponing the time in
        each segment costs no system call.
        """
        if self._armed <= when:
            return
        self._armed = when
        seconds, ns = divmod(max(when, 1), 10**9)
        spec = self._itimerspec(0, 0, seconds, ns)
        self._libc.timerfd_settime(self.fd, 1, spec, None)  # 1: TFD_TIMER_ABSTIME

    def clear(self) -> None:
        """Takes note that it went off."""
        self._armed = FOREVER
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
