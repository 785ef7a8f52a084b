# SPDX-License-Identifier: GPL-2.0
"""Sets priorities on a host, and slices and levels on a Tegra, of several processes: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from gpurt.errors import RefusedError
from pycontrol.live import tegra
from pycontrol.live.control import ClientInfo
from pycontrol.live.hints import SchedNode
from pycontrol.live.tegra import Setting
from pycontrol.machine import procs


class Priorities(Protocol):
    """The part of a host's control plane that is needed here."""

    def set_priority(self, pid: int, priority: int | None, gpu: int | None = None) -> None:
        """As Control has it."""


def apply(
    control: Priorities, clients: Sequence[ClientInfo], priorities: Mapping[int, int], settings: Sequence[Setting],
    node: SchedNode | None, confirm: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Sets the priorities by pid, and then the settings on the node.

    ``clients``: all of the host, as they are before.  ``node``: needed if there are settings; its owner opened it
    before, so that it is known to be there.  ``confirm`` is called when all is set; if it raises an exception,
    everything is put back.

    Raises RefusedError if something is refused.  Everything is as it was before, or the text says what is not.
    """
    changed: list[ClientInfo] = []
    with _restored(control, changed):
        for pid, priority in priorities.items():
            changed += [one for one in clients if one.pid == pid]
            control.set_priority(pid, priority)
        if node and settings:
            tegra.apply(node, settings, confirm)
        else:
            confirm()


@contextmanager
def _restored(control: Priorities, changed: Sequence[ClientInfo]) -> Iterator[None]:
    """Gives clients the priorities that they had, if anything goes wrong."""
    try:
        yield
    except BaseException as error:
        lost = set()
        for one in reversed(changed):
            try:
                control.set_priority(one.pid, one.set_priority, one.gpu)
            except RefusedError:
                if procs.stat(one.pid):  # else it has ended, and has no priority any more
                    lost.add(one.pid)
        if lost:
            raise RefusedError(f"{error}; not put back: the priority of process {min(lost)}") from error
        raise
