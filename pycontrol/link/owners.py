# SPDX-License-Identifier: GPL-2.0
"""The owners of the processes that do the tasks' jobs and segments, as this machine says.

The names that a host tells are only the processes' word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.taskset import Launch
from gpurt.enums import EventKind
from gpurt.text import visible
from pycontrol.link.control import EventRecord
from pycontrol.machine import procs

#: The most clients that are remembered.
MAX_CLIENTS_KNOWN = 10_000


class Owners:
    """Compares a process with its task's user so far, and with its cgroup if the file (``launch``, by task) has one."""

    def __init__(self, launch: Mapping[str, Launch]) -> None:
        self._launch = launch
        self._seen: dict[int, str] = {}
        self._users: dict[str, str] = {}

    def new(self, record: EventRecord, name: str) -> bool:
        """Whether an event's client is called ``name`` for the first time, and its process is known."""
        if not record.pid or self._seen.get(record.client) == name:
            return False
        if record.kind is EventKind.GONE:
            self._seen.pop(record.client, None)
            return False
        if len(self._seen) >= MAX_CLIENTS_KNOWN:
            self._seen.clear()
        self._seen[record.client] = name
        return bool(record.client)

    def doubts(self, record: EventRecord, task: str) -> Iterator[tuple[str, str]]:
        """Why the event's process is not the task that it claims to be: the difference, and a sentence about it."""
        user, cgroup = "".join(procs.status(record.pid, "Uid")[1:2]), procs.cgroup(record.pid)
        if not user:
            return  # it is gone, or hidden
        who = visible(f"{record.comm}-{record.pid}")
        first = self._users.setdefault(task, user)
        if user != first:
            yield f"user {user}", f"{who} of user {user} passes for {task}, and before it a process of user {first} did"
        wanted = self._launch[task].cgroup
        if wanted and cgroup and not procs.in_cgroup(cgroup, wanted):
            where = f"cgroup {visible(cgroup)}"
            yield where, f"{who} passes for {task} in {where}, and the file has it in {visible(wanted)}"
