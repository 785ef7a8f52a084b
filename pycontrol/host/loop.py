# SPDX-License-Identifier: GPL-2.0
"""The user-space host: the module's interface on a Unix socket, over virtual GPUs or over agents.

One process, one thread, one epoll loop with one timer.  Nothing in it blocks on a client: sockets do not block,
what a client does not read is bounded, and a client that breaks the rules gets an error and is counted.
"""

from __future__ import annotations

import errno
import itertools
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpurt._gpurt import lib
from gpurt.enums import Cause, Command, EventKind, Packet
from gpurt.text import visible
from pycontrol import procs
from pycontrol.host.budgets import Budgets
from pycontrol.host.calls import Calls
from pycontrol.host.commands import Commands, Record
from pycontrol.host.connection import Connection, Timer
from pycontrol.host.gpu import Client, Gpu, Mark, Tell
from pycontrol.host.keeper import Keeper
from pycontrol.host.peer import Rules, receive
from pycontrol.host.threads import Threads
from pycontrol.host.units import Space
from pycontrol.host.waiter import FOREVER, Deadlines
from pycontrol.host.wire import Head, Malformed, Refusal, finish, head_of, message, refuse, reply, request
from pycontrol.live.netlink import PACKET

#: How much earlier than an event is due the host wakes, to be on time whatever waking takes; it spins the rest, ns.
LEAD = 120_000
JOB = lib.GPURT_POLICY_JOB
COPIES = (EventKind.COPY_ASK, EventKind.COPY_BEGIN, EventKind.COPY_END)


def level_of(client: Client, kind: EventKind) -> int:
    """The priority that decides in what an event is about."""
    return int(client.copier.node.level if kind in COPIES else client.core.level)


