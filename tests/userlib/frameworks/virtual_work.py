# SPDX-License-Identifier: GPL-2.0
"""Parts shared by stand-ins for frameworks: streams whose work is on the virtual GPU of this process's own client."""

from __future__ import annotations

import threading

from gpurt._gpurt import ffi, lib
from gpurt.kept import FOREVER, check_result

#: Long enough that a segment which ends at once ends before it.
DURATION = 20_000_000
_current = threading.local()


class Stream:
    """A stream; as a context manager it is the current one."""

    def __init__(self) -> None:
        place = ffi.new("uint32_t *")
        check_result(lib.gpurt_tsg_open(ffi.NULL, place), "open a TSG")
        self.tsg, self._last = place[0], 0

    def launch(self) -> None:
        place = ffi.new("uint64_t *")
        status = lib.gpurt_submit_work(ffi.NULL, self.tsg, lib.GPURT_ENGINE_EXEC, 0, DURATION, place)
        check_result(status, "submit")
        self._last = place[0]

    def synchronize(self) -> None:
        place = ffi.new("uint64_t *")
        if self._last:
            check_result(lib.gpurt_work_wait(ffi.NULL, self.tsg, self._last, FOREVER, place), "wait for work")

    def __enter__(self) -> Stream:
        _current.stream = self
        return self

    def __exit__(self, *_: object) -> None:
        del _current.stream


def current_stream() -> Stream:
    """The stream of this thread, which is made at the first call."""
    if not hasattr(_current, "stream"):
        _current.stream = Stream()
    return _current.stream
