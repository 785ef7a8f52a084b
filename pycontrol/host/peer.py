# SPDX-License-Identifier: GPL-2.0
"""The process at the other end of a socket, and the processes that the administrator's rules name.

The kernel names the process that connected (SO_PEERCRED).  Which of its threads calls, the library says (threads.py).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from dataclasses import dataclass, field

from gpurt._gpurt import lib
from pycontrol import procs
from pycontrol.host.wire import Refusal

CREDENTIALS = struct.Struct("=iII")
ROOM = socket.CMSG_SPACE(CREDENTIALS.size)


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that connected."""

    pid: int
    uid: int
    comm: str
    start: int  # clock ticks after boot; with the pid it names the process for good

    @classmethod
    def of(cls, sock: socket.socket) -> Peer:
        """The process that connected this socket."""
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid, uid, _ = CREDENTIALS.unpack(raw)
        stat = procs.stat(pid)
        return cls(pid, uid, stat.comm if stat else "", stat.start if stat else 0)

    @property
    def administrator(self) -> bool:
        """Whether it may set things: CAP_SYS_NICE in the kernel, root or the host's own user here."""
        return self.uid in (0, os.geteuid())

    def may_know(self, other: Peer) -> bool:
        """Whether it is told which process the other one is: it has the same user, or is the administrator."""
        return self.administrator or self.uid == other.uid

    @property
    def right(self) -> int:
        """The highest real-time priority that the process may give its threads, whatever they have now."""
        return int(lib.GPURT_MAX_PRIORITY) if self.uid == 0 else procs.rt_limit(self.pid)

    def may_have(self, priority: int) -> bool:
        """Whether the process may give its threads that real-time priority, whatever they have now."""
        return priority <= self.right


def tell_senders(listener: socket.socket) -> None:
    """Has the kernel name the sender of each packet on the connections that `listener` will accept."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive(sock: socket.socket, size: int) -> tuple[bytes, int]:
    """The next packet and the pid of the process that sent it, which may have inherited the socket.

    There is room for exactly that pid, hence none for descriptors that somebody may send along.
    """
    data, extra, _, _ = sock.recvmsg(size, ROOM)
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, int(CREDENTIALS.unpack_from(content)[0])
    return data, 0


def watch(pid: int) -> int:
    """A descriptor that becomes readable when process `pid` exits; -1 where there is none.

    A child that inherited the socket keeps it open, yet the client is gone with its process.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: of `kind` PID, COMM or CGROUP, about `what`, made at `since` (CLOCK_MONOTONIC, ns).

    A process is named by its start time as well, so that a reused pid does not match; `user` is its user.
    """

    kind: str
    what: int | str
    since: int
    start: int = 0
    user: int | None = None

    @property
    def dead(self) -> bool:
        """Whether it is for a process that has ended."""
        if not isinstance(self.what, int):
            return False
        stat = procs.stat(self.what)
        return stat is None or stat.start != self.start


class Named:
    """Processes that the administrator has named, by rules of one kind; clients to come are among them as well."""

    def __init__(self) -> None:
        """No rules yet."""
        self._rules: dict[tuple[str, int | str], Rule] = {}  # in the order in which they were made
        self._cgroups: set[str] = set()
        self._listed: tuple[Rule, ...] | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules, in the order in which they were made.  Until one changes all readers share the tuple."""
        if self._listed is None:
            self._listed = tuple(self._rules.values())
        return self._listed

    def has(self, peer: Peer) -> bool:
        """Whether any rule matches now: a process may have been moved to another cgroup."""
        if not self._rules:
            return False
        process = self._rules.get(("PID", peer.pid))
        if (process and process.start == peer.start) or ("COMM", peer.comm) in self._rules:
            return True
        if not self._cgroups:
            return False
        cgroup = procs.cgroup(peer.pid)
        return any(procs.in_cgroup(cgroup, prefix) for prefix in self._cgroups)

    def change(self, kind: str, what: int | str, add: bool) -> None:
        """Adds or removes a rule of `kind` PID, COMM or CGROUP.  Removing what is not there is no mistake.

        Raises:
            Refusal: no such process, a cgroup that is no absolute path, no cgroups of version 2, or too many rules.
        """
        if kind == "CGROUP" and not str(what).startswith("/"):
            raise Refusal(errno.EINVAL, "attribute GPURT_A_CGROUP must be a path that begins with /")
        if not add:
            self._remove((kind, what))
            return
        made = _rule(kind, what)
        before = self._rules.get((kind, what))
        if before and before.start == made.start:
            return
        self._make_room()
        self._remove((kind, what))  # it was about a process that has ended
        self._rules[kind, what] = made
        if kind == "CGROUP":
            self._cgroups.add(str(what))
        self._listed = None

    def _remove(self, key: tuple[str, int | str]) -> None:
        if self._rules.pop(key, None):
            if key[0] == "CGROUP":
                self._cgroups.discard(str(key[1]))
            self._listed = None

    def _make_room(self) -> None:
        """At the limit, removes the rules for processes that have ended.  Raises Refusal if there is still no room."""
        for rule in self.rules if len(self._rules) >= lib.GPURT_MAX_RULES else ():
            if rule.dead:
                self._remove((rule.kind, rule.what))
        if len(self._rules) >= lib.GPURT_MAX_RULES:
            raise Refusal(errno.ENOBUFS, f"there are {lib.GPURT_MAX_RULES} such rules already; remove some first")


def _rule(kind: str, what: int | str) -> Rule:
    """A rule that is made now.  Raises Refusal: no such process, or no cgroups of version 2."""
    if kind == "CGROUP" and not procs.has_cgroups():
        why = "there are no cgroups of version 2 here, so no rule would match; name a pid or a name"
        raise Refusal(errno.EOPNOTSUPP, why)
    if not isinstance(what, int):
        return Rule(kind, what, time.monotonic_ns())
    stat = procs.process(what)
    if stat is None:
        raise Refusal(errno.ESRCH, f"no process with pid {what}")
    users = procs.status(what, "Uid")
    return Rule(kind, what, time.monotonic_ns(), stat.start, int(users[0]) if users else None)


@dataclass(frozen=True)
class Rules:
    """The administrator's rules: which processes are exempt, and which policy `boosted` must not raise."""

    exempt: Named = field(default_factory=Named)
    barred: Named = field(default_factory=Named)
