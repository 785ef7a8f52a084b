# SPDX-License-Identifier: GPL-2.0
"""The process at the other end of a socket, and the processes that the administrator's rules name.

The kernel names the process that connected (SO_PEERCRED).  The library says which of its threads calls (threads.py).
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import struct
import time
from dataclasses import dataclass, field

from gpurt._gpurt import lib
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs

CREDENTIALS = struct.Struct("=iII")
#: A pidfd of the process that connected (asm-generic/socket.h, Linux 6.5).
SO_PEERPIDFD = 77
ROOM = socket.CMSG_SPACE(CREDENTIALS.size)


#: How many descriptors stay free for reads of /proc, at most a quarter of all descriptors.
RESERVE = 64


def scarce(fd: int, more: int = 0) -> bool:
    """Whether the descriptor, or one of the ``more`` next ones, belongs to the reserve.

    The kernel gives the lowest free number, so all numbers below a new descriptor are in use.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return fd + more >= limit - min(RESERVE, limit // 4)


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that connected."""

    pid: int
    uid: int
    comm: str
    start: int  # clock ticks after boot; pid and start name one process for good

    @classmethod
    def of(cls, pid: int, uid: int) -> Peer:
        """The process that connected a socket.

        Raises:
            Refusal: ESRCH, the process has ended, or is hidden from this process.
            Unreadable: the process's data cannot be read.
        """
        stat = procs.stat(pid)
        if stat is None:
            raise Refusal(errno.ESRCH, f"process {pid} has ended, or /proc hides it")
        return cls(pid, uid, stat.comm, stat.start)

    @property
    def administrator(self) -> bool:
        """Whether the process may set things: in the kernel by CAP_SYS_NICE, here as root or the host's own user."""
        return administers(self.uid)

    def may_know(self, other: Peer) -> bool:
        """Whether this peer may learn which process the other is: it has the same user, or is the administrator."""
        return self.administrator or self.uid == other.uid

    @property
    def right(self) -> int:
        """The highest real-time priority that the process may give its threads, whatever priority they have now."""
        if self.uid == 0:
            return int(lib.GPURT_MAX_PRIORITY)
        try:
            return procs.rt_limit(self.pid)
        except procs.Unreadable:
            return 0

    def may_have(self, priority: int) -> bool:
        """Whether the process may give its threads that real-time priority, whatever priority they have now."""
        return priority <= self.right


def administers(uid: int) -> bool:
    """Whether processes of that user may set things, and have no limits."""
    return uid in (0, os.geteuid())


def credentials(sock: socket.socket) -> tuple[int, int]:
    """The process that connected this socket, and its user."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(raw)
    return pid, uid


def tell_senders(listener: socket.socket) -> None:
    """Has the kernel name the sender of each packet on the connections that `listener` will accept."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive(sock: socket.socket, size: int) -> tuple[bytes, int]:
    """The next packet and the pid of its sender: a process that has inherited the socket may send, too.

    The buffer has room for exactly that pid, hence none for descriptors that a sender may pass.
    """
    data, extra, _, _ = sock.recvmsg(size, ROOM)
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, int(CREDENTIALS.unpack_from(content)[0])
    return data, 0


def watch(sock: socket.socket, pid: int) -> int:
    """A descriptor that becomes readable when the process that connected exits; -1 where the kernel has none.

    A child that inherited the socket keeps it open, yet the client is gone with its process.  From Linux 6.5 on, the
    kernel names the process itself; on older kernels another process may have got `pid` by now.

    Raises:
        Refusal: ESRCH, the process has ended.
        Unreadable: the kernel gives no such descriptor, for another reason.
    """
    try:
        return _pidfd(sock, pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:  # before Linux 5.3
            return -1
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENODATA):
            raise Refusal(errno.ESRCH, f"process {pid} has ended") from None
        raise procs.Unreadable(f"process {pid}", error.errno or 0) from None


def _pidfd(sock: socket.socket, pid: int) -> int:
    try:
        return sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            raise
        return os.pidfd_open(pid)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of `kind` PID, COMM or CGROUP about the processes `what`, made at `since` (CLOCK_MONOTONIC, ns).

    For a pid the rule keeps the start time, so that a reused pid does not match; `user` is the process's user.
    """

    kind: str
    what: int | str
    since: int
    start: int = 0
    user: int | None = None

    @property
    def dead(self) -> bool:
        """Whether the rule is for a process that has ended."""
        return isinstance(self.what, int) and procs.ended(self.what, self.start)


def check_cgroup(path: str) -> None:
    """Raises Refusal EINVAL unless a rule may name that cgroup."""
    if not procs.is_cgroup(path):
        most = f"has at most {procs.MOST_DEPTH} parts"
        raise Refusal(errno.EINVAL, f"attribute GPURT_A_CGROUP must be a path that begins with / and {most}")


def cgroup_of(peer: Peer) -> str:
    """The path of the process's cgroup of version 2; empty if the system has no cgroups of version 2.

    Raises:
        Unreadable: the cgroup cannot be read, for example because the process has ended.
    """
    found = procs.cgroup(peer.pid)
    if not found and procs.read_proc(peer.pid, "cgroup") is None:
        raise procs.Unreadable(f"the cgroup of process {peer.pid}", errno.ESRCH)
    return found


class Named:
    """The processes that the administrator has named by rules of one kind; the rules hold for future processes, too."""

    def __init__(self) -> None:
        """Starts without rules."""
        self._rules: dict[tuple[str, int | str], Rule] = {}  # in the order in which they were made
        self._cgroups: set[str] = set()
        self._listed: tuple[Rule, ...] | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules, in the order in which they were made.  Readers share the tuple until a rule changes."""
        if self._listed is None:
            self._listed = tuple(self._rules.values())
        return self._listed

    def has(self, peer: Peer) -> bool:
        """Whether any rule matches now: a process may have been moved to another cgroup.

        Raises:
            Unreadable: the process's cgroup cannot be read.
        """
        if not self._rules:
            return False
        process = self._rules.get(("PID", peer.pid))
        if (process and process.start == peer.start) or ("COMM", peer.comm) in self._rules:
            return True
        if not self._cgroups:
            return False
        cgroup = cgroup_of(peer)
        return procs.nearest_cgroup(cgroup, self._cgroups) is not None

    def change(self, kind: str, what: int | str, add: bool) -> None:
        """Adds or removes a rule of `kind` PID, COMM or CGROUP.  Removing a rule that does not exist is no error.

        Raises:
            Refusal: no such process, a cgroup without an absolute path, no cgroups of version 2, or too many rules.
        """
        if kind == "CGROUP":
            check_cgroup(str(what))
        if not add:
            self._remove((kind, what))
            return
        made = _rule(kind, what)
        before = self._rules.get((kind, what))
        if before and before.start == made.start:
            return
        self._make_room()
        self._remove((kind, what))  # a rule for a process that has ended
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
    """A rule made now.  Raises Refusal: no such process, or no cgroups of version 2."""
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
    """The administrator's rules: which processes are exempt, and which processes policy `boosted` must not raise."""

    exempt: Named = field(default_factory=Named)
    barred: Named = field(default_factory=Named)
