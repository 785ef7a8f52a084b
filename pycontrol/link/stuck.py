# SPDX-License-Identifier: GPL-2.0
"""Programs that wait for one another, in words: who owns the GPU, where its threads sleep, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gpurt.enums import State
from gpurt.text import visible
from gpurt.types import Document
from gpurt.units import exact_ms
from pycontrol.link.membership import Home, group_of
from pycontrol.machine import procs

if TYPE_CHECKING:
    from pycontrol.link.control import ClientInfo, GpuStatus

#: The most threads, and the most waiting clients, that a text names.
MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A thread that sleeps.  Its function in the kernel is None if this process may not know it."""

    tid: int
    name: str
    sleeps_in: str | None

    def __str__(self) -> str:
        return f"{self.tid} ({visible(self.name)}{f' in {self.sleeps_in}' if self.sleeps_in else ''})"


def sleepers(pid: int) -> list[Sleeper]:
    """The first MAX_NAMED threads of a process that neither execute nor are ready to; none if it is hidden."""
    try:
        return _sleepers(pid)
    except procs.Unreadable:
        return []


def _sleepers(pid: int) -> list[Sleeper]:
    found: list[Sleeper] = []
    for tid in procs.threads(pid) if pid else ():
        if len(found) == MAX_NAMED:
            break
        text = procs.read_proc(pid, f"task/{tid}/stat")
        if text and not (stat := procs.parse_stat(text)).runnable:
            where = (procs.read_proc(pid, f"task/{tid}/wchan") or b"").decode("ascii", "replace")
            found.append(Sleeper(tid, stat.comm, where if where.isidentifier() else None))
    return found


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a GPU: a client, and the processes that own the GPU together, by their pids.

    ``home``: their group.
    """

    client: int
    home: Home
    names: dict[int, str]

    def __str__(self) -> str:
        processes = ", ".join(who(pid, name) for pid, name in self.names.items())
        return f"group {visible(self.group)} ({processes})" if self.group else processes

    @property
    def group(self) -> str:
        """The name of the owner's group; empty: it is in none."""
        return self.home[0]

    @property
    def sleepers(self) -> list[Sleeper]:
        """The sleeping threads of the owner's processes."""
        return [thread for pid in self.names for thread in sleepers(pid)][:MAX_NAMED]


def stuck_owner(clients: Iterable[ClientInfo], client: int, pid: int, name: str, group: str) -> Owner:
    """The owner, found from one of its clients: with all members of its group, which belongs to one user."""
    own = group_of(group, pid)
    members = {one.pid: one.comm for one in clients if group and group_of(one.group, one.pid) == own}
    return Owner(client, own, {pid: name} | members)


def waiting(gpu: int, clients: Iterable[ClientInfo], of: Owner) -> list[ClientInfo]:
    """The clients of others that wait for the GPU in a segment."""
    found = [one for one in clients if one.gpu == gpu and one.state is State.PENDING and one.client != of.client]
    return [one for one in found if not of.group or group_of(one.group, one.pid) != of.home]


def who(pid: int, name: str) -> str:
    """A process in words, as far as this process may know it."""
    return f"{visible(name)}-{pid}" if pid else "another user's process"


def stuck_text(gpu: int, of: Owner, time: int, clients: Iterable[ClientInfo]) -> str:
    """The text about an owner that has been stuck for ``time`` ns: who sleeps, who waits, and what to do."""
    threads = ", ".join(map(str, of.sleepers)) or "not known to this user"
    others = waiting(gpu, clients, of)
    named = ", ".join(_names(others)) or "work that is queued outside segments"
    return (
        f"GPU {gpu} has executed nothing for {exact_ms(time)}: {of} sleeps inside its segment "
        f"(threads: {threads}), and keeps the GPU from {named}{cure(of, others)}"
    )


def cure(of: Owner, others: list[ClientInfo]) -> str:
    """The advice if the owner may wait for one of the waiting clients; empty: no such client is known."""
    pids = sorted({one.pid for one in others if one.pid})
    if not pids or not all(of.names):
        return ""
    owners = {procs.user(pid) for pid in of.names}
    able = [pid for pid in pids if procs.user(pid) in owners]
    if not able:
        return "; if it waits for one of them, run both as one user, in a group: a group has processes of one user only"
    joins = " ".join(map(str, [*(() if of.group else of.names), *able[:MAX_NAMED]]))
    return f"; if it waits for one of them, let them join one group: gpurt set group {of.group or 'NAME'} {joins}"


def _names(clients: list[ClientInfo]) -> Iterator[str]:
    yield from (who(one.pid, one.comm) for one in clients[:MAX_NAMED])
    if len(clients) > MAX_NAMED:
        yield f"{len(clients) - MAX_NAMED} more"


def _owner(gpu: GpuStatus, clients: list[ClientInfo]) -> Owner:
    """The GPU's owner, as far as this process may know it."""
    for one in clients:
        if one.gpu == gpu.gpu and gpu.runner_pid and one.pid == gpu.runner_pid and one.depth:
            return stuck_owner(clients, one.client, one.pid, one.comm, one.group)
    return Owner(0, group_of("", 0), {gpu.runner_pid: ""})


def stuck_lines(gpus: Iterable[GpuStatus], clients: list[ClientInfo]) -> list[str]:
    """One line for each GPU whose owner is stuck."""
    return [stuck_text(one.gpu, _owner(one, clients), one.stuck_ns, clients) for one in gpus if one.stuck_ns]


def documents(gpus: Iterable[GpuStatus], clients: list[ClientInfo]) -> list[Document]:
    """The stuck owners for JSON; times in ns."""
    found = []
    for one in gpus:
        if one.stuck_ns:
            of = _owner(one, clients)
            pid, name = next(iter(of.names.items()))
            others = [{"pid": each.pid or None, "name": each.comm} for each in waiting(one.gpu, clients, of)]
            found.append({
                "gpu": one.gpu, "pid": pid or None, "name": name, "group": of.group or None, "time_ns": one.stuck_ns,
                "sleeping": [asdict(each) for each in of.sleepers], "kept_waiting": others,
            })  # fmt: skip
    return found
