# SPDX-License-Identifier: GPL-2.0
"""Work for one packet that is cut into pieces, one a turn of the user-space host's loop.

Packets of more urgent connections come in between.  A packet that is not finished is handled again in its turn, from
the beginning, and finds there what was done of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

#: Files of /proc that one piece reads: each takes three system calls, and the kernel some 10 us to make its text.
READS = 4


class Unfinished(Exception):
    """A packet needs another turn."""


class HostPieces:
    """The work that the packet of one connection has begun."""

    def __init__(self) -> None:
        """None yet."""
        self._about: Hashable = None
        self._steps: Iterator[Any] = iter(())

    def result(self, about: Hashable, begin: Callable[[], Iterator[T | None]]) -> T:
        """The steps yield None after each piece, then their result.  They begin anew when `about` is another one.

        Raises:
            Unfinished: there are more pieces.
        """
        if self._about != about:
            self._about, self._steps = about, begin()
        try:
            found: T | None = next(self._steps)
        except BaseException:
            self._about = None
            raise
        if found is None:
            raise Unfinished
        self._about, self._steps = None, iter(())  # which may have kept a descriptor
        return found