class Host:
    """All GPUs and all connections."""

    def __init__(
        self, listener: socket.socket, make: Callable[[Tell], Sequence[Gpu]], keeper: Keeper, space: Space | None = None
    ) -> None:
        """Serves what connects to `listener` with the GPUs that `make` makes, given the function to tell of events.

        `space`: how their units are shared; None if they are not.
        """
        self.listener = listener
        self.rules = Rules()
        self.budgets = Budgets()
        self.threads = Threads(keeper)
        self.malformed = 0
        self.running = True
        self.connections: dict[int, Connection] = {}
        self._pidfds: dict[int, Connection] = {}
        self.readers: set[Connection] = set()  # of events
        self.ids = itertools.count(1)  # of connections and of clients
        self.deadlines = Deadlines()
        self._next_poll = 0
        self._doomed: list[Connection] = []
        self.gpus = make(self.tell)
        self.space = space
        self.calls = Calls(self.gpus, time.monotonic_ns, self.deadlines, space)
        self.commands = Commands(self.gpus, self.rules, self.budgets, lambda: self.malformed, time.monotonic_ns, space)
        self.epoll = select.epoll()
        self.timer = Timer()
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        self.epoll.register(self.timer.fd, select.EPOLLIN)
        self._listening = True

    # The loop

    def serve(self, wake: int) -> None:
        """Serves until stopped; `wake` is a descriptor that signals are written to."""
        self.epoll.register(wake, select.EPOLLIN)
        while self.running:
            self.timer.arm(self._wake())
            ready = dict(self.epoll.poll())
            for fd, events in ready.items():
                if fd == wake:
                    self.running = False
                elif fd == self.timer.fd:
                    self.timer.clear()
                elif fd in self._pidfds:
                    self.drop(self._pidfds[fd])
                elif fd in self.connections:
                    self._serve_one(self.connections[fd], events)
            # Last: a new connection may get the descriptor of one that was dropped, for which there are more events.
            if self.listener.fileno() in ready:
                self._accept()

    def _wake(self) -> int:
        """Does what is due now, and says when to wake for the next."""
        self._drop_doomed()
        when = self._next()
        if when <= time.monotonic_ns():
            self._pass_time()
            self._drop_doomed()
            when = self._next()
        return when

    def _drop_doomed(self) -> None:
        while self._doomed:
            self.drop(self._doomed.pop())

    def _times(self) -> tuple[int, int]:
        """When something is due, and when a client is to be told something."""
        due, told = FOREVER, self.deadlines.next()
        if self.space:
            due = told = min(told, self.space.times())
        for gpu in self.gpus:
            at, prompt = gpu.times()
            due, told = min(due, at, gpu.bus.due()), min(told, prompt)
            if gpu.sched.policy == JOB:
                due = min(due, self._next_poll)
        return due, told

    def _next(self) -> int:
        """When to wake."""
        due, told = self._times()
        return due if told == FOREVER else min(due, told - LEAD)

    def _pass_time(self) -> None:
        _, told = self._times()
        while (now := time.monotonic_ns()) < told <= now + LEAD:
            pass
        self._catch_up(now)
        self.deadlines.expire(now)
        jobs = [gpu for gpu in self.gpus if gpu.sched.policy == JOB]
        if jobs and now >= self._next_poll:
            for gpu in jobs:
                self._poll(gpu)
            period = min(gpu.poll_ns for gpu in jobs)
            self._next_poll = max(self._next_poll + period, now)

    def _catch_up(self, now: int) -> None:
        """Lets everything up to `now` happen on the GPUs."""
        for gpu in self.gpus:
            if gpu.times()[0] <= now:
                gpu.advance(now)
            gpu.bus.advance(now)
        if self.space and self.space.times() <= now:
            self.space.advance(now)

    def _poll(self, gpu: Gpu) -> None:
        """Policy `job`: looks at the states of the real-time clients with TSGs; starts before ends.

        In the middle of an update there is nothing to look for: it is looked again afterwards.
        """
        if gpu.in_flight:
            return
        changed: list[tuple[bool, Client, int]] = []
        for client in gpu.clients.values():
            stat = procs.stat(client.peer.pid) if client.core.tsgs else None
            own = stat.priority if stat else 0
            runnable = stat is not None and stat.runnable
            if runnable != bool(client.core.runnable) or own != client.core.own:
                changed.append((runnable, client, own))
        for runnable, client, own in sorted(changed, key=lambda change: not change[0]):
            gpu.job(client, own, runnable)

    # Connections

    def _listen(self, wanted: bool) -> None:
        """Whether to be told of new connections.  Without a free descriptor they wait until another one ends."""
        if wanted != self._listening:
            self._listening = wanted
            self.epoll.modify(self.listener.fileno(), select.EPOLLIN if wanted else 0)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                print("gpurt: too many connections; raise the limit of open files", file=sys.stderr)
                self._listen(False)
            return
        sock.setblocking(False)
        try:
            connection = Connection(self, sock, next(self.ids))
        except OSError:
            sock.close()
            return
        self.connections[sock.fileno()] = connection
        self.epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        if connection.pidfd >= 0:
            self._pidfds[connection.pidfd] = connection
            self.epoll.register(connection.pidfd, select.EPOLLIN)

    def admit(self, connection: Connection, gpu: Gpu) -> Client:
        """Makes a connection's client on a GPU."""
        peer = connection.peer
        client = gpu.join(next(self.ids), peer, self.rules.exempt.has(peer), self.budgets.of(peer, None))
        client.boost.bar(self.rules.barred.has(peer))
        return client

    def doom(self, connection: Connection) -> None:
        """Has a connection dropped once no decision is under way: it may be found broken in the middle of one."""
        self._doomed.append(connection)

    def want_write(self, connection: Connection, wanted: bool) -> None:
        """Whether to be told when the client reads again."""
        if connection.sock.fileno() in self.connections:
            events = select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if wanted else 0)
            self.epoll.modify(connection.sock.fileno(), events)

    def drop(self, connection: Connection) -> None:
        """Forgets a connection: its clients are gone, and the clients that wait behind them run."""
        if self.connections.pop(connection.sock.fileno(), None) is None:
            return
        if connection.pidfd >= 0:
            del self._pidfds[connection.pidfd]
            os.close(connection.pidfd)
        self.readers.discard(connection)
        self._listen(True)
        connection.sock.close()  # first: calls that were under way have no answer
        if self.space:
            self.space.leave(connection)
        for index, client in connection.clients.items():
            self.gpus[index].leave(client)

    def _serve_one(self, connection: Connection, events: int) -> None:
        """Handles one packet.  If there are more, epoll says so again, and other clients have their turn before."""
        if events & select.EPOLLOUT:
            connection.flush()
        try:
            data, sender = receive(connection.sock, lib.GPURT_MAX_PACKET + 1)
        except BlockingIOError:
            return
        except OSError:
            data, sender = b"", 0
        if data:
            self._packet(connection, data, sender)
        else:
            self.drop(connection)

    def _packet(self, connection: Connection, data: bytes, sender: int) -> None:
        """Handles one packet; a mistake of ours costs that client its connection, and nobody else anything."""
        try:
            self._catch_up(time.monotonic_ns())
            self._handle(connection, data, sender)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            print(f"gpurt: dropped client {connection.id} ({visible(connection.peer.comm)}): {text}", file=sys.stderr)
            self.drop(connection)

    def _handle(self, connection: Connection, data: bytes, sender: int) -> None:
        if len(data) < PACKET.size or len(data) > lib.GPURT_MAX_PACKET:
            self.malformed += 1
            connection.send(reply(0, 0, -errno.EINVAL, None, b""))
            return
        kind, code, cookie, connection.tid = PACKET.unpack_from(data)
        payload = data[PACKET.size :]
        if kind == Packet.IOCTL:
            self._ioctl(connection, code, cookie, payload, sender)
        elif kind == Packet.NETLINK:
            self._netlink(connection, payload)
        elif kind == Packet.SUBSCRIBE and not payload:
            for client in (one for gpu in self.gpus for one in gpu.clients.values() if not self.readers):
                client.marks_lost = 0  # nobody could have been told
            self.readers.add(connection)
        else:
            self.malformed += 1
            connection.send(reply(code, cookie, -errno.EINVAL, None, b""))

    def _ioctl(self, connection: Connection, code: int, cookie: int, payload: bytes, sender: int) -> None:
        def answer(result: int, made: Any) -> None:
            connection.unanswered -= 1
            if cookie and connection.sock.fileno() >= 0:
                connection.send(reply(code, cookie, result, made, payload))

        connection.asks()
        try:
            if sender != connection.peer.pid and code != lib.GPURT_IOC_QUERY:
                raise Refusal(errno.EPERM, "the connection is another process's")
            self.calls.call(connection, code, payload, answer)
        except Refusal as refusal:
            self.malformed += isinstance(refusal, Malformed)
            answer(-refusal.error, None)

    def _netlink(self, connection: Connection, payload: bytes) -> None:
        def packets(records: Iterable[Record]) -> Iterator[bytes]:
            for record in records:
                yield message(command, record, head)
            yield finish(head)
            connection.unanswered -= 1

        def done(records: list[Record] | Iterator[Record]) -> None:
            if connection.sock.fileno() < 0:
                connection.unanswered -= 1
            elif isinstance(records, list):
                for packet in packets(records):
                    connection.send(packet)
            else:
                connection.stream(packets(records))

        connection.asks()
        try:
            head, command, attributes = request(payload)
            self.commands.carry_out(connection.peer, command, attributes, done)
        except Refusal as refusal:
            connection.unanswered -= 1
            self.malformed += isinstance(refusal, Malformed)
            connection.send(refuse(head_of(payload), refusal.error, refusal.text))

    def tell(
        self, gpu: Gpu, client: Client | None, kind: EventKind, when: int, cause: Cause | None, latency: int,
        mark: Mark | None = None,
    ) -> None:  # fmt: skip
        """Sends an event to every subscribed connection, with the process's pid and name if it may know them."""
        made: dict[bool, bytes] = {}
        lost = 0
        if client and (mark or kind is EventKind.GONE):
            lost, client.marks_lost = client.marks_lost, 0
        for connection in list(self.readers):
            named = client is None or connection.peer.may_know(client.peer)
            if named not in made:
                record: list[tuple[str, Any]] = [("EVENT", int(kind)), ("TIME_NS", when), ("GPU", gpu.index)]
                if client:
                    record += [("CLIENT", client.id), ("PID", client.peer.pid if named else 0)]
                    record += [("COMM", client.peer.comm if named else ""), ("PRIORITY", level_of(client, kind))]
                if cause is not None:
                    record.append(("CAUSE", int(cause)))
                if latency:
                    record.append(("LATENCY_NS", latency))
                record += [("LOST", lost)] if lost else []
                if mark:
                    record += [("TASK", mark.task if named else ""), ("JOB", mark.job)]
                    record += [("CPU_NS", mark.cpu_ns)] if mark.cpu_ns else []
                made[named] = message(Command.EVENT, record, Head())
            connection.send(made[named], droppable=True)
