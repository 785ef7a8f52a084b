# SPDX-License-Identifier: GPL-2.0
"""Copies between memory and the GPU from Python: one at a time, the most urgent first, none interrupted.

::

    with copy():                            # this thread's SCHED_FIFO priority counts on the bus
        frame.copy_to_device()
        stream.synchronize()                # the bus is given back when the block ends

    for offset, length in chunks(len(data), 1 << 20):
        upload(data[offset : offset + length])      # more urgent copies come in between
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator
from types import TracebackType

from gpurt import kept
from gpurt._gpurt import lib
from gpurt.kept import FOREVER, check_result
from gpurt.segments import Client, begun, handle_of
from gpurt.types import CData

Chunks = Generator[tuple[int, int], None, None]


class copy:  # noqa: N801  (reads as a statement)
    """A copy around a block, which is entered once the bus is this copy's.

    Args:
        priority: 1 to 99; 0 uses the thread's own real-time priority.
        timeout: how long to wait for the bus at most, ns.
        client: the client whose copy this is; a client has one at a time.  Without it the process's own client is used.
            If there is no host then, the block runs unmanaged, as a segment does.

    Raises:
        OSError: ETIMEDOUT; EBUSY, the client copies already; EPERM as for `segment`.
    """

    def __init__(self, priority: int = 0, *, timeout: int = FOREVER, client: Client | None = None) -> None:
        self._priority = priority
        self._timeout = kept.unsigned(timeout, "a timeout")
        self._client = client
        self._process = 0  # that has the copy open; a child that is forked meanwhile has not

    @property
    def _open(self) -> bool:
        return self._process == os.getpid()

    def __enter__(self) -> copy:
        if self._open:
            raise OSError(errno.EBUSY, "the copy is open already")
        handle, status = handle_of(self._client), kept.call_status()
        try:
            self._ask(handle, status)
            self._process = os.getpid() if begun(status[0], self._client, "begin a copy") else 0
        except BaseException:
            self._process = 0
            if status[0] == 0:
                lib.gpurt_copy_end(handle)
            raise
        return self

    def _ask(self, handle: object, status: CData) -> None:
        """Asks for the bus.  After a signal whose handler returns it asks again."""
        began = time.monotonic_ns()
        left = self._timeout
        lib.gpurt_py_copy(handle, self._priority, left, status)
        while status[0] == -errno.EINTR:
            if self._timeout != FOREVER:
                left = max(0, self._timeout - (time.monotonic_ns() - began))
            lib.gpurt_py_copy(handle, self._priority, left, status)

    def next(self) -> None:
        """Between two chunks: lets more urgent copies come first.

        Raises:
            OSError: ETIMEDOUT, EINTR; then this copy no longer has the bus, not even at the end of the block.
        """
        if self._open:
            status = lib.gpurt_copy_next(handle_of(self._client), self._timeout)
            self._process = 0 if status else self._process
            check_result(status, "go on with a copy")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._process = 0
            status = lib.gpurt_copy_end(handle_of(self._client))
            if error is None:
                check_result(status, "end a copy")


def chunks(size: int, chunk: int, priority: int = 0, client: Client | None = None) -> Chunks:
    """Offset and length of each chunk of a copy of ``size`` bytes; the loop's body has the bus.

    If the body is left early, the bus is given back when the iterator is closed.  `for` leaves that to the garbage
    collector: use contextlib.closing().

    Raises:
        ValueError: ``size`` is negative, or ``chunk`` not positive.
        OSError: as `copy`.
    """
    if size < 0 or chunk <= 0:
        raise ValueError(f"{size} bytes cannot be copied in chunks of {chunk}")
    return _chunks(size, chunk, copy(priority, client=client))


def _chunks(size: int, chunk: int, made: copy) -> Chunks:
    if not size:
        return
    with made:
        for offset in range(0, size, chunk):
            if offset:
                made.next()
            yield offset, min(chunk, size - offset)
