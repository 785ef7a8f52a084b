# SPDX-License-Identifier: GPL-2.0
"""When jobs that are under way become late, in bounded memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

#: With fewer entries than this, none is thrown away early.
MIN_ENTRIES_SWEPT = 1024


class Due:
    """Jobs, each with times at which it is to be looked at.

    A job that ends early leaves its entries behind.  When more entries are held than twice those that were of use at
    the last look, ``open_`` says of each whether it still is.  ``open_`` is called with the task's name and the job's
    release, ns.
    """

    def __init__(self, open_: Callable[[str, int], bool]) -> None:
        self._open = open_
        self._heap: list[tuple[int, str, int]] = []
        self._room = MIN_ENTRIES_SWEPT

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, time: int, task: str, release: int) -> None:
        """The job that was released then is to be looked at after ``time``."""
        heapq.heappush(self._heap, (time, task, release))
        if len(self._heap) > self._room:
            self._heap = [one for one in self._heap if self._open(one[1], one[2])]
            heapq.heapify(self._heap)
            self._room = max(MIN_ENTRIES_SWEPT, 2 * len(self._heap))

    def before(self, now: int) -> Iterator[tuple[str, int]]:
        """Takes out what is due before ``now``: tasks and releases."""
        while self._heap and self._heap[0][0] < now:
            _, task, release = heapq.heappop(self._heap)
            yield task, release

    def open_before(self, now: int) -> bool:
        """Whether a job that is still under way is due before ``now``."""
        while self._heap and self._heap[0][0] < now:
            if self._open(*self._heap[0][1:]):
                return True
            heapq.heappop(self._heap)
        return False

    def clear(self) -> None:
        """Forgets all."""
        self._heap.clear()
