# SPDX-License-Identifier: GPL-2.0
"""Commands of `gpurt` that tests start are forked from a process that has imported what they need.

A *zygote* forks `python -m pycontrol ...` and the scripts in SCRIPTS when a test starts them by
subprocess.  The zygote has one thread and never runs a command itself.  A forked process is the child of the test's
process, as after subprocess's own fork, with its descriptors, folder and environment.  It inherits all else from the
zygote.  So a command is executed as usual if the test's process differs in anything that the command would inherit.

Hosts have a zygote of their own, which imports little: a host locks all its pages in memory, which copies them.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import inspect
import os
import pickle
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
#: Scripts that tests start often, and the zygote of each.
SCRIPTS = {str(TESTS / name): kind for name, kind in (
    ("preload/fakes/server.py", "hosts"), ("preload/patched_host.py", "hosts"), ("interface/actor.py", "actors"),
)}  # fmt: skip
#: Variables that the interpreter, the dynamic linker or a library reads when it starts.
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "OPENBLAS", "OMP_", "COVERAGE")
#: Commands whose modules import matplotlib, which reads the user's files during the import.
WITH_PICTURES = {"energy", "simulate"}
#: Commands that are hosts.
HOSTS = {"emulate", "serve"}
#: If a folder has one of these, Python imports it instead of the installed package.
PACKAGES = ("analysis", "gpurt", "pycontrol")
#: State that children inherit: lines of /proc/thread-self/status, and files beside it.
STATUS = ("Umask:", "Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "Cap", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:")
FILES = ("cgroup", "limits", "oom_score_adj", "personality")
#: The system call clone: its number, and the index of its argument for the address of the thread's number.
CLONE = {"x86_64": (56, 3), "aarch64": (220, 4)}.get(platform.machine())
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_SET_PDEATHSIG, PR_GET_TID_ADDRESS = 1, 40
#: Limits of a request: its bytes, its number of descriptors, and the greatest number of a passed descriptor.
LONGEST, DESCRIPTORS, GREATEST = 100_000, 200, 400

_libc = ctypes.PyDLL(None)  # holds the interpreter's lock, as a fork must
_execute_child = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_NAMES = list(inspect.signature(_execute_child).parameters)[1:]
#: The values that subprocess's arguments must have, except streams, descriptors, folder and environment.
_PLAIN = {
    "executable": None, "preexec_fn": None, "close_fds": True, "startupinfo": None, "creationflags": 0, "shell": False,
    "restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1, "start_new_session": False,
    "process_group": -1,
}  # fmt: skip


def inherited() -> tuple[object, ...]:
    """Everything that children of the calling thread inherit, except descriptors, folder and environment."""
    own = Path("/proc/thread-self")
    status = [line for line in (own / "status").read_text().splitlines() if line.startswith(STATUS)]
    spaces = [os.readlink(own / "ns" / name) for name in sorted(os.listdir(own / "ns"))]
    process = os.readlink(own / "root"), os.getpgrp(), os.getsid(0)
    return status, spaces, [(own / name).read_text() for name in FILES], process, os.sched_getscheduler(0), os.nice(0)


class Zygote:
    """A zygote of this process, for hosts, actors or commands; it starts with the first command that it can run."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pid, self.environment = os.getpid(), dict(os.environ)
        self.lock = threading.Lock()
        self.sock: socket.socket | None = None
        self.state: tuple[object, ...] | None = None  # None: it knows no command
        with suppress(OSError):
            self.state = inherited() if CLONE else None

    def knows(self, words: Sequence[str], asked: Mapping[str, Any]) -> bool:
        """Whether a command forked from the zygote would run just as an executed one."""
        known = words[1:3] == ["-m", "pycontrol"] or (len(words) > 1 and words[1] in SCRIPTS)
        if not (known and words[0] == sys.executable and self.state and os.getpid() == self.pid):
            return False
        if any(asked.get(name, plain) != plain for name, plain in _PLAIN.items()):
            return False
        environment = os.environ if asked["env"] is None else asked["env"]
        names = [name for name in {*environment, *self.environment} if os.fsdecode(name).startswith(AT_START)]
        folder = os.path.realpath(asked["cwd"] or os.getcwd())
        return (
            all(environment.get(name) == self.environment.get(name) for name in names)
            and (folder == str(TESTS.parent) or not any(os.path.exists(f"{folder}/{name}") for name in PACKAGES))
            and len(asked["pass_fds"]) < DESCRIPTORS and max(asked["pass_fds"], default=0) < GREATEST
            and inherited() == self.state
        )  # fmt: skip

    def run(self, words: Sequence[str], asked: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Forks a command, with these descriptors as its first three.  Returns its process; 0: this was impossible."""
        passed = sorted(asked["pass_fds"])
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in (asked["env"] or os.environ).items()}
        request = pickle.dumps((words, environment, passed))
        if len(request) > LONGEST:
            return 0
        with self.lock:
            self.sock = self.sock or self.started()
            if self.sock is None:
                return 0
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # so that every answer is read
            try:
                folder = os.open(asked["cwd"] or ".", os.O_PATH)
                socket.send_fds(self.sock, [request], [folder, *streams, *passed])
                os.close(folder)
                return int(self.sock.recv(32))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def started(self) -> socket.socket | None:
        """Starts the zygote, which ends with this process, and returns its socket.  None: it cannot work here."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, self.kind, str(theirs.fileno()), str(os.getpid())]
        environment = {**self.environment, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        quiet = subprocess.DEVNULL
        subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=quiet, stdout=quiet, cwd="/")
        theirs.close()
        if ours.recv(16) != b"ready":
            ours.close()
            self.state = None
            return None
        return ours


def install(*kinds: str) -> None:
    """From now on this process's commands are forked from its zygotes, if that makes no difference to them."""
    zygotes = {kind: Zygote(kind) for kind in kinds}

    def execute_child(self: subprocess.Popen[Any], *arguments: Any) -> None:
        asked = dict(zip(_NAMES, arguments, strict=True))
        given = asked["args"]
        words = [os.fsdecode(one) for one in given] if isinstance(given, (list, tuple)) else []
        ends = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        streams = [place if end == -1 else end for place, end in enumerate((ends[0], ends[3], ends[5]))]
        script = SCRIPTS.get(words[1]) if len(words) > 1 else None
        zygote = zygotes.get(script or ("hosts" if HOSTS.intersection(words[3:]) else "commands"))
        pid = zygote.run(words, asked, streams) if zygote and zygote.knows(words, asked) else 0
        if pid == 0:
            _execute_child(self, *arguments)
            return
        self.pid, self._child_created = pid, True  # type: ignore[attr-defined]
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


def sibling() -> int:
    """As os.fork(), by the system call that glibc makes, but the child is this process's sibling.  -1: refused."""
    assert CLONE
    number, place = CLONE
    words = [ctypes.c_long(0)] * 5
    words[0] = ctypes.c_long(CLONE_PARENT | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | signal.SIGCHLD)
    words[place] = ctypes.c_long(place_of_the_thread_s_number())
    ctypes.pythonapi.PyOS_BeforeFork()
    child = int(_libc.syscall(ctypes.c_long(number), *words))
    (ctypes.pythonapi.PyOS_AfterFork_Parent if child else ctypes.pythonapi.PyOS_AfterFork_Child)()
    return child


def place_of_the_thread_s_number() -> int:
    """The address at which glibc keeps it.  Raises OSError if the kernel hides it (CONFIG_CHECKPOINT_RESTORE)."""
    address = ctypes.c_void_p()
    if _libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0):
        raise OSError("PR_GET_TID_ADDRESS")
    return int(address.value or 0)


