# SPDX-License-Identifier: GPL-2.0
"""Facts about processes from /proc.  For a process that is gone or hidden, the functions return None or empty.

They raise Unreadable if they cannot find out, for example because this process has no free descriptor.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import psutil

from gpurt.errors import RuntimeFailure

PROC = Path("/proc")
#: How many bytes are read at once: most files of a process are shorter.
PIECE_BYTES = 8192
#: The size of an entry of getdents64(2) whose name has up to 12 digits, bytes.
ENTRY_BYTES = 32
LIBC = ctypes.CDLL(None)
#: The system call number of getdents64(2), which Python does not offer.
GETDENTS64 = 61 if os.uname().machine == "aarch64" else 217
#: The most levels below the root that a cgroup in a rule may have: each process's path is compared down to this depth.
MOST_DEPTH = 64
#: How many bytes of a process's name (comm) the kernel keeps: TASK_COMM_LEN without the NUL.
NAME_BYTES = 15
#: The flag of a thread that is ending (include/linux/sched.h).
PF_EXITING = 0x4
#: The flag of a kernel thread.
PF_KTHREAD = 0x200000
#: Scheduling classes whose priority counts as real time.
REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)
SCHED_DEADLINE = 6  # sched(7); the module os lacks it
#: The capabilities' bits in CapEff of /proc/PID/status.
CAP_SYS_PTRACE, CAP_SYS_NICE = 19, 23
#: /proc/PID/ns/pid of processes outside of containers: PROC_PID_INIT_INO (include/linux/proc_ns.h).
INITIAL_NAMESPACE = "pid:[4026531836]"
#: Errors that mean that a process is gone or hidden.  Other errors mean nothing about the process.
ABSENT = (errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.EACCES, errno.EPERM)


class Unreadable(RuntimeFailure):
    """A fact about a process is not known.  ``errno`` gives the reason."""

    def __init__(self, what: str, errno: int) -> None:
        super().__init__(f"{what}: cannot be read: {os.strerror(errno)}")
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that gpurt uses (proc_pid_stat(5))."""

    comm: str
    state: str
    start: int  # clock ticks after boot; pid and start name one process for good
    priority: int  # rt_priority 1..99 under SCHED_FIFO or SCHED_RR, else 0
    ticks: int  # CPU time
    exiting: bool
    kernel: bool  # whether it is a kernel thread

    @property
    def runnable(self) -> bool:
        """Whether the main thread is executing or ready to execute."""
        return self.state == "R"


def parse_stat(text: bytes) -> Stat:
    """Reads the content of a /proc/PID/stat file.

    Raises:
        ValueError: the text has another format.
    """
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 39:
        raise ValueError("not a /proc/PID/stat file")
    comm = head.partition(b"(")[2].decode("utf-8", "replace")
    real_time = int(fields[38]) in REAL_TIME
    flags = int(fields[6])
    exiting, kernel = fields[0] in (b"Z", b"X") or bool(flags & PF_EXITING), bool(flags & PF_KTHREAD)
    priority = int(fields[37]) if real_time else 0
    return Stat(comm, fields[0].decode(), int(fields[19]), priority, int(fields[11]) + int(fields[12]), exiting, kernel)


def read_proc(pid: int, name: str) -> bytes | None:
    """The content of /proc/PID/NAME.  Raises Unreadable."""
    path = f"{PROC}/{pid}/{name}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return b"".join(iter(partial(os.read, fd, PIECE_BYTES), b""))
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise Unreadable(path, error.errno or 0) from None


def status(pid: int, field: str, thread: int = 0) -> list[str]:
    """The words of a field of /proc/PID/status, or of the status file of a thread."""
    text = read_proc(pid, f"task/{thread}/status" if thread else "status") or b""
    found = re.search(rb"^%b:(.*)$" % field.encode(), text, re.MULTILINE)
    return found[1].decode("utf-8", "replace").split() if found else []


def user(pid: int) -> str:
    """The number of the process's user; empty if there is no such process or it is hidden."""
    try:
        return next(iter(status(pid, "Uid")[1:2]), "") if pid else ""
    except Unreadable:
        return ""


def stat(pid: int) -> Stat | None:
    """State, start time and real-time priority of the process's main thread."""
    text = read_proc(pid, "stat")
    return parse_stat(text) if text else None


def ending(pid: int, start: int) -> bool:
    """Whether the process with this pid and start (see Stat) is known to be ending, or to have ended."""
    try:
        found = stat(pid)
    except Unreadable:
        return False
    return found is None or found.start != start or found.exiting


def process(pid: int) -> Stat | None:
    """As stat(); also None if `pid` is the id of a thread that is no main thread."""
    return stat(pid) if status(pid, "Tgid") == [str(pid)] else None


def ended(pid: int, start: int) -> bool:
    """Whether the process with this pid and start (see Stat) is known to have ended."""
    try:
        found = stat(pid)
    except Unreadable:
        return False
    if found:
        return found.start != start
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False


def ancestry(pid: int) -> Iterator[tuple[int, int]]:
    """Pid and start time (see Stat) of the process, its parent, and so on up, as far as they are visible."""
    text = read_proc(pid, "stat")
    while text:
        yield pid, parse_stat(text).start
        pid, text = _above(pid, text)


