# SPDX-License-Identifier: GPL-2.0
"""If the user-space host dies, a process that waits for nothing else lowers the threads that the host has raised.

The host notes in shared memory which threads it has raised, and their scheduling before.  The keeper sleeps until the
host has ended in any way, then lowers the threads that still have the host's priority, and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import struct
from typing import TYPE_CHECKING

from pycontrol.machine import procs

if TYPE_CHECKING:
    from pycontrol.host.threads import HostThread

#: Thread id (0: the slot is free), process id, then policy and priority before the raise and after it.
SLOT = struct.Struct("=IIIIII")
SLOTS = 16384
#: The name of the keeper's process (prctl(2)).
NAME, PR_SET_NAME = b"gpurt-keeper", 15


class Keeper:
    """The memory that host and keeper share.  Without `start` there is no process, and the memory stays unused."""

    def __init__(self) -> None:
        """Makes neither memory nor process."""
        self._memory: mmap.mmap | None = None
        self._slots: dict[HostThread, int] = {}
        self._free = list(range(SLOTS - 1, -1, -1))
        self._pipe = -1  # the keeper reads the other end: the host's death closes this one

    def start(self, priority: int) -> None:
        """Starts the process, at a SCHED_FIFO priority: it must run beside raised threads that spin.

        Call it while this process has only one thread, and only descriptors that the keeper may share.
        """
        self._memory = mmap.mmap(-1, SLOTS * SLOT.size)
        reader, self._pipe = os.pipe()
        if os.fork() == 0:
            _watch(reader, self._memory, priority)
        os.close(reader)

    def note(self, thread: HostThread, own: tuple[int, int], raised: tuple[int, int]) -> None:
        """Notes a thread that is about to be raised."""
        if self._memory is None:
            return
        if thread not in self._slots and self._free:
            self._slots[thread] = self._free.pop()
        if thread in self._slots:
            SLOT.pack_into(self._memory, self._slots[thread] * SLOT.size, thread.tid, thread.pid, *own, *raised)

    def forget(self, thread: HostThread) -> None:
        """Forgets a thread that is no longer raised."""
        slot = self._slots.pop(thread, None)
        if slot is not None and self._memory is not None:
            SLOT.pack_into(self._memory, slot * SLOT.size, 0, 0, 0, 0, 0, 0)
            self._free.append(slot)


def _watch(reader: int, memory: mmap.mmap, priority: int) -> None:
    """Runs in the keeper's process; does not return."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_NAME, NAME)  # its command line stays the host's
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(3, reader)
        os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX"))
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
        os.read(reader, 1)
        for offset in range(0, len(memory), SLOT.size):
            _lower(*SLOT.unpack_from(memory, offset))
    finally:
        os._exit(0)


def _lower(tid: int, pid: int, policy: int, priority: int, raised_policy: int, raised: int) -> None:
    if not tid or not procs.has_thread(pid, tid):
        return
    with contextlib.suppress(OSError):
        if (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority) == (raised_policy, raised):
            os.sched_setscheduler(tid, policy, os.sched_param(priority))