def take(passed: Sequence[int], given: Sequence[int]) -> None:
    """Installs given descriptors as the folder, the streams and the ``passed`` numbers; closes all others."""
    folder, *high = [fcntl.fcntl(one, fcntl.F_DUPFD, GREATEST) for one in given]
    os.fchdir(folder)
    os.closerange(0, GREATEST)
    for number, one in zip([0, 1, 2, *passed], high, strict=True):
        os.dup2(one, number)
    os.closerange(GREATEST, 1 << 20)
    for place, old in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        new = open(place, "w" if place else "r", encoding=old.encoding, errors=old.errors)  # noqa: SIM115
        setattr(sys, old.name.strip("<>"), new)
        setattr(sys, f"__{old.name.strip('<>')}__", new)
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def become(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs a command as Python would after executing it."""
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv[1:] = words[1:]
    gc.enable()
    if words[1] == "-m":
        from pycontrol import cli, start

        sys.argv, sys.path[0] = [cli.__file__, *words[3:]], os.getcwd()
        start._import_beside = lambda name: None  # it is imported already
        start.main()
    else:
        sys.argv, sys.path[0] = list(words[1:]), str(Path(words[1]).parent)
        runpy.run_path(words[1], run_name="__main__")


def prepare(kind: str) -> None:
    """Imports the modules that commands import."""
    if kind == "actors":
        sys.path[1:1] = [str(TESTS / "interface"), str(TESTS / "interface/agents")]
        for name in ("pytest", "hosts", "agent_actors"):
            importlib.import_module(name)
        freeze()
        return
    from pycontrol import commands, start

    start._import_beside("analysis")
    names = {one.stem for one in Path(commands.__path__[0]).glob("*.py")} - WITH_PICTURES
    for name in sorted({"serve"} if kind == "hosts" else names):
        importlib.import_module(f"pycontrol.commands.{name}")
    if kind != "hosts":
        importlib.import_module("unobserved")
    freeze()


def freeze() -> None:
    """Lets forked processes share all present objects."""
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads is not forked"


def main(kind: str, number: int, parent: int) -> None:
    """Forks requested commands until the test's process ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    prepare(kind)
    place_of_the_thread_s_number()
    sock = socket.socket(fileno=number)
    sock.send(b"ready")
    while True:
        request, given, _, _ = socket.recv_fds(sock, LONGEST, DESCRIPTORS)
        if not request:
            return
        if child := sibling():
            for one in given:
                os.close(one)
            sock.send(str(max(child, 0)).encode())
            continue
        words, environment, passed = pickle.loads(request)
        sock.detach()
        take(passed, given)
        try:
            become(words, environment)
        except SystemExit as error:
            end(error)
            raise
        return


def end(error: SystemExit) -> None:
    """Ends the process as Python would, but without destroying each object: that would copy all pages."""
    if error.code is not None and not isinstance(error.code, int):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit((error.code or 0) & 0xFF)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1], *map(int, sys.argv[2:]))
