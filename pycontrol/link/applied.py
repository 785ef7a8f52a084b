# SPDX-License-Identifier: GPL-2.0
"""Sets processes' priorities and groups on a host, and their slices and levels on a Tegra: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpurt.errors import RefusedError
from pycontrol.link import tegra
from pycontrol.link.control import ClientInfo, Control
from pycontrol.link.hints import SchedNode
from pycontrol.link.tegra import Setting
from pycontrol.machine import procs


def apply_settings(
    control: Control, clients: Sequence[ClientInfo], priorities: Mapping[int, int], settings: Sequence[Setting],
    node: SchedNode | None, groups: Mapping[int, str] = {},
) -> None:  # fmt: skip
    """Has processes join groups and sets their priorities, both by pid; then makes the settings on the node.

    ``clients``: all clients of the host, in their present state.  ``node``: the opened node, if there are settings.

    Raises RefusedError if something is refused.  Then all but the groups is as it was before, or the text says what is
    not: processes stay in groups that they have joined.
    """
    changed: list[ClientInfo] = []
    joined: list[int] = []
    with _restored(control, changed, joined):
        for pid, group in groups.items():  # first: a member's priority is its group's from then on
            control.set_group(pid, group)
            joined.append(pid)
        for pid, priority in priorities.items():
            changed += [one for one in clients if one.pid == pid]
            control.set_priority(pid, priority)
        if node:
            tegra.apply(node, settings)


@contextmanager
def _restored(control: Control, changed: Sequence[ClientInfo], joined: Sequence[int]) -> Iterator[None]:
    """Gives clients their former priorities if anything goes wrong; processes stay in groups that they have joined."""
    try:
        yield
    except BaseException as error:
        lost = set()
        # first the processes that joined: their priority is the group's, which another member's former one may restore
        for one in sorted(changed, key=lambda one: one.pid not in joined):
            try:
                control.set_priority(one.pid, one.set_priority, one.gpu)
            except RefusedError:
                if procs.stat(one.pid):  # a process that has ended has no priority any more
                    lost.add(one.pid)
        kept = [f"the priority of process {min(lost)}"] if lost else []
        if joined:
            named, many = " and ".join(map(str, joined)), len(joined) > 1
            kept.append(f"processes {named} stay in their groups" if many else f"process {named} stays in its group")
        if kept:
            raise RefusedError(f"{error}; not put back: {', and '.join(kept)}") from error
        raise
