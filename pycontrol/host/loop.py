# SPDX-License-Identifier: GPL-2.0
"""The user-space host: the module's interface on a Unix socket, over virtual GPUs or over agents.

The host has one process, one thread, one epoll loop and one timer.  Nothing in the loop blocks on a client: sockets do
not block, and a client's unread data is bounded.  A client that breaks the rules gets an error and is counted.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from gpurt._gpurt import lib
from gpurt.enums import Cause, Command, EventKind, Overrun, Packet, Policy
from gpurt.text import visible
from gpurt.types import CData
from gpurt.units import format_time
from pycontrol.host.budgets import Budgets
from pycontrol.host.calls import Calls, is_post
from pycontrol.host.commands import Answer, Commands, Record
from pycontrol.host.connection import Connection, Timer
from pycontrol.host.feed import Feed, Told
from pycontrol.host.gpu import Gpu, GpuClient, Mark, Tell
from pycontrol.host.groups import Groups
from pycontrol.host.journal import HOST, Journal
from pycontrol.host.keeper import Keeper
from pycontrol.host.lanes import Lane, Lanes, urgency
from pycontrol.host.pace import Pace, is_real_time
from pycontrol.host.peer import Peer, Rules, administers, credentials, receive, scarce, watch
from pycontrol.host.pieces import READS, Unfinished
from pycontrol.host.threads import Threads
from pycontrol.host.units import Space
from pycontrol.host.users import Account, Accounts, UserLimits
from pycontrol.host.waiter import FOREVER, Deadlines
from pycontrol.host.wire import Malformed, Refusal, finish_answer, head_of, message, read_request, refuse, reply
from pycontrol.link.netlink import PACKET
from pycontrol.machine import procs

#: How long before an event the host wakes, so that a slow wake-up is still in time, ns.  Until the event it spins.
WAKE_LEAD_NS = 120_000
#: How many answers one turn of the loop sends, and how many owed packets it sends to a connection.
AT_ONCE, PIECE = 16, 8
#: Descriptors that a connection needs besides its own: for two threads, and for a lane.
MORE = 5
#: How long the host accepts no connections after it had no free descriptor, ns.
FULL_NS = 100_000_000
#: Policy `job`: the interval between looks is at least REST times a look's CPU time, averaged over LOOKS looks.
REST, LOOKS = 2, 16
JOB = lib.GPURT_POLICY_JOB
COPIES = (EventKind.COPY_ASK, EventKind.COPY_BEGIN, EventKind.COPY_END)
#: The words of events for the journal, and the words if a budget demotes.
RARE = {
    EventKind.OVERRUN: "has used up its budget",
    EventKind.LATE: "has an agent that has not carried out an order in time: isolation may be lost",
    EventKind.STUCK: "sleeps inside a segment while others wait",
    EventKind.MEMBER_DIED: "died; others of its group or budget are in segments",
}
DEMOTED = ", and is best effort for now"


def said(name: str, value: int | str) -> str:
    """An attribute of a command, in words."""
    words = {"POLICY": Policy, "OVERRUN": Overrun}
    if name.endswith("_NS"):
        value = format_time(int(value))
    elif name == "PRIORITY" and value == lib.GPURT_PRIORITY_OWN:
        value = "own"
    elif name in words and value in list(words[name]):
        value = words[name](int(value)).word
    return f"{name.lower().removesuffix('_ns')} {visible(value)}"


def level_of(client: GpuClient, kind: EventKind) -> int:
    """The GPU priority of an event's request, client or commit."""
    return int(client.copier.node.level if kind in COPIES else lib.gpurt_client_level(client.core))


