# SPDX-License-Identifier: GPL-2.0
"""A model of a divided virtual GPU that steps through time one ns at a time, written from docs/design.md.

The model knows nothing of the compiled one: work is a fraction, and slow-downs are found anew in each ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

NONE, COMPUTE, MEMORY = range(3)


@dataclass
class Kernel:
    """Work of one client, and the factor by which other work of its intensity slows it down."""

    client: int
    number: int
    left: Fraction
    intensity: int
    conflict: int
    pace: int = 10**6  # ns for 10^6 ns of work, when time passed last


@dataclass
class Part:
    """A partition: clients with work take turns of a slice.  A switch takes theta; an update stops it for alpha."""

    slice_: int
    theta: int
    alpha: int
    ring: list[int] = field(default_factory=list)
    queues: dict[int, list[Kernel]] = field(default_factory=dict)
    only: int | None = None
    holder: int | None = None
    loaded: int | None = None
    busy_until: int = 0
    used: int = 0

    def allowed(self) -> list[int]:
        return [one for one in self.ring if self.only in (None, one)]

    def executing(self, now: int) -> Kernel | None:
        if self.holder is None or self.loaded != self.holder or now < self.busy_until:
            return None
        return self.queues[self.holder][0]

    def settle(self, now: int) -> None:
        """Does what is due at this instant."""
        if self.executing(now) and self.used >= self.slice_ and len(self.allowed()) > 1:
            assert self.holder is not None
            self.ring.remove(self.holder)
            self.ring.append(self.holder)
            self.holder = None
        if self.holder is None and now >= self.busy_until and self.allowed():
            self.holder, self.used = self.allowed()[0], 0
            if self.loaded != self.holder:
                self.loaded, self.busy_until = None, now + self.theta
        if self.holder is not None and now >= self.busy_until:
            self.loaded = self.holder

    def contested(self, kernel: Kernel) -> bool:
        """Whether another client has work of the same intensity queued here."""
        others = (queue for client, queue in self.queues.items() if client != kernel.client)
        return any(one.intensity == kernel.intensity for queue in others for one in queue)


class Divided:
    """Partitions that slow each other's memory-intensive work down by `cross` thousandths."""

    def __init__(self, parts: list[Part], cross: int) -> None:
        self.parts, self.cross, self.now = parts, cross, 0
        self.done: list[tuple[int, int, int, int]] = []  # partition, client, number, time
        self.numbers: dict[tuple[int, int], int] = {}

    def submit(self, part: int, client: int, duration: int, intensity: int, conflict: int) -> None:
        at = self.parts[part]
        number = self.numbers[part, client] = self.numbers.get((part, client), 0) + 1
        at.queues.setdefault(client, []).append(Kernel(client, number, Fraction(duration), intensity, conflict))
        if client not in at.ring:
            at.ring.append(client)
        at.settle(self.now)

    def commit(self, part: int, only: int | None) -> None:
        at = self.parts[part]
        at.holder, at.only, at.busy_until = None, only, self.now + at.alpha
        at.settle(self.now)

    def pace(self, part: Part, kernel: Kernel) -> int:
        inside = kernel.conflict if kernel.intensity and part.contested(kernel) else 1000
        others = [one.executing(self.now) for one in self.parts if one is not part]
        memory = kernel.intensity == MEMORY and any(one and one.intensity == MEMORY for one in others)
        return inside * (self.cross if memory else 1000)

    def step(self) -> None:
        """One ns.  Where the pace changes, what is done of the first ns is rounded down to parts of the new pace."""
        running = [(part, kernel) for part in self.parts if (kernel := part.executing(self.now))]
        paces = [self.pace(part, kernel) for part, kernel in running]
        self.now += 1
        for (part, kernel), pace in zip(running, paces, strict=True):
            if pace != kernel.pace:
                whole = -(-kernel.left // 1)
                kernel.left = whole - Fraction((whole - kernel.left) * pace // 1, pace)
                kernel.pace = pace
            kernel.left -= Fraction(10**6, pace)
            part.used = part.used + 1 if part.used < part.slice_ else 1
        for part, kernel in running:
            if kernel.left <= 0:
                self._complete(part, kernel)
        for part in self.parts:
            part.settle(self.now)

    def _complete(self, part: Part, kernel: Kernel) -> None:
        self.done.append((self.parts.index(part), kernel.client, kernel.number, self.now))
        queue = part.queues[kernel.client]
        queue.remove(kernel)
        if not queue:
            part.ring.remove(kernel.client)
            part.holder = None
