# SPDX-License-Identifier: GPL-2.0
"""Programs that wait for one another, in words: who owns the GPU, where its threads sleep, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpurt.enums import State
from gpurt.text import visible
from gpurt.units import exact_ms
from pycontrol.machine import procs

if TYPE_CHECKING:
    from pycontrol.live.control import ClientInfo, GpuStatus

#: Each of so many threads, and each of so many clients that wait, is named.
MANY = 8


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A thread that sleeps: in which function of the kernel, where that may be known; else None."""

    tid: int
    name: str
    sleeps_in: str | None

    def __str__(self) -> str:
        return f"{self.tid} ({visible(self.name)}{f' in {self.sleeps_in}' if self.sleeps_in else ''})"


def sleepers(pid: int) -> list[Sleeper]:
    """The first MANY threads of a process that neither execute nor are ready to; none if it may not be known."""
    try:
        return _sleepers(pid)
    except procs.Unreadable:
        return []


def _sleepers(pid: int) -> list[Sleeper]:
    found: list[Sleeper] = []
    for tid in procs.threads(pid) if pid else ():
        if len(found) == MANY:
            break
        text = procs.read(pid, f"task/{tid}/stat")
        if text and not (stat := procs.parse_stat(text)).runnable:
            where = (procs.read(pid, f"task/{tid}/wchan") or b"").decode("ascii", "replace")
            found.append(Sleeper(tid, stat.comm, where if where.isidentifier() else None))
    return found


def waiting(gpu: int, clients: Iterable[ClientInfo], owner: int) -> list[ClientInfo]:
    """The clients that wait for the GPU in a segment."""
    return [one for one in clients if one.gpu == gpu and one.state is State.PENDING and one.client != owner]


def who(pid: int, name: str) -> str:
    """A process, as far as this one may know it."""
    return f"{visible(name)}-{pid}" if pid else "another user's process"


def text(gpu: int, owner: tuple[int, int, str], time: int, clients: Iterable[ClientInfo]) -> str:
    """The words about an owner (its client's number, its pid, its name) that has been stuck for ``time`` ns."""
    client, pid, name = owner
    threads = ", ".join(map(str, sleepers(pid))) or "not known to this user"
    others = ", ".join(_names(waiting(gpu, clients, client))) or "work that is queued outside segments"
    return (
        f"GPU {gpu} has executed nothing for {exact_ms(time)}: {who(pid, name)} sleeps inside its segment "
        f"(threads: {threads}), and keeps the GPU from {others}"
    )


def _names(clients: list[ClientInfo]) -> Iterator[str]:
    yield from (who(one.pid, one.comm) for one in clients[:MANY])
    if len(clients) > MANY:
        yield f"{len(clients) - MANY} more"


def _owner(gpu: GpuStatus, clients: Iterable[ClientInfo]) -> tuple[int, int, str]:
    """The owner's client, as far as it is known."""
    for one in clients:
        if one.gpu == gpu.gpu and gpu.runner_pid and one.pid == gpu.runner_pid and one.depth:
            return one.client, one.pid, one.comm
    return 0, gpu.runner_pid, ""


def lines(gpus: Iterable[GpuStatus], clients: list[ClientInfo]) -> list[str]:
    """A line for each GPU whose owner is stuck."""
    return [text(one.gpu, _owner(one, clients), one.stuck_ns, clients) for one in gpus if one.stuck_ns]


def documents(gpus: Iterable[GpuStatus], clients: list[ClientInfo]) -> list[dict[str, Any]]:
    """The same for JSON; times are ns."""
    found = []
    for one in gpus:
        if one.stuck_ns:
            client, pid, name = _owner(one, clients)
            others = [{"pid": each.pid or None, "name": each.comm} for each in waiting(one.gpu, clients, client)]
            found.append({
                "gpu": one.gpu, "pid": pid or None, "name": name, "time_ns": one.stuck_ns,
                "sleeping": [asdict(each) for each in sleepers(pid)], "kept_waiting": others,
            })  # fmt: skip
    return found
