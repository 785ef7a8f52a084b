# SPDX-License-Identifier: GPL-2.0
"""What /proc says about processes.  For a process that is gone or hidden, the functions return None or empty."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

PROC = Path("/proc")
#: Bytes of a process's name (comm) that the kernel keeps: TASK_COMM_LEN without the NUL.
NAME_BYTES = 15
#: Scheduling classes whose priority counts as real time.
REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that matter here (proc_pid_stat(5))."""

    comm: str
    state: str
    start: int  # clock ticks after boot: with the pid it names a process for good
    priority: int  # rt_priority 1..99 under SCHED_FIFO or SCHED_RR, else 0

    @property
    def runnable(self) -> bool:
        """Whether the main thread is running or ready to run."""
        return self.state == "R"


def parse_stat(text: bytes) -> Stat:
    """Reads the content of a /proc/PID/stat file.

    Raises:
        ValueError: it is not one.
    """
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 39:
        raise ValueError("not a /proc/PID/stat file")
    comm = head.partition(b"(")[2].decode("utf-8", "replace")
    real_time = int(fields[38]) in REAL_TIME
    return Stat(comm, fields[0].decode(), int(fields[19]), int(fields[37]) if real_time else 0)


def read(pid: int, name: str) -> bytes | None:
    """The content of /proc/PID/NAME."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return None


def status(pid: int, field: str, thread: int = 0) -> list[str]:
    """The words of a field of /proc/PID/status, or of that of one of its threads."""
    text = read(pid, f"task/{thread}/status" if thread else "status") or b""
    found = re.search(rb"^%b:(.*)$" % field.encode(), text, re.MULTILINE)
    return found[1].decode("utf-8", "replace").split() if found else []


def stat(pid: int) -> Stat | None:
    """State, start time and real-time priority of the process's main thread."""
    text = read(pid, "stat")
    return parse_stat(text) if text else None


def process(pid: int) -> Stat | None:
    """As stat(); None also for the id of a thread that is not its process's main thread."""
    return stat(pid) if status(pid, "Tgid") == [str(pid)] else None


def ancestry(pid: int) -> Iterator[tuple[int, int]]:
    """Pid and start time (see Stat) of the process, of its parent, and so on up."""
    while pid and (text := read(pid, "stat")):
        yield pid, parse_stat(text).start
        pid = int(text.rpartition(b")")[2].split()[1])


def rt_limit(pid: int) -> int:
    """RLIMIT_RTPRIO (soft): the highest priority the process may give itself without privilege."""
    text = read(pid, "limits") or b""
    found = re.search(rb"^Max realtime priority\s+(\S+)", text, re.MULTILINE)
    if not found:
        return 0
    return 99 if found[1] == b"unlimited" else int(found[1])


def cgroup(pid: int) -> str:
    """The process's path in the cgroup v2 hierarchy, as in /proc/PID/cgroup."""
    for line in (read(pid, "cgroup") or b"").splitlines():
        if line.startswith(b"0::"):
            return line[3:].decode("utf-8", "replace")
    return ""


def cgroup_folder(path: str) -> Path | None:
    """The folder of a cgroup v2 path; None if the hierarchy is not mounted here as a whole."""
    for line in (read(os.getpid(), "mountinfo") or b"").decode("utf-8", "replace").splitlines():
        mount, _, kind = line.partition(" - ")
        root, where = mount.split()[3:5]
        if kind.startswith("cgroup2 ") and root == "/":
            return Path(where) / path.strip("/")
    return None


def has_cgroups() -> bool:
    """Whether this machine has the cgroup v2 hierarchy: without it `cgroup` finds no process's path."""
    return any(line.startswith(b"0::") for line in (read(os.getpid(), "cgroup") or b"").splitlines())


def in_cgroup(path: str, prefix: str) -> bool:
    """Whether the cgroup `path` is `prefix` or below it."""
    prefix = prefix.rstrip("/")
    return bool(path) and (path == prefix or path.startswith(prefix + "/"))


def name(pid: int) -> str:
    """The process's name (comm, at most NAME_BYTES bytes)."""
    found = stat(pid)
    return found.comm if found else ""


def threads(pid: int) -> list[int]:
    """Thread ids of the process, the main thread first."""
    try:
        tids = [int(entry) for entry in os.listdir(PROC / str(pid) / "task")]
    except OSError:
        return []
    return sorted(tids, key=lambda tid: (tid != pid, tid))


def command(pid: int) -> list[str]:
    """The process's command line; empty for kernel threads."""
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def by_name(wanted: str) -> Iterator[int]:
    """Pids of the processes whose name or whose command's last path component is `wanted`."""
    for pid in psutil.pids():
        arguments = command(pid)
        if name(pid) == wanted or (arguments and Path(arguments[0]).name == wanted):
            yield pid
