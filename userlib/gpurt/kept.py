# SPDX-License-Identifier: GPL-2.0
"""Segments that begin as a whole or not at all, and end whatever happens, also if a signal's handler raises.

A function of C returns -EINTR after a signal whose handler Python is still to call.  If that returns, the wait goes on,
as those of Python's own library do (PEP 475).  If it raises, what had begun is undone.
"""

from __future__ import annotations

import errno
import os

from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: Waits without limit.
FOREVER = int(lib.GPURT_FOREVER)
NOT_CALLED = int(lib.GPURT_NOT_CALLED)
#: After these a segment is open: the call was not made, was interrupted, or cannot wait for work.
OPEN = (NOT_CALLED, -errno.EINTR, -errno.EOPNOTSUPP)


def check_result(status: int, what: str) -> None:
    """Raises OSError if a function of libgpurt returned an error (-errno)."""
    if status:
        why = "the host has gone, or has no such GPU" if status == -errno.ENODEV else os.strerror(-status)
        raise OSError(-status, f"{what}: {why}")


def unsigned(value: int, what: str) -> int:
    """The value if the interface can say it: 0 to 2^64 - 1.  Raises OSError: EINVAL."""
    if not 0 <= value < 1 << 64:
        raise OSError(errno.EINVAL, f"{what} of {value}: the interface knows 0 to 2^64 - 1, times in ns")
    return value


def call_status() -> CData:
    """Where a call leaves its result, before Python handles any signal."""
    return ffi.new("int *", NOT_CALLED)


def begin(handle: object, flags: int, priority: int, kept: CData) -> int:
    """Begins a segment, and waits for the GPU if the flags say so; 0, or -errno after which `give_up` is to be called.

    ``kept`` is from `call_status`, and for `give_up`.
    """
    lib.gpurt_py_begin(handle, flags, priority, kept)
    result = int(kept[0])
    while result == -errno.EINTR:  # it has begun, and does not own the GPU yet
        result = int(lib.gpurt_segment_wait(handle, FOREVER))
    return result


def give_up(handle: object, kept: CData) -> None:
    """After an error or an exception: the segment of `begin` is over, if it has begun."""
    if kept[0] in (0, -errno.EINTR):
        kept[0] = NOT_CALLED
        lib.gpurt_segment_end(handle, 0)


def end(handle: object, flags: int) -> int:
    """Ends the innermost segment, whatever it returns or raises; 0 or -errno."""
    kept = call_status()
    try:
        lib.gpurt_py_end(handle, flags, kept)
        while kept[0] == -errno.EINTR:
            lib.gpurt_py_end(handle, flags, kept)
    finally:
        if kept[0] in OPEN:
            lib.gpurt_segment_end(handle, 0)
    return int(kept[0])
