# SPDX-License-Identifier: GPL-2.0
"""Threads of clients: which one calls, what its own scheduling is, and raising it under policy `boosted`.

A thread is raised by giving it SCHED_FIFO at a priority above the normal ones.  A raised thread is lowered to what it
had before, and only if it still has what it was raised to.  A change by its user meanwhile stays.  A thread that is
SCHED_DEADLINE or SCHED_OTHER, or above the priority in question already, is left alone.

Thread ids are used again.  An open file below /proc/PID/task/TID belongs to one thread for good: reading it fails once
that thread has ended.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from gpurt._gpurt import lib
from pycontrol.host.keeper import Keeper
from pycontrol.host.peer import scarce
from pycontrol.host.pieces import READS, HostPieces
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs

#: Among how many threads of a process in a container one is looked for.
MAX_THREADS_SEARCHED = 1024


class Scheduling(NamedTuple):
    """A thread's policy, SCHED_RESET_ON_FORK included, and its real-time priority."""

    policy: int
    priority: int

    @property
    def own(self) -> int:
        """The priority that counts as real time, 1..99; 0: none."""
        return self.priority if self.policy & ~os.SCHED_RESET_ON_FORK in procs.REAL_TIME else 0


NONE = Scheduling(os.SCHED_OTHER, 0)


def scheduling(tid: int) -> Scheduling:
    """The scheduling that a thread has now.  Raises ProcessLookupError."""
    return Scheduling(os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority)


def schedule(tid: int, how: Scheduling) -> None:
    """Gives a thread that.  Raises ProcessLookupError, PermissionError."""
    os.sched_setscheduler(tid, how.policy, os.sched_param(how.priority))


def pinned(pid: int, name: str) -> BinaryIO:
    """A file below /proc/PID that belongs to one thread or process for good.  Raises OSError, Unreadable."""
    file = (procs.PROC / str(pid) / name).open("rb", buffering=0)
    if scarce(file.fileno()):
        file.close()
        raise procs.Unreadable(f"process {pid}", errno.EMFILE)
    return file


def _readable(file: BinaryIO) -> bool:
    """Whether the thread or the process of a pinned file has not ended."""
    try:
        return bool(os.pread(file.fileno(), 1, 0))
    except OSError:
        return False


@dataclass(frozen=True)
class Band:
    """How CPU priorities are shared out: `normal` as in uapi/gpurt.h; whether this host may raise others' threads."""

    normal: int = lib.GPURT_NORMAL_DEFAULT
    able: bool = False

    def cpu(self, level: int) -> int:
        """The CPU priority for a level of core/boost.h; 0: the thread's own."""
        return int(lib.gpurt_boost_cpu(self.normal, level))

    def right(self, form: int, level: int) -> int:
        """The CPU priority that a thread of that form must have the right to, to be raised for a level."""
        return int(lib.gpurt_boost_right(self.normal, form, level))

    def check_kept(self, own: int, right: int, barred: bool) -> None:
        """Whether a group may raise a thread of that priority and right, of a client that is, or is not, barred.

        Raises:
            Refusal: EOPNOTSUPP, ERANGE or EPERM.
        """
        refused = -errno.EOPNOTSUPP if not self.able else int(lib.gpurt_boost_refusal(self.normal, own, 1))
        if not refused and (barred or right < self.right(lib.GPURT_FORM_OWNER, 1)):
            refused = -errno.EPERM
        if refused:
            raise Refusal(-refused, "a thread that its group raises: see gpurt/uapi.h, Groups")


def may_raise() -> bool:
    """Whether this process has CAP_SYS_NICE."""
    return procs.has_sys_nice(os.getpid())


@dataclass(eq=False)
class HostThread:
    """A thread of a process, and the priority that it is raised to."""

    pid: int
    tid: int
    file: BinaryIO
    process: BinaryIO
    keeper: Keeper
    wanted: dict[Hashable, int] = field(default_factory=dict)  # CPU priorities, by those who want it raised
    saved: Scheduling | None = None  # what it had before; None: it is not raised
    raised: Scheduling | None = None

    def alive(self) -> bool:
        """Whether it has not ended; a process that executes another program ends all its threads except one."""
        return _readable(self.file)

    def own(self) -> Scheduling:
        """The thread's scheduling apart from being raised; nothing once the thread has ended."""
        return self.own_now() if self.alive() else NONE

    def own_now(self) -> Scheduling:
        """As own(), for a thread that is making a call."""
        try:
            now = scheduling(self.tid)
        except OSError:
            return NONE
        return self.saved if self.saved and now == self.raised else now

    def want(self, who: Hashable, cpu: int) -> None:
        """Raises the thread to a CPU priority for `who`, or withdraws that (0).  The highest wanted priority holds."""
        if cpu:
            self.wanted[who] = cpu
        else:
            self.wanted.pop(who, None)
        try:
            self._apply(max(self.wanted.values(), default=0))
        except OSError:  # it has ended, or the host that it raised itself for may not lower it
            self._forget()

    def _apply(self, cpu: int) -> None:
        if not self.alive():
            self._moved()
            return
        now = scheduling(self.tid)
        if now != self.raised:  # it is not raised, or its user has changed it
            self._forget()
        own = self.saved or now
        if cpu > own.own > 0:
            self._raise(own, Scheduling(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, cpu))
        elif self.saved:
            schedule(self.tid, self.saved)
            self._forget()

    def _raise(self, own: Scheduling, to: Scheduling) -> None:
        """The keeper knows of it before: if this process is killed in between, the thread is not left raised."""
        if to != self.raised:
            self.keeper.note(self, own, to)
            schedule(self.tid, to)
            self.saved, self.raised = own, to

    def has(self, how: Scheduling) -> bool:
        """Whether it has that now."""
        try:
            return self.alive() and scheduling(self.tid) == how
        except OSError:
            return False

    def level(self) -> int:
        """The CPU priority that it is raised to; 0: it is not, or no longer."""
        return self.raised.priority if self.raised and self.has(self.raised) else 0

    def adopt(self, own: Scheduling, raised: Scheduling) -> None:
        """The thread has raised itself."""
        self.saved, self.raised = own, raised

    def _moved(self) -> None:
        """A thread that executes another program becomes its process's main thread, and keeps its priority."""
        try:
            if self.raised and self.saved and _readable(self.process) and scheduling(self.pid) == self.raised:
                schedule(self.pid, self.saved)
        except OSError:
            pass
        self._forget()

    def _forget(self) -> None:
        self.keeper.forget(self)
        self.saved = self.raised = None