def _above(pid: int, text: bytes) -> tuple[int, bytes | None]:
    """The parent of a process, and the parent's stat file.  If a parent ends, another process becomes the parent."""
    parent = _parent(text)
    while parent:
        above, again = read_proc(parent, "stat"), read_proc(pid, "stat")
        if above or not again or _parent(again) == parent:
            return parent, above
        parent = _parent(again)
    return 0, None


def _parent(text: bytes) -> int:
    return int(text.rpartition(b")")[2].split()[1])


def has_sys_nice(pid: int) -> bool:
    """Whether the process has CAP_SYS_NICE."""
    return _capable(pid, CAP_SYS_NICE)


def _capable(pid: int, capability: int) -> bool:
    effective = status(pid, "CapEff")
    return bool(effective) and bool(int(effective[0], 16) >> capability & 1)


def hidden() -> str:
    """Why this process does not see all processes of this machine; empty: it sees all."""
    try:
        inside = os.readlink(PROC / "self/ns/pid") != INITIAL_NAMESPACE
    except OSError:
        inside = True
    if inside:
        return "this process is in a PID namespace, as in a container, and sees no process outside"
    mounts = [line.split() for line in (read_proc(os.getpid(), "mountinfo") or b"").splitlines()]
    options = [one for words in mounts if words[4] == bytes(PROC) for one in words[-1].split(b",")]
    if any(one.startswith(b"hidepid=") for one in options) and not _capable(os.getpid(), CAP_SYS_PTRACE):
        return "/proc is mounted with hidepid, and hides other users' processes"
    return ""


def rt_limit(pid: int) -> int:
    """RLIMIT_RTPRIO (soft): the highest priority that the process may give itself without privilege."""
    text = read_proc(pid, "limits") or b""
    found = re.search(rb"^Max realtime priority\s+(\S+)", text, re.MULTILINE)
    if not found:
        return 0
    return 99 if found[1] == b"unlimited" else int(found[1])


def cgroup(pid: int) -> str:
    """The process's path in the cgroup v2 hierarchy, as in /proc/PID/cgroup."""
    for line in (read_proc(pid, "cgroup") or b"").splitlines():
        if line.startswith(b"0::"):
            return line[3:].decode("utf-8", "replace")
    return ""


def has_thread(pid: int, tid: int) -> bool:
    """Whether the process has a thread of that id.  Needs no descriptor."""
    return (PROC / str(pid) / "task" / str(tid)).exists()


def cgroup_folder(path: str) -> Path | None:
    """The folder of a cgroup v2 path; None if the whole hierarchy is not mounted here."""
    for line in (read_proc(os.getpid(), "mountinfo") or b"").decode("utf-8", "replace").splitlines():
        mount, _, kind = line.partition(" - ")
        root, where = mount.split()[3:5]
        if kind.startswith("cgroup2 ") and root == "/":
            return Path(where) / path.strip("/")
    return None


def has_cgroups() -> bool:
    """Whether this machine has the cgroup v2 hierarchy: without it `cgroup` finds no path of a process."""
    return any(line.startswith(b"0::") for line in (read_proc(os.getpid(), "cgroup") or b"").splitlines())


def nearest_cgroup(path: str, wanted: Container[int | str]) -> str | None:
    """The nearest cgroup in `wanted` that is `path` or above it, and is not too deep."""
    parts = path.split("/", MOST_DEPTH + 1)[: MOST_DEPTH + 1] if path else []
    above = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((one for prefix in above for one in (prefix + "/", prefix) if one in wanted), None)


def is_cgroup(path: str) -> bool:
    """Whether a rule may name that cgroup."""
    return path.startswith("/") and path.rstrip("/").count("/") <= MOST_DEPTH


def in_cgroup(path: str, prefix: str) -> bool:
    """Whether the cgroup `path` is `prefix` or below it."""
    prefix = prefix.rstrip("/")
    return bool(path) and (path == prefix or path.startswith(prefix + "/"))


def name(pid: int) -> str:
    """The process's name (comm, at most NAME_BYTES bytes)."""
    found = stat(pid)
    return found.comm if found else ""


def threads_in_pieces(pid: int, few: int) -> Iterator[list[int]]:
    """Thread ids of the process, `few` at a time, since the kernel looks up each thread that it lists.

    If a thread ends meanwhile, other threads may be missing.
    """
    folder = f"{PROC}/{pid}/task"
    entries = ctypes.create_string_buffer(few * ENTRY_BYTES)
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in ABSENT:
            return
        raise Unreadable(folder, error.errno or 0) from None
    try:
        while (size := LIBC.syscall(GETDENTS64, fd, entries, len(entries))) > 0:
            yield [int(name) for name in _names(entries.raw[:size]) if name.isdigit()]
    finally:
        os.close(fd)


def _names(entries: bytes) -> Iterator[bytes]:
    """The names in the result of getdents64(2)."""
    while entries:
        length = int.from_bytes(entries[16:18], sys.byteorder)
        yield entries[19:length].partition(b"\0")[0]
        entries = entries[length:]


def threads(pid: int, most: int | None = None) -> list[int]:
    """Thread ids of the process, the main thread first; at most `most` of them."""
    pieces = threads_in_pieces(pid, most or 1024)
    return sorted(islice(chain.from_iterable(pieces), most), key=lambda tid: (tid != pid, tid))


def command_line_of(pid: int) -> list[str]:
    """The process's command line; empty for kernel threads."""
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []
