# SPDX-License-Identifier: GPL-2.0
"""Threads of clients: which thread calls, its own scheduling, and raising it under policy `boosted`.

The host raises a thread by giving it SCHED_FIFO at a priority above the normal ones.  It lowers a thread to the earlier
scheduling only if the thread still has the raised one: a change by its user stays.  The host leaves threads alone that
are SCHED_DEADLINE or SCHED_OTHER, or already above the priority in question.

The kernel reuses thread ids.  An open file below /proc/PID/task/TID belongs to one thread for good: reading it fails
once that thread has ended.
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

#: How many threads of a process in a container are searched for one thread.
MAX_THREADS_SEARCHED = 1024


class Scheduling(NamedTuple):
    """A thread's policy, SCHED_RESET_ON_FORK included, and its real-time priority."""

    policy: int
    priority: int

    @property
    def own(self) -> int:
        """The thread's real-time priority, 1..99; 0: none."""
        return self.priority if self.policy & ~os.SCHED_RESET_ON_FORK in procs.REAL_TIME else 0


NONE = Scheduling(os.SCHED_OTHER, 0)


def scheduling(tid: int) -> Scheduling:
    """The present scheduling of a thread.  Raises ProcessLookupError."""
    return Scheduling(os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority)


def schedule(tid: int, how: Scheduling) -> None:
    """Gives a thread that scheduling.  Raises ProcessLookupError, PermissionError."""
    os.sched_setscheduler(tid, how.policy, os.sched_param(how.priority))


def pinned(pid: int, name: str) -> BinaryIO:
    """A file below /proc/PID that belongs to one thread or process for good.  Raises OSError, Unreadable."""
    file = (procs.PROC / str(pid) / name).open("rb", buffering=0)
    if scarce(file.fileno()):
        file.close()
        raise procs.Unreadable(f"process {pid}", errno.EMFILE)
    return file


def _readable(file: BinaryIO) -> bool:
    """Whether the thread or process of a pinned file still exists."""
    try:
        return bool(os.pread(file.fileno(), 1, 0))
    except OSError:
        return False