class Callers:
    """The threads of a process that called last, and their priorities: read when a thread calls first or begins.

    Every REFRESH calls they are read again, in case they are lower by now.
    """

    MOST, REFRESH = 8, 64

    def __init__(self, pid: int) -> None:
        """Only the main thread."""
        self.pid = pid
        self._calls = 0
        self._known: dict[int, tuple[int, int]] = {}  # id and priority, by what they call themselves; latest last
        self.note(0, pid, self._priority(pid))

    def note(self, name: int, tid: int, priority: int) -> None:
        """Notes a calling thread and its priority."""
        self._known.pop(name, None)
        self._known[name] = (tid, priority)
        if len(self._known) > self.MOST:
            del self._known[next(iter(self._known))]

    def called(self, name: int) -> None:
        """Notes that a thread has called, by the id that it gives."""
        self._calls += 1
        if name not in self._known:
            self.note(name, name, self._priority(name))
        if self._calls % self.REFRESH == 0:  # one that is raised has more than its own
            self._known = {
                one: (tid, min(before, self._priority(tid))) for one, (tid, before) in self._known.items()
            }

    def tid(self, name: int) -> int:
        """The id of a thread that called, by what it says; 0: it is not among them."""
        return self._known.get(name, (0, 0))[0]

    def highest(self) -> int:
        """The highest priority among them."""
        return max(priority for _, priority in self._known.values())

    def _priority(self, tid: int) -> int:
        try:
            return scheduling(tid).own if tid == self.pid or procs.has_thread(self.pid, tid) else 0
        except OSError:
            return 0


class Threads:
    """The threads that clients have named.  Each thread has one object, also if it serves several clients."""

    def __init__(self, keeper: Keeper) -> None:
        """None yet."""
        self.keeper = keeper
        self._known: weakref.WeakValueDictionary[int, HostThread] = weakref.WeakValueDictionary()
        #: By the thread id in the process's own pid namespace.  In a container another of its threads may have that id
        #: here.
        self._named: weakref.WeakValueDictionary[tuple[int, int], HostThread] = weakref.WeakValueDictionary()

    def of(self, pid: int, tid: int, likely: int, pieces: HostPieces) -> HostThread:
        """A thread of process `pid`, by the id that gettid(2) returns to it; 0: its main thread.

        ``likely``: its id in this process's namespace, if it is still that; 0: not known.

        Raises:
            Refusal: EPERM, the process has no such thread.
            Unfinished: the search goes on in another turn.
        """
        try:
            named = self._named.get((pid, tid))
            if named and named.alive():
                return named
            found = pieces.result((pid, tid), lambda: _search(pid, tid, likely)) if tid else pid
            thread = self._alive(pid, found)
            if not thread:
                thread = HostThread(pid, found, pinned(pid, f"task/{found}/comm"), pinned(pid, "comm"), self.keeper)
        except (OSError, LookupError):
            raise Refusal(errno.EPERM, f"process {pid} has no thread {tid}") from None
        self._known[found] = self._named[pid, tid] = thread
        return thread

    def _alive(self, pid: int, tid: int) -> HostThread | None:
        known = self._known.get(tid)
        return known if known and known.pid == pid and known.alive() else None

    def lower_all(self) -> None:
        """Lowers every thread that is raised: the host ends."""
        for thread in list(self._known.values()):
            for who in list(thread.wanted):
                thread.want(who, 0)


def _search(pid: int, tid: int, likely: int) -> Iterator[int | None]:
    """Looks for the id in this process's namespace: None after each piece of the search, then the id.

    In a container the thread knows another one, the last of NSpid.  Raises LookupError.
    """
    for one in (tid, likely):
        if one > 0 and _ids(pid, one)[-1:] == [tid]:
            yield one
            return
    if tid > 0 and len(_ids(pid, pid)) > 1:
        pieces = chain.from_iterable(procs.threads_in_pieces(pid, READS) for _ in range(2))  # one may be missing once
        for piece in islice(pieces, 2 * MAX_THREADS_SEARCHED // READS):
            yield None
            for one in piece:
                if _ids(pid, one)[-1:] == [tid]:
                    yield one
                    return
    raise LookupError(tid)


def _ids(pid: int, tid: int) -> list[int]:
    """A thread's ids, from this process's namespace to its own."""
    return [int(one) for one in procs.status(pid, "NSpid", tid)]
