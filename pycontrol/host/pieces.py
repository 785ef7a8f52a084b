# SPDX-License-Identifier: GPL-2.0
"""Long work for one packet, in pieces: each turn of the user-space host's loop does one piece.

Packets of more urgent connections come in between.  A packet that is not finished is handled again from its beginning
in its next turn; the finished pieces are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

#: How many files of /proc one piece reads: each takes three system calls, and the kernel makes its text in some 10 us.
READS = 4


class Unfinished(Exception):
    """The packet needs another turn."""


class HostPieces:
    """The unfinished work for one connection's packet."""

    def __init__(self) -> None:
        """Starts without work."""
        self._about: Hashable = None
        self._steps: Iterator[Any] = iter(())

    def result(self, about: Hashable, begin: Callable[[], Iterator[T | None]]) -> T:
        """Does a step of `begin()`: steps yield None after each piece, then the result.  New `about`: it begins anew.

        Raises:
            Unfinished: the work has more pieces.
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
        self._about, self._steps = None, iter(())  # drop the steps, which may keep a descriptor open
        return found
