# SPDX-License-Identifier: GPL-2.0
"""Whether a user-space host can answer at once, whatever the threads that it serves do.

A real-time thread does not wait for the host when it posts a begin or an end.  On that thread's CPU, a host either
preempts the thread in the middle of its work, or executes only when the thread waits.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

import psutil

from pycontrol.host.peer import credentials
from pycontrol.link.control import Control
from pycontrol.machine import procs

#: The priority with which SCHED_DEADLINE threads count: they execute before all others.
ABOVE_ALL = 100
#: The names of threads that gpurt has in programs (userlib/preload/agent.c, examples/gpurt_task.c).
GPURT_THREADS = (b"gpurt-agent", b"gpurt-watcher")


@dataclass(frozen=True)
class Running:
    """A thread of a process: its real-time priority (0: none), and the CPUs that it may use."""

    pid: int
    tid: int
    priority: int
    cpus: frozenset[int]


def scheduled_now(pid: int, tid: int) -> Running | None:
    """The thread's present priority and CPUs; None: the thread has ended."""
    try:
        policy = os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK
        priority = os.sched_getparam(tid).sched_priority if policy in procs.REAL_TIME else 0
        priority = ABOVE_ALL if policy == procs.SCHED_DEADLINE else priority
        return Running(pid, tid, priority, frozenset(os.sched_getaffinity(tid)))
    except OSError:
        return None


def urgent_threads(pids: Iterable[int]) -> dict[int, list[tuple[int, list[int]]]]:
    """The priority and the CPUs of each real-time thread of processes, by pid, without processes that have ended.

    Threads that gpurt itself has in programs are left out.
    """
    found = {pid: [one for tid in procs.threads(pid) if (one := scheduled_now(pid, tid))] for pid in pids}
    return {pid: [(one.priority, sorted(one.cpus)) for one in threads if one.priority and not _helps(one)]
            for pid, threads in found.items() if threads}  # fmt: skip


def _helps(one: Running) -> bool:
    return (procs.read_proc(one.pid, f"task/{one.tid}/comm") or b"").strip() in GPURT_THREADS


def strangers(control: Control, known: Container[int]) -> dict[int, list[tuple[int, list[int]]]]:
    """As `urgent_threads`, of all processes but ``known``, this process, the host, its keeper and kernel threads."""
    with socket.socket(fileno=os.dup(control.fileno())) as sock:
        own = {os.getpid(), credentials(sock)[0]} if sock.family == socket.AF_UNIX else {os.getpid()}
    found = urgent_threads(pid for pid in psutil.pids() if pid not in known and pid not in own)
    others = [pid for pid, threads in found.items() if threads and not ((stat := procs.stat(pid)) and stat.kernel)]
    return {pid: found[pid] for pid in others if not own.intersection(one for one, _ in procs.ancestry(pid))}


def cpu_objections(host: Running, threads: Iterable[Running]) -> Iterator[str]:
    """Objections to the real-time threads of clients."""
    for one in threads:
        if one.priority and one.priority >= host.priority:
            yield f"thread {one.tid} of process {one.pid} has priority {one.priority}, the host {host.priority}"
        elif one.priority and one.cpus & host.cpus:
            shared = ", ".join(map(str, sorted(one.cpus & host.cpus)))
            yield f"thread {one.tid} of process {one.pid} may use CPU {shared}, and so may the host"


def of_host(control: Control) -> list[str] | None:
    """The objections to a user-space host and its present clients; None: the host's process is not known."""
    with socket.socket(fileno=os.dup(control.fileno())) as sock:
        pid, _ = credentials(sock)
    host = scheduled_now(pid, pid) if pid else None
    if not host:
        return None
    pids = {one.pid for one in control.clients() if one.pid not in (0, pid)}
    found = (scheduled_now(pid, tid) for pid in sorted(pids) for tid in procs.threads(pid))
    return list(cpu_objections(host, filter(None, found)))
