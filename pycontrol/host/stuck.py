# SPDX-License-Identifier: GPL-2.0
"""Looks now and then whether the owner of a GPU waits for a program that waits for the GPU; kmod/core/stuck.c decides.

The host has one thread, and clients wait while it looks.  So it looks at threads only while the GPU executes nothing
and somebody waits for it, and at SOME of them at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpurt._gpurt import ffi, lib
from gpurt.enums import EventKind
from pycontrol.host.groups import Seat
from pycontrol.host.pieces import READS
from pycontrol.host.waiter import FOREVER
from pycontrol.machine import procs

if TYPE_CHECKING:
    from pycontrol.host.gpu import Gpu, GpuClient, Owner

#: The number of threads to look at in one go, by two files each, and the rest until the next ones, ns.
SOME, REST = READS // 2, 1_000_000


class Threads(NamedTuple):
    """The result of a look at a process's threads: whether none wants a CPU, and how long all have executed, ns."""

    asleep: bool
    executed: int


class Stuck:
    """Watches one GPU."""

    def __init__(self, gpu: Gpu, clock: Callable[[], int]) -> None:
        self._gpu, self._clock = gpu, clock
        self._raw = ffi.new("struct gpurt_stuck *")
        self._limit = int(lib.GPURT_STUCK_DEFAULT_NS)
        self._next: int = 0  # 0: no look is due
        self._about: tuple[Owner, int] | None = None  # at whose threads it looks, and in which segment
        self._walk: Iterator[Threads | None] | None = None

    @property
    def limit(self) -> int:
        """When it is told that the owner is stuck, ns; 0: never, or the host does not see what the GPU does."""
        return self._limit if self._gpu.sees_work else 0

    @limit.setter
    def limit(self, ns: int) -> None:
        self._limit = ns

    @property
    def count(self) -> int:
        """How often it was told."""
        return int(self._raw.count)

    @property
    def time(self) -> int:
        """For how long the owner has been stuck, ns, as far as that has been told; 0: it is not."""
        return int(lib.gpurt_stuck_time(self._raw, self._gpu.sched, self._clock()))

    def due(self) -> int:
        """When the next look is due; FOREVER: the GPU has no owner."""
        if not self.limit or not self._gpu.runner:
            self._next = 0
            return int(FOREVER)
        if not self._next:
            self._next = self._clock() + self._interval()
        return self._next

    def _interval(self) -> int:
        return max(REST, self.limit // int(lib.GPURT_STUCK_LOOKS))

    def advance(self, now: int) -> bool:
        """Looks, if that is due; whether it was."""
        if self.due() > now:
            return False
        gpu, runner = self._gpu, self._gpu.runner
        look = ffi.new("struct gpurt_stuck_look *", {"now": now})
        if runner and not gpu.fault and not gpu.in_flight:
            look.idle, look.asked, look.done = gpu.quiet()
            look.idle = look.idle and is_quiet_elsewhere(runner)
            if look.idle and (look.asked or lib.gpurt_stuck_asked(gpu.sched)):
                found = self._look(runner)
                if found is None:
                    self._next = now + REST
                    return True
                look.asleep, look.cpu = found
        self._walk = None
        self._next = now + self._interval()
        if lib.gpurt_stuck_seen(self._raw, gpu.sched, self.limit, look) and runner:
            gpu.tell(gpu, runner.voice, EventKind.STUCK, now, None, now - int(self._raw.since))
        return True

    def _look(self, runner: Owner) -> Threads | None:
        """The result of a look at the runner's threads; None: there are more to look at."""
        about = runner, int(runner.core.segments)
        if self._walk is None or about != self._about:
            self._about, self._walk = about, look_at(pids_of(runner))
        return next(self._walk)


def pids_of(owner: Owner) -> list[int]:
    """The processes whose threads may be what the owner waits for: of a group, those of members on other GPUs too."""
    return owner.group.pids if isinstance(owner, Seat) else [owner.peer.pid]


def is_quiet_elsewhere(owner: Owner) -> bool:
    """Whether no GPU executes work of the owner's group, which may wait for another GPU."""
    return not isinstance(owner, Seat) or all(seat.quiet for seat in owner.group.seats.values())


def look_at(pids: Sequence[int]) -> Iterator[Threads | None]:
    """Looks at the threads of processes: yields None after each SOME of them, and at last its findings.

    A process that has more than GPURT_STUCK_THREADS counts as executing, as does one that this process may not see.
    """
    try:
        yield from _look_at(pids)
    except procs.Unreadable:
        yield Threads(False, 0)


def _look_at(pids: Sequence[int]) -> Iterator[Threads | None]:
    executed = 0
    for pid in pids:
        seen = 0
        for piece in procs.threads_in_pieces(pid, SOME):
            for state, time in (thread(pid, tid) for tid in piece):
                seen += 1
                executed += time
                if state in ("", "R") or seen > lib.GPURT_STUCK_THREADS:
                    yield Threads(False, 0)
                    return
            yield None
        if not seen:
            yield Threads(False, 0)
            return
    yield Threads(True, executed)


def thread(pid: int, tid: int) -> tuple[str, int]:
    """The state of a thread, and how long it has executed, ns; no state if it has ended."""
    text = procs.read_proc(pid, f"task/{tid}/stat")
    if text is None:
        return "", 0
    stat = procs.parse_stat(text)
    times = procs.read_proc(pid, f"task/{tid}/schedstat")
    return stat.state, int(times.split()[0]) if times else stat.ticks * (10**9 // os.sysconf("SC_CLK_TCK"))


def left_by(client: GpuClient) -> bool:
    """Whether a client that goes has died, and others of its group or its budget are in segments."""
    more = client.group.others_of(client) if client.group else 0
    return bool(lib.gpurt_stuck_leaves(client.core, more)) and procs.ending(client.peer.pid, client.peer.start)


def stuck_status(stuck: Stuck) -> list[tuple[str, int | str | bytes]]:
    """The attributes about the stuck owner in the answer to GPURT_CMD_GET_STATUS."""
    time = stuck.time
    return [
        ("STUCK_BOUND_NS", stuck.limit), ("STUCK_COUNT", stuck.count), *([("STUCK_NS", time)] if time else []),
    ]  # fmt: skip
