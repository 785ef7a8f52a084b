# SPDX-License-Identifier: GPL-2.0
"""Samples of a host: which part of the GPU's time each client had since the last one."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from gpurt.enums import Image, State
from pycontrol.link.control import ClientInfo, Control, GpuStatus

#: The looks in an interval, to find the clients that share a GPU without an owner; and their shortest distance, s.
LOOKS, APART = 20, 0.05


#: A client: its GPU and number.
Key: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True)
class Sample:
    """The host's word at one time, ns, and each client's part of the GPU's time since an earlier sample.

    ``shares``: that part, 0 to 1.  ``shared``: the portion of that part in which nobody owned the GPU and all clients
    in segments shared it.  The portion is estimated from looks, and counts as divided equally.
    """

    time: int
    gpus: list[GpuStatus]
    clients: list[ClientInfo]
    shares: dict[Key, float]
    shared: dict[Key, float]

    def share(self, one: ClientInfo) -> float | None:
        """The part of the time, 0 to 1; None if there is no earlier sample."""
        return self.shares.get((one.gpu, one.client))

    def ordered(self) -> list[ClientInfo]:
        """The clients, the largest share first."""
        return sorted(self.clients, key=lambda one: (-(self.share(one) or 0), one.gpu, one.pid, one.client))


class Looks:
    """Looks at the host between samples: who shares a GPU that nobody owns."""

    def __init__(self, control: Control, interval: float) -> None:
        self.control = control
        self.count = max(1, min(LOOKS, int(interval / APART)))
        self.pause = interval / self.count
        self.seen = 0
        self.parts: dict[Key, float] = {}

    def look(self) -> None:
        """Divides this look's time equally among the clients that share a GPU."""
        owned = {gpu.gpu for gpu in self.control.status() if gpu.image is not Image.ALL}
        running = [one for one in self.control.clients() if one.state is State.RUNNING and one.gpu not in owned]
        on = Counter(one.gpu for one in running)
        self.seen += 1
        for one in running:
            key = one.gpu, one.client
            self.parts[key] = self.parts.get(key, 0) + 1 / on[one.gpu]

    def take(self) -> dict[Key, float]:
        """The parts of the time since the last call."""
        parts = {key: part / self.seen for key, part in self.parts.items()} if self.seen else {}
        self.seen = 0
        self.parts.clear()
        return parts

    def wait(self) -> None:
        """Looks for one interval."""
        for _ in range(self.count):
            time.sleep(self.pause)
            self.look()


def sample(looks: Looks, before: Sample | None) -> Sample:
    """Asks the host.  The host answers at another time than we look at the clock, so a share is cut to 1."""
    clients, now = looks.control.clients(), time.monotonic_ns()
    shares, shared = {}, looks.take()
    if before and now > before.time:
        held = {(one.gpu, one.client): one.held_ns for one in before.clients}
        owned = {(one.gpu, one.client): one.held_ns - held.get((one.gpu, one.client), 0) for one in clients}
        shares = {key: min(1.0, ns / (now - before.time) + shared.get(key, 0)) for key, ns in owned.items()}
    return Sample(now, looks.control.status(), clients, shares, shared)
