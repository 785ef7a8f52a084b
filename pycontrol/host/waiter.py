# SPDX-License-Identifier: GPL-2.0
"""Requests of the user-space host that are answered later.

A request may be answered for two reasons: the awaited event has happened, or its time is over.  There is a list for
each reason.  Each list drops requests that the other list has answered, so memory is bounded by waiting requests.
"""

from __future__ import annotations

import errno
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from gpurt._gpurt import lib

FOREVER, AT = lib.GPURT_FOREVER, lib.GPURT_TIMEOUT_AT
#: Lists with fewer requests are not searched for answered requests.
MIN_REQUESTS_SEARCHED = 16
#: How many requests whose time is over are answered before other clients have their turn.
MAX_ANSWERS_AT_ONCE = 16

#: Answers a request: its result, and the time of the awaited event.
Answer = Callable[[int, int], None]


def no_answer(_result: int, _when: int) -> None:
    """Replaces the answer of a request that has been answered."""


@dataclass(eq=False)
class Waiter:
    """A request that is answered later, once."""

    answer: Answer
    answered: bool = False

    def finish(self, result: int, when: int = 0) -> None:
        """Answers the request, unless it has been answered."""
        if not self.answered:
            answer = self.answer  # the answer refers to this waiter, by way of its call
            self.forget()
            answer(result, when)

    def forget(self) -> None:
        """Drops the answer."""
        self.answer, self.answered = no_answer, True


class Waiters:
    """Requests that wait for the same event, in the order in which they came."""

    def __init__(self) -> None:
        """Starts without requests."""
        self._all: list[Waiter] = []
        self._full = MIN_REQUESTS_SEARCHED

    def __len__(self) -> int:
        """How many requests there are; some of them may have been answered."""
        return len(self._all)

    def add(self, waiter: Waiter) -> None:
        """Adds a request.  The cost is constant on average."""
        if len(self._all) >= self._full:
            self._all = [one for one in self._all if not one.answered]
            self._full = max(MIN_REQUESTS_SEARCHED, 2 * len(self._all))
        self._all.append(waiter)

    def take(self) -> list[Waiter]:
        """Removes and returns all requests; the caller answers them."""
        taken, self._all = self._all, []
        return taken

    def finish(self, result: int, when: int = 0) -> None:
        """Answers and removes all requests."""
        for waiter in self.take():
            waiter.finish(result, when)


class Answers:
    """Requests whose wait is over.  A turn of the loop answers only a few of them that are not urgent."""

    MOST = 8

    def __init__(self) -> None:
        """Starts without requests."""
        self._left = self.MOST
        self._later: deque[tuple[Waiter, int, int]] = deque()

    def __len__(self) -> int:
        """How many requests are still to be answered."""
        return len(self._later)

    def finish(self, waiters: Waiters, urgent: bool, result: int, when: int = 0) -> None:
        """The wait of these requests is over, with that result: answers them now, or in other turns."""
        taken = waiters.take()
        at_once = len(taken) if urgent else min(self._left, len(taken))
        self._left -= 0 if urgent else at_once
        self._later.extend((one, result, when) for one in taken[at_once:])
        for one in taken[:at_once]:
            one.finish(result, when)

    def turn(self) -> None:
        """Answers some requests that previous turns have left."""
        self._left = self.MOST
        while self._later and self._left:
            self._left -= 1
            waiter, result, when = self._later.popleft()
            waiter.finish(result, when)


class Deadlines:
    """Requests that are answered with ETIMEDOUT at a given time; times in ns."""

    def __init__(self) -> None:
        """Starts without requests."""
        self._heap: list[tuple[int, int, Waiter]] = []
        self._order = itertools.count()
        self._full = MIN_REQUESTS_SEARCHED

    def __len__(self) -> int:
        """How many requests there are; some of them may have been answered."""
        return len(self._heap)

    def limit(self, timeout: int, now: int, waiter: Waiter) -> None:
        """Limits the request's wait as the timeout of GPURT_IOC_WAIT does, ns."""
        if not waiter.answered and timeout != FOREVER:
            self.add(timeout - AT if timeout & AT else now + timeout, waiter)

    def add(self, when: int, waiter: Waiter) -> None:
        """Has the request answered at `when`, unless it has been answered before."""
        if len(self._heap) >= self._full:
            self._heap = [one for one in self._heap if not one[2].answered]
            heapq.heapify(self._heap)
            self._full = max(MIN_REQUESTS_SEARCHED, 2 * len(self._heap))
        heapq.heappush(self._heap, (when, next(self._order), waiter))

    def next(self) -> int:
        """The earliest end of a waiting request's time; FOREVER: there is none."""
        while self._heap and self._heap[0][2].answered:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else int(FOREVER)

    def expire(self, now: int) -> None:
        """Answers requests whose time is over, at most MAX_ANSWERS_AT_ONCE: other clients may be more urgent."""
        for _ in range(MAX_ANSWERS_AT_ONCE):
            if self.next() > now:
                break
            heapq.heappop(self._heap)[2].finish(-errno.ETIMEDOUT)