@dataclass(frozen=True)
class Band:
    """The ranges of CPU priorities: `normal` as in uapi/gpurt.h; `able`: this host may raise others' threads."""

    normal: int = lib.GPURT_NORMAL_DEFAULT
    able: bool = False

    def cpu(self, level: int) -> int:
        """The CPU priority for a level of core/boost.h; 0: the thread's own priority."""
        return int(lib.gpurt_boost_cpu(self.normal, level))

    def right(self, form: int, level: int) -> int:
        """The CPU priority that a thread of that form must have the right to, to be raised for a level."""
        return int(lib.gpurt_boost_right(self.normal, form, level))

    def check_kept(self, own: int, right: int, barred: bool) -> None:
        """Checks that a group may raise a thread of that priority and right; `barred`: its client must not be raised.

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
    """A thread of a process, and the priority that the thread is raised to."""

    pid: int
    tid: int
    file: BinaryIO
    process: BinaryIO
    keeper: Keeper
    wanted: dict[Hashable, int] = field(default_factory=dict)  # CPU priorities, by the objects that want it raised
    saved: Scheduling | None = None  # the scheduling before the raise; None: it is not raised
    raised: Scheduling | None = None

    def alive(self) -> bool:
        """Whether the thread has not ended; execve(2) ends all threads of a process except one."""
        return _readable(self.file)

    def own(self) -> Scheduling:
        """The thread's scheduling without the raise; `NONE` if the thread has ended."""
        return self.own_now() if self.alive() else NONE

    def own_now(self) -> Scheduling:
        """As own(), for a thread that is making a call."""
        try:
            now = scheduling(self.tid)
        except OSError:
            return NONE
        return self.saved if self.saved and now == self.raised else now

    def want(self, who: Hashable, cpu: int) -> None:
        """Raises the thread to a CPU priority for `who`; 0: no longer.  The highest wanted priority holds."""
        if cpu:
            self.wanted[who] = cpu
        else:
            self.wanted.pop(who, None)
        try:
            self._apply(max(self.wanted.values(), default=0))
        except OSError:  # the thread has ended, or raised itself and this host may not lower it
            self._forget()

    def _apply(self, cpu: int) -> None:
        if not self.alive():
            self._moved()
            return
        now = scheduling(self.tid)
        if now != self.raised:  # it is not raised, or its user has changed its scheduling
            self._forget()
        own = self.saved or now
        if cpu > own.own > 0:
            self._raise(own, Scheduling(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, cpu))
        elif self.saved:
            schedule(self.tid, self.saved)
            self._forget()

    def _raise(self, own: Scheduling, to: Scheduling) -> None:
        """Raises the thread after telling the keeper, which lowers it if this process is killed in between."""
        if to != self.raised:
            self.keeper.note(self, own, to)
            schedule(self.tid, to)
            self.saved, self.raised = own, to

    def has(self, how: Scheduling) -> bool:
        """Whether the thread has that scheduling now."""
        try:
            return self.alive() and scheduling(self.tid) == how
        except OSError:
            return False

    def level(self) -> int:
        """The CPU priority that the thread is raised to; 0: it is not raised any more, or never was."""
        return self.raised.priority if self.raised and self.has(self.raised) else 0

    def adopt(self, own: Scheduling, raised: Scheduling) -> None:
        """Notes that the thread has raised itself."""
        self.saved, self.raised = own, raised

    def _moved(self) -> None:
        """Lowers a raised thread after execve(2): the kernel makes it the main thread and keeps its priority."""
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
    """The latest calling threads of a process and their priorities, read when a thread first calls or begins.

    Every REFRESH calls the priorities are read again, since they may be lower by now.
    """

    MOST, REFRESH = 8, 64

    def __init__(self, pid: int) -> None:
        """Starts with the main thread only."""
        self.pid = pid
        self._calls = 0
        self._known: dict[int, tuple[int, int]] = {}  # id and priority, by the ids that threads give; latest last
        self.note(0, pid, self._priority(pid))

    def note(self, name: int, tid: int, priority: int) -> None:
        """Notes a calling thread and its priority."""
        self._known.pop(name, None)
        self._known[name] = (tid, priority)
        if len(self._known) > self.MOST:
            del self._known[next(iter(self._known))]

    def called(self, name: int) -> None:
        """Notes that a thread has called, by the id that the thread gives."""
        self._calls += 1
        if name not in self._known:
            self.note(name, name, self._priority(name))
        if self._calls % self.REFRESH == 0:  # a raised thread has a higher priority than its own
            self._known = {
                one: (tid, min(before, self._priority(tid))) for one, (tid, before) in self._known.items()
            }

    def tid(self, name: int) -> int:
        """The id of a thread that called, by the id that the thread gives; 0: it is not among the latest."""
        return self._known.get(name, (0, 0))[0]

    def highest(self) -> int:
        """The highest priority among the latest calling threads."""
        return max(priority for _, priority in self._known.values())

    def _priority(self, tid: int) -> int:
        try:
            return scheduling(tid).own if tid == self.pid or procs.has_thread(self.pid, tid) else 0
        except OSError:
            return 0


class Threads:
    """The threads that clients have named.  Each thread has one object, even if it serves several clients."""

    def __init__(self, keeper: Keeper) -> None:
        """Starts without threads."""
        self.keeper = keeper
        self._known: weakref.WeakValueDictionary[int, HostThread] = weakref.WeakValueDictionary()
        #: By the thread id in the process's own pid namespace.  In this host's namespace another thread may have that
        #: id.
        self._named: weakref.WeakValueDictionary[tuple[int, int], HostThread] = weakref.WeakValueDictionary()

    def of(self, pid: int, tid: int, likely: int, pieces: HostPieces) -> HostThread:
        """A thread of process `pid`, by the id that gettid(2) returns to that thread; 0: the main thread.

        ``likely``: the thread's last known id in this process's namespace; 0: not known.

        Raises:
            Refusal: EPERM, the process has no such thread.
            Unfinished: the search continues in another turn.
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
        """Lowers every raised thread, since the host ends."""
        for thread in list(self._known.values()):
            for who in list(thread.wanted):
                thread.want(who, 0)


def _search(pid: int, tid: int, likely: int) -> Iterator[int | None]:
    """Finds the thread's id in this process's namespace: yields None after each piece of the search, then the id.

    `tid` is the thread's id in its container, the last of NSpid.  Raises LookupError.
    """
    for one in (tid, likely):
        if one > 0 and _ids(pid, one)[-1:] == [tid]:
            yield one
            return
    if tid > 0 and len(_ids(pid, pid)) > 1:
        pieces = chain.from_iterable(procs.threads_in_pieces(pid, READS) for _ in range(2))  # a look may miss one
        for piece in islice(pieces, 2 * MAX_THREADS_SEARCHED // READS):
            yield None
            for one in piece:
                if _ids(pid, one)[-1:] == [tid]:
                    yield one
                    return
    raise LookupError(tid)


def _ids(pid: int, tid: int) -> list[int]:
    """A thread's ids, from this process's namespace to the thread's own."""
    return [int(one) for one in procs.status(pid, "NSpid", tid)]
