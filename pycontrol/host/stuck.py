# SPDX-License-Identifier: GPL-2.0
"""Checks now and then whether a GPU's owner waits for a program that waits for the GPU; kmod/core/stuck.c decides.

The host has one thread, and clients wait while it looks.  So it looks at threads only while the GPU executes nothing
and a client waits for it, and at SOME threads at a time.
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

#: How many threads one look covers, by two files each, and the time until the next look, ns.
SOME, REST = READS // 2, 1_000_000


class Threads(NamedTuple):
    """What a look at an owner's threads shows: whether none wants a CPU, and their execution time so far, ns."""

    asleep: bool
    executed: int


class Stuck:
    """Watches one GPU for a stuck owner."""

    def __init__(self, gpu: Gpu, clock: Callable[[], int]) -> None:
        self._gpu, self._clock = gpu, clock
        self._raw = ffi.new("struct gpurt_stuck *")
        self._limit = int(lib.GPURT_STUCK_DEFAULT_NS)
        self._next: int = 0  # 0: no look is due
        self._about: tuple[Owner, int] | None = None  # the owner whose threads it looks at, and the owner's segment
        self._walk: Iterator[Threads | None] | None = None

    @property
    def limit(self) -> int:
        """How long an owner waits before it counts as stuck, ns; 0: never, or the host does not see the GPU's work."""
        return self._limit if self._gpu.sees_work else 0

    @limit.setter
    def limit(self, ns: int) -> None:
        self._limit = ns

    @property
    def count(self) -> int:
        """How often an owner was reported as stuck."""
        return int(self._raw.count)

    @property
    def time(self) -> int:
        """How long the present owner has been stuck, ns; 0: it was not reported as stuck."""
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
        """Looks if a look is due, and returns whether it was."""
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
        """What the look at the runner's threads shows; None: more threads must be looked at."""
        about = runner, int(runner.core.segments)
        if self._walk is None or about != self._about:
            self._about, self._walk = about, look_at(pids_of(runner))
        return next(self._walk)


def pids_of(owner: Owner) -> list[int]:
    """The processes whose threads the owner may wait for: for a group, also its members on other GPUs."""
    return owner.group.pids if isinstance(owner, Seat) else [owner.peer.pid]


def is_quiet_elsewhere(owner: Owner) -> bool:
    """Whether no GPU executes work of the owner's group, which may wait for another GPU."""
    return not isinstance(owner, Seat) or all(seat.quiet for seat in owner.group.seats.values())


def look_at(pids: Sequence[int]) -> Iterator[Threads | None]:
    """Looks at the threads of processes: yields None after each SOME of them, and at last what they show.

    A process with more than GPURT_STUCK_THREADS threads, or hidden from this process, counts as executing.
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
    """The state of a thread, and its execution time, ns; an empty state if the thread has ended."""
    text = procs.read_proc(pid, f"task/{tid}/stat")
    if text is None:
        return "", 0
    stat = procs.parse_stat(text)
    times = procs.read_proc(pid, f"task/{tid}/schedstat")
    return stat.state, int(times.split()[0]) if times else stat.ticks * (10**9 // os.sysconf("SC_CLK_TCK"))


def left_by(client: GpuClient) -> bool:
    """Whether a leaving client's process has died while others of its group or budget are in segments."""
    more = client.group.others_of(client) if client.group else 0
    return bool(lib.gpurt_stuck_leaves(client.core, more)) and procs.ending(client.peer.pid, client.peer.start)


def stuck_status(stuck: Stuck) -> list[tuple[str, int | str | bytes]]:
    """The attributes about the stuck owner in the answer to GPURT_CMD_GET_STATUS."""
    time = stuck.time
    return [
        ("STUCK_BOUND_NS", stuck.limit), ("STUCK_COUNT", stuck.count), *([("STUCK_NS", time)] if time else []),
    ]  # fmt: skip
