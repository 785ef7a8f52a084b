# SPDX-License-Identifier: GPL-2.0
"""When unfinished jobs become late, in bounded memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

#: With fewer entries than this, no entry is thrown away early.
MIN_ENTRIES_SWEPT = 1024


class Due:
    """Jobs, each with the times at which it must be looked at.

    A job that ends early leaves its entries behind.  If the entries exceed twice those that the last look found useful,
    ``open_`` says of each entry whether its job is unfinished.  Its arguments are the task's name and the job's
    release, ns.
    """

    def __init__(self, open_: Callable[[str, int], bool]) -> None:
        self._open = open_
        self._heap: list[tuple[int, str, int]] = []
        self._room = MIN_ENTRIES_SWEPT

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, time: int, task: str, release: int) -> None:
        """The job that was released at ``release`` must be looked at after ``time``."""
        heapq.heappush(self._heap, (time, task, release))
        if len(self._heap) > self._room:
            self._heap = [one for one in self._heap if self._open(one[1], one[2])]
            heapq.heapify(self._heap)
            self._room = max(MIN_ENTRIES_SWEPT, 2 * len(self._heap))

    def before(self, now: int) -> Iterator[tuple[str, int]]:
        """Removes the entries that are due before ``now``, and yields their tasks and releases."""
        while self._heap and self._heap[0][0] < now:
            _, task, release = heapq.heappop(self._heap)
            yield task, release

    def open_before(self, now: int) -> bool:
        """Whether an unfinished job is due before ``now``."""
        while self._heap and self._heap[0][0] < now:
            if self._open(*self._heap[0][1:]):
                return True
            heapq.heappop(self._heap)
        return False

    def clear(self) -> None:
        """Forgets all jobs."""
        self._heap.clear()