class Host:
    """All GPUs and all connections."""

    def __init__(
        self, listener: socket.socket, make: Callable[[Tell], Sequence[Gpu]], keeper: Keeper,
        space: Space | None = None, limits: UserLimits = UserLimits(), journal: Journal = Journal(),  # noqa: B008
    ) -> None:  # fmt: skip
        """Serves connections to `listener` with the GPUs from `make`, which gets the function that tells of events.

        `space`: how clients share the GPUs' units, or None.  `limits`: the limits of one user.  `journal`: gets lines
        about rare events.
        """
        self.listener, self.journal = listener, journal
        self.rules = Rules()
        self.budgets = Budgets()
        self.threads = Threads(keeper)
        self.malformed = 0
        self.running = True
        self.connections: dict[int, Connection] = {}
        self._pidfds: dict[int, Connection] = {}
        self.readers: set[Connection] = set()  # connections that read events
        self.ids = itertools.count(1)  # of connections and of clients
        self.deadlines = Deadlines()
        self._next_poll = 0
        self._look_ns = 0  # average CPU time of a look
        self._doomed: list[Connection] = []
        self._of: dict[GpuClient, Connection] = {}
        self.users = Accounts(limits)
        self.feed = Feed()
        self._leaving: list[tuple[Connection, list[tuple[int, GpuClient]]]] = []  # ended, with remaining clients
        self._owing: deque[Connection] = deque()  # connections with something to send, perhaps twice
        self._idle: list[Connection] = []  # readers that have been sent all events
        self._woken = 0  # how often idle readers were owed a new event
        self._left = 0  # how many answers this turn may still send
        self._accepts = False  # whether the next turn accepts a connection, if one waits
        self._listen_at = FOREVER
        self._pace: Pace | None = None
        self._resting = 0  # until when only urgent work is done; 0: it is not resting
        self.gpus = make(self.tell)
        for gpu in self.gpus:
            gpu.journal = journal
        self.space = space
        self.groups = Groups(self.gpus, not space)
        self.calls = Calls(self.gpus, time.monotonic_ns, self.deadlines, self.groups, space)
        self.commands = Commands(self.gpus, self.rules, self.budgets, lambda: self.malformed, time.monotonic_ns, space,
                                 self.expel, self.groups, self.connections.values)  # fmt: skip
        self.lanes = Lanes()
        self.timer = Timer()
        self.lanes.watch(self.timer.fd)
        self.lanes.watch(listener.fileno(), ordinary=True)
        self._listening = True

    # The loop

    def serve(self, wake: int) -> None:
        """Serves until stopped; `wake` is a descriptor that the signal handler writes to."""
        self.lanes.watch(wake)
        self._pace = Pace() if is_real_time() else None
        while self.running:
            self.turn(wake)

    def turn(self, wake: int) -> None:
        """Handles one packet of the most urgent connection.  If none is urgent, also sends some owed packets."""
        due = self._wake()
        if self._resting:
            self._rest(time.monotonic_ns() < self._resting or self._spares())
        self.timer.arm(min(due, self._resting or FOREVER))
        self._left = AT_ONCE
        more = not self._resting and self._has_more()
        own, lanes = self.lanes.ready(wait=not more)
        if wake in own:
            self.running = False
        if self.timer.fd in own:
            self.timer.clear()
        urgent = urgency(lanes) > 0
        if not urgent and not self._resting and self._spares():
            self._rest(True)
            return
        if self.listener.fileno() in own and not urgent and (self._accepts or not lanes):
            self._accepts = False  # new connections and best-effort ones take turns
            self._accept()
        elif lanes:
            self._accepts = True
            lane = self.lanes.choose(lanes)
            self._serve_lane(lane)
            urgent &= lane.urgent
        if not urgent and not self._resting:
            self._deliver()
        if not urgent and self._pace and not self._resting:
            self._resting = self._pace.rests(time.monotonic_ns(), time.thread_time_ns())
            self._rest(self._resting > 0)

    def _has_more(self) -> bool:
        """Whether the next turn has something to do without a client's packet."""
        left = self._leaving or self._owing or self._doomed or self.commands.errands.more or self.journal.more
        return bool(left or (self.space and self.space.answers) or any(gpu.more for gpu in self.gpus))

    def _rest(self, goes_on: bool) -> None:
        """Goes on with, or ends, a rest: it serves urgent connections only, and agents if something waits for one."""
        if self._resting and not goes_on and self._pace:
            self._pace.restart(time.monotonic_ns(), time.thread_time_ns())
        self._resting = self._resting if goes_on else 0
        self.lanes.hush(goes_on, goes_on and any(gpu.awaits_agents for gpu in self.gpus))

    def _spares(self) -> bool:
        """Whether it rests now because an urgent client may need this CPU to read its answer."""
        until = self._pace.spares(time.monotonic_ns()) if self._pace else 0
        self._resting = until or self._resting
        return until > 0

    def _serve_lane(self, lane: Lane) -> None:
        for fd, events in lane.first():
            if fd in self._pidfds:
                self._ended(self._pidfds[fd])
            elif connection := self.connections.get(fd):
                self._serve_one(connection, events)
                if lane.urgent and self._pace:
                    self._pace.answers(connection, time.monotonic_ns())

    def _ended(self, connection: Connection) -> None:
        """A client's process has ended: handles its next packet, or drops it after as many as it can have sent."""
        connection.unread -= 1
        if connection.unread < 0:
            self.drop(connection)
        else:
            self._serve_one(connection, select.EPOLLIN, ended=True)

    def _deliver(self) -> None:
        """Sends some owed packets, and answers some calls that wait for the GPU."""
        for gpu in self.gpus:
            gpu.go_on()
        if self.space:
            self.space.answers.turn()
        self.commands.errands.turn()
        self.journal.turn()
        if self._leaving:
            self._leave_one()
        if self._owing:
            connection = self._owing.popleft()
            connection.owed = False
            if not connection.closed:
                self._pump(connection)

    def _pump(self, connection: Connection) -> None:
        try:
            more = connection.pump(PIECE)
        except Exception as error:
            self._mistake(connection, error)
            return
        if more:
            self.owe(connection)
        elif not connection.blocked and connection.cursor == self.feed.head:
            self._idle_reader(connection)

    def owe(self, connection: Connection) -> None:
        """Notes that the connection has something to send.  Its turn comes later."""
        if not connection.owed and not connection.blocked:
            connection.owed = True
            self._owing.append(connection)

    def _idle_reader(self, connection: Connection) -> None:
        """Notes that the connection has been sent all events, and is owed the next event."""
        if connection.idle_since != self._woken:
            connection.idle_since = self._woken
            self._idle.append(connection)
        if len(self._idle) > 2 * len(self.readers) + PIECE:
            self._idle = [one for one in self._idle if not one.closed]

    def at_once(self, connection: Connection) -> bool:
        """Whether this turn may still send an answer to the connection; always if the connection is urgent."""
        self._left -= 1
        return self._left >= 0 or connection.lane.level > 0

    def _wake(self) -> int:
        """Does all that is due now, and returns when to wake next, ns."""
        self._drop_doomed()
        when = self._next()
        if when <= time.monotonic_ns():
            self._pass_time()
            self._drop_doomed()
            when = self._next()
        return when

    def _drop_doomed(self) -> None:
        for _ in range(min(PIECE, len(self._doomed))):
            self.drop(self._doomed.pop())

    def _times(self) -> tuple[int, int]:
        """When something is due, and when a client must be told something."""
        due, told = self._listen_at, self.deadlines.next()
        if self.space:
            due = told = min(told, self.space.times())
        for gpu in self.gpus:
            at, prompt = gpu.times()
            due, told = min(due, at, gpu.bus.due(), gpu.stuck.due()), min(told, prompt)
            if gpu.sched.policy == JOB:
                due = min(due, self._next_poll)
        return due, told

    def _next(self) -> int:
        """When to wake, ns."""
        due, told = self._times()
        return due if told == FOREVER else min(due, told - WAKE_LEAD_NS)

    def _pass_time(self) -> None:
        _, told = self._times()
        while (now := time.monotonic_ns()) < told <= now + WAKE_LEAD_NS:
            pass
        self._catch_up(now)
        if now >= self._listen_at:
            self._listen(True)
        self.deadlines.expire(now)
        jobs = [gpu for gpu in self.gpus if gpu.sched.policy == JOB]
        if jobs and now >= self._next_poll:
            self._look(jobs, now)

    def _catch_up(self, now: int) -> None:
        """Processes all that happens on the GPUs up to `now`."""
        for gpu in self.gpus:
            if gpu.times()[0] <= now:
                gpu.advance(now)
            gpu.bus.advance(now)
        for gpu in self.gpus:
            if gpu.stuck.advance(now):
                break  # each look reads files of /proc
        if self.space and self.space.times() <= now:
            self.space.advance(now)

    def _look(self, jobs: list[Gpu], now: int) -> None:
        """Policy `job`: looks at the clients of these GPUs, and computes when the next look is due.

        Clients need the host's CPU, too: the host rests for at least as long as the look took.
        """
        before = time.thread_time_ns()
        for gpu in jobs:
            self._poll(gpu, max(1, READS // len(jobs)))
        took = time.thread_time_ns() - before
        self._look_ns += (took - self._look_ns) // LOOKS if self._look_ns else took
        period = min(gpu.poll_ns for gpu in jobs)
        self._next_poll = max(self._next_poll + period, now + REST * took)
        least = REST * self._look_ns
        for gpu in jobs:
            gpu.held_poll_ns = max(gpu.poll_ns, least)
        if least > period:
            text = "policy job: looks at clients take too long for the polling period; `gpurt status` has what is held"
            self.journal.note(text, HOST)

    def _poll(self, gpu: Gpu, others: int) -> None:
        """Policy `job`: looks at the states of clients with TSGs, and reports starts before ends.

        Each look covers all real-time clients and some others, in turn: others have no right to the host's time.

        While an update is in flight it looks at none: it looks again afterwards.
        """
        if gpu.in_flight:
            return
        changed: list[tuple[bool, GpuClient, int]] = []
        for client in gpu.some_clients(others):
            try:
                stat = procs.stat(client.peer.pid) if client.core.tsgs else None
            except procs.Unreadable:
                continue  # keep the known state
            own = stat.priority if stat else client.core.own  # nothing new is known
            runnable = stat is not None and stat.runnable
            if runnable != bool(client.core.runnable) or own != client.core.own:
                changed.append((runnable, client, own))
        for runnable, client, own in sorted(changed, key=lambda change: not change[0]):
            gpu.job(client, own, runnable)

    # Connections

    def _listen(self, wanted: bool) -> None:
        """Waits for new connections, or no longer.  Without a free descriptor they wait until there is one."""
        if wanted and not self._listening and not self._has_room():
            wanted, self._listen_at = False, time.monotonic_ns() + FULL_NS
        if wanted != self._listening:
            self._listening = wanted
            self._listen_at = FOREVER if wanted else time.monotonic_ns() + FULL_NS
            self.lanes.watch(self.listener.fileno(), wanted, ordinary=True)

    def _has_room(self) -> bool:
        """Whether descriptors for another connection are free, besides the reserve."""
        try:
            fd = os.dup(self.timer.fd)
        except OSError:
            return False
        os.close(fd)
        return not scarce(fd, MORE)

    def _full(self) -> None:
        """Stops accepting: no descriptor is free for another connection."""
        self._listen(False)
        self.journal.note("too many connections; raise the limit of open files", HOST)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                self._full()
            return
        sock.setblocking(False)
        pid, uid = credentials(sock)
        account = self.users.of(uid, administers(uid))
        account.connections += 1
        try:
            self._connection(sock, pid, uid, account)
        except (Refusal, OSError, procs.Unreadable) as error:
            self.users.disconnect(account)
            self.journal.note(f"a connection of user {uid} was refused: {getattr(error, 'text', error)}", uid)
            turn_away(sock, error.error if isinstance(error, Refusal) else error.errno or errno.EIO)
            return
        if not self._has_room():
            self._full()

    def _connection(self, sock: socket.socket, pid: int, uid: int, account: Account) -> None:
        """Makes a connection.  Raises Refusal or Unreadable."""
        account.check()
        pidfd = watch(sock, pid)
        try:
            if scarce(max(sock.fileno(), pidfd)):
                raise procs.Unreadable(f"process {pid}", errno.EMFILE)
            connection = Connection(self, sock, next(self.ids), Peer.of(pid, uid), pidfd, account)
            connection.lane = self.lanes.lane(connection.urgency(), uid)
            self.lanes.join(connection.lane, self._events(connection))
        except BaseException:
            if pidfd >= 0:
                os.close(pidfd)
            raise
        self.connections[sock.fileno()] = connection
        if pidfd >= 0:
            self._pidfds[pidfd] = connection

    def _events(self, connection: Connection) -> list[tuple[int, int]]:
        """The descriptors of a connection, and the epoll events that the host waits for."""
        wanted = select.EPOLLOUT if connection.blocked or connection.packet else 0
        wanted |= 0 if connection.packet else select.EPOLLIN | select.EPOLLRDHUP
        found = [(connection.sock.fileno(), wanted)]
        return [*found, (connection.pidfd, select.EPOLLIN)] if connection.pidfd >= 0 else found

    def _settle_lane(self, connection: Connection) -> None:
        """Moves the connection into the lane of its present level, or later if no descriptor is free for that lane."""
        level, old = connection.urgency(), connection.lane
        if level == old.level:
            return
        with contextlib.suppress(OSError):
            lane = self.lanes.lane(level, old.user)
            events = self._events(connection)
            self.lanes.leave(old, [fd for fd, _ in events])
            connection.lane = lane
            self.lanes.join(lane, events)

    def admit(self, connection: Connection, gpu: Gpu) -> GpuClient:
        """Makes a connection's client on a GPU.

        Raises:
            Unreadable: the process's rules or budget cannot be determined.
            Refusal: EDQUOT, its group is under another budget; EBUSY, its process is in another group.
            Unfinished: the search for its budget needs another turn.
        """
        peer = connection.peer
        exempt, barred = self.rules.exempt.has(peer), self.rules.barred.has(peer)
        about = "allowance", self.budgets.changes
        (allowance,) = connection.pieces.result(about, partial(self.budgets.search, peer, None))
        thread, right = (connection.thread(), peer.right) if connection.kept else (None, 0)
        if thread:
            gpu.band.check_kept(connection.scheduling(thread).own, right, barred)
        if connection.group:
            connection.group.check(gpu, peer, allowance)
        client = gpu.join(next(self.ids), peer, exempt, allowance, connection.account)
        self._of[client] = connection
        gpu.bar(client, barred)
        if connection.group:
            self.groups.enroll(connection.group, gpu, client, 0, False, partial(self._enrolled, client))
        if thread:
            client.boost.keeps(thread, right)
        self._note(gpu, client, f"of user {peer.uid} has come", wrong=False)
        return client

    def _enrolled(self, client: GpuClient, result: int) -> None:
        """Drops a client that could not join its connection's group: it must not own a GPU by itself."""
        if result:
            self.expel(client, OSError(-result, f"cannot join its group: {os.strerror(-result)}"))

    def expel(self, client: GpuClient, error: Exception) -> None:
        """Drops a client: the host cannot read which rules or which budget hold for its process."""
        connection = self._of.get(client)
        if connection:
            self.journal.note(f"dropped client {connection.id}: {error}", connection.peer.uid)
            self.doom(connection)

    def doom(self, connection: Connection) -> None:
        """Has a connection dropped later, once no decision is under way: the caller may be in the middle of one."""
        self._doomed.append(connection)

    def want_write(self, connection: Connection, wanted: bool) -> None:
        """Waits until the client reads again, or no longer."""
        if connection.sock.fileno() in self.connections:
            fd, events = self._events(connection)[0]
            connection.lane.epoll.modify(fd, events)
            if not wanted:
                self.owe(connection)

    def drop(self, connection: Connection) -> None:
        """Forgets a connection: its clients are gone, and clients that wait for them run."""
        if self.connections.pop(connection.sock.fileno(), None) is None:
            return
        self.lanes.leave(connection.lane, [fd for fd, _ in self._events(connection)])
        self._pidfds.pop(connection.pidfd, None)
        self.readers.discard(connection)
        if connection.cursor >= 0 and not self.readers:
            self.feed.forget()
            self._idle.clear()
        connection.close()  # first: calls that were under way get no answer
        for index, client in connection.clients.items():
            self._of.pop(client, None)
            inside = ", inside a segment" if client.core.depth else ""
            self._note(self.gpus[index], client, f"has gone{inside}", wrong=False)
        self._listen(True)
        if self.space:
            self.space.leave(connection)
        # first the clients inside segments, since others may wait for them
        clients = sorted(connection.clients.items(), key=lambda one: one[1].core.depth == 0)
        at_once = len(clients) if connection.lane.urgent else 1
        for index, client in clients[:at_once]:
            self.gpus[index].leave(client)
        self._leaving.append((connection, clients[at_once:]))
        self._leave_one(len(self._leaving) - 1)

    def _leave_one(self, which: int = 0) -> None:
        """Removes a client of a connection that has ended, and forgets the connection with its last client."""
        connection, clients = self._leaving[which]
        if clients:
            index, client = clients.pop()
            self.gpus[index].leave(client)
        if not clients:
            del self._leaving[which]
            self.groups.leave(connection)
            self.users.disconnect(connection.account)
            if not self.connections:
                gc.collect()  # collects what an error may have left, while nobody waits

    def _serve_one(self, connection: Connection, events: int, ended: bool = False) -> None:
        """Handles one packet.  For further packets epoll reports the connection again; other clients come first.

        Drops the connection after its last packet, if there can be none any more.
        """
        if events & select.EPOLLOUT and connection.blocked:
            connection.blocked = False
            self.want_write(connection, False)
        try:
            data, sender = connection.packet or receive(connection.sock, lib.GPURT_MAX_PACKET + 1)
        except BlockingIOError:
            if ended:
                self.drop(connection)
            return
        except ConnectionResetError:  # the client left an answer unread; what it sent can still be read
            return
        except OSError:
            data, sender = b"", 0
        if not data:
            self.drop(connection)
            return
        self._packet(connection, data, sender)
        if not connection.closed:
            self._settle_lane(connection)

    def _packet(self, connection: Connection, data: bytes, sender: int) -> None:
        """Handles one packet.  An error of the host's own costs only that client its connection."""
        before = connection.packet
        try:
            self._catch_up(time.monotonic_ns())
            self._handle(connection, data, sender)
            connection.packet = None
        except Unfinished:
            connection.packet = data, sender
        except Exception as error:
            self._mistake(connection, error)
        if bool(before) != bool(connection.packet) and not connection.closed:
            fd, events = self._events(connection)[0]  # a writable socket is ready again at once
            connection.lane.epoll.modify(fd, events)

    def _mistake(self, connection: Connection, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        who = f"client {connection.id} ({visible(connection.peer.comm)})"
        self.journal.note(f"dropped {who}: {text}", connection.peer.uid)
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
        elif kind == Packet.INTERRUPT and not payload:
            for (one, _), call in list(connection.waiting.items()) if sender == connection.peer.pid else ():
                if one == cookie:
                    call.interrupt()
        elif kind == Packet.SUBSCRIBE and not payload:
            for gpu in self.gpus if not self.readers else ():
                gpu.marks_lost.clear()  # nobody could have been told
            self.readers.add(connection)
            connection.subscribe()
        else:
            self.malformed += 1
            connection.send(reply(code, cookie, -errno.EINVAL, None, b""))

    def _ioctl(self, connection: Connection, code: int, cookie: int, payload: bytes, sender: int) -> None:
        def answer(result: int, made: CData) -> None:
            if cookie and not connection.closed:
                connection.send(reply(code, cookie, result, made, payload))

        over, key, posted = False, (cookie, next(connection.numbers)), is_post(code, cookie, payload)

        def answered(result: int, made: CData) -> None:
            nonlocal over
            over = True
            connection.waiting.pop(key, None)
            if not posted:
                connection.answered()
            answer(result, made)

        try:
            if sender != connection.peer.pid and code != lib.GPURT_IOC_QUERY:
                raise Refusal(errno.EPERM, "the connection is another process's")
            connection.callers.called(connection.tid if sender == connection.peer.pid else 0)
            if not posted:
                connection.asks()
        except Refusal as refusal:
            answer(-refusal.error, None)
            return
        try:
            call = self.calls.call(connection, code, payload, answered, posted)
            if not over and not posted:
                connection.waiting[key] = call
        except Refusal as refusal:
            self.malformed += isinstance(refusal, Malformed)
            answered(-refusal.error, None)
        except procs.Unreadable as error:
            answered(-error.errno, None)
        except Unfinished:
            connection.answered()
            raise

    def _netlink(self, connection: Connection, payload: bytes) -> None:
        def packets(records: Iterable[Record | None]) -> Iterator[bytes]:
            for record in records:
                yield message(command, record, head) if record else b""
            yield finish_answer(head)

        def done(records: Answer) -> None:
            if isinstance(records, Iterator):
                connection.stream(packets(records))
                return
            connection.answered()
            send(records)

        def send(records: list[Record] | Refusal) -> None:
            made: Iterable[bytes]
            if isinstance(records, Refusal):
                made = [refuse(head_of(payload), records.error, records.text)]
            else:
                made = packets(records)
            for packet in made if not connection.closed else ():
                connection.send(packet)

        try:
            connection.asks()
        except Refusal as refusal:
            send(refusal)
            return
        try:
            head, command, attributes = read_request(payload)
            carried = partial(self._set, connection.peer, command, attributes, done)
            self.commands.carry_out(connection.peer, command, attributes, carried)
        except Refusal as refusal:
            self.malformed += isinstance(refusal, Malformed)
            done(refusal)

    def _set(
        self, peer: Peer, command: Command, attributes: Mapping[str, int | str], done: Callable[[Answer], None],
        answer: Answer,
    ) -> None:  # fmt: skip
        """Answers a command; the journal notes a command that sets something."""
        if command.name.startswith("SET_"):
            what = ", ".join(said(*one) for one in attributes.items())
            refused = f"; refused: {answer.text}" if isinstance(answer, Refusal) else ""
            who = f"{visible(peer.comm)}, process {peer.pid} of user {peer.uid}"
            text = f"{command.name.lower().replace('_', ' ')}: {what} (by {who}){refused}"
            self.journal.note(text, peer.uid, wrong=False)
        done(answer)

    def _note(self, gpu: Gpu, client: GpuClient, text: str, wrong: bool) -> None:
        peer = client.peer
        who = f"client {client.id} ({visible(peer.comm)}, process {peer.pid})"
        self.journal.note(f"GPU {gpu.index}: {who} {text}", peer.uid, wrong)

    def tell(
        self, gpu: Gpu, client: GpuClient | None, kind: EventKind, when: int, cause: Cause | None, latency: int,
        mark: Mark | None = None,
    ) -> None:  # fmt: skip
        """Sends an event to every subscribed connection, with the process's pid and name if it may know them."""
        lost = 0
        if client and (mark or kind is EventKind.GONE):
            lost = gpu.marks_lost.pop(client, 0)
        if client and kind in RARE:
            budget = (client.group or client).core.budget
            demoted = kind is EventKind.OVERRUN and budget and budget.action == Overrun.DEMOTE
            self._note(gpu, client, RARE[kind] + DEMOTED * bool(demoted), wrong=kind is not EventKind.OVERRUN)
        if not self.readers:
            return
        record: list[tuple[str, int | str | bytes]] = [("EVENT", int(kind)), ("TIME_NS", when), ("GPU", gpu.index)]
        told = Told(client.peer if client else None, record)
        if client:
            record += [("CLIENT", client.id), ("PRIORITY", level_of(client, kind))]
            told.named += [("PID", client.peer.pid), ("COMM", client.peer.comm)]
            told.named += [("GROUP", client.group.group.name)] if client.group else []
            told.unnamed += [("PID", 0), ("COMM", "")]
        if cause is not None:
            record.append(("CAUSE", int(cause)))
        if latency:
            record.append(("LATENCY_NS", latency))
        record += [("LOST", lost)] if lost else []
        if mark:
            record.append(("JOB", mark.job))
            record += [("CPU_NS", mark.cpu_ns)] if mark.cpu_ns else []
            told.named.append(("TASK", mark.task))
            told.unnamed.append(("TASK", ""))
        self.feed.add(told)
        if self._idle:
            self._owing.extend(self._idle)
            self._idle.clear()
            self._woken += 1


def turn_away(sock: socket.socket, error: int) -> None:
    """Refuses a connection: says why, and closes it.  Reads what was sent first: else the kernel says ECONNRESET."""
    with contextlib.suppress(OSError):
        sock.send(PACKET.pack(Packet.REPLY, 0, 0, -error))
        sock.recv(lib.GPURT_MAX_PACKET)
    sock.close()
