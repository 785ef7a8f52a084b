# SPDX-License-Identifier: GPL-2.0
"""A fake GPU, and programs under the preload library that carry out a test's commands on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import everything
from links import PATIENCE, await_host, eventually
from native_build import compile_program

from pycontrol.link.control import Control, connect
from pycontrol.readable import readable

ROOT = Path(__file__).resolve().parents[2]
FAKES = Path(__file__).parent / "fakes"
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
LONG = "launch 0 600000000"  # longer than a test: FakeGpu.finish() ends it
ALWAYS = 10**9
GPURT = [sys.executable, str(ROOT / "tests/unobserved.py")]


def build(folder: Path) -> Path:
    """Compiles the libraries, the fakes and the program into a folder.  Skips if there is no compiler."""
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("needs make and a C compiler")
    optimized = "-O2 -g" if everything() else "-O1"  # which takes half as long to compile
    checked = f"CFLAGS={optimized} -DPRELOAD_CHECKS"
    subprocess.run(["make", "-s", "-C", ROOT / "userlib", f"BUILD={folder}", checked], check=True)
    build_fakes(folder)
    link = ["-Wl,--no-as-needed", f"-L{folder}", "-lgpurt", "-lcuda", "-ldl", "-pthread"]
    sources = sorted(FAKES.glob("program*.c"))
    compile_program(folder / "program", sources, [*FLAGS, f"-I{ROOT}/userlib/include", *link])
    return folder


def build_fakes(folder: Path) -> None:
    """Compiles what plays the kernel and NVIDIA's and AMD's libraries."""
    subprocess.run([ROOT / "scripts/fake-cuda", "--build", folder], check=True)


class FakeGpu:
    """The fake GPU's process.  A test reads its state, and makes it fail on purpose."""

    def __init__(self, path: Path, gpus: int) -> None:
        self.path = path
        command = [sys.executable, FAKES / "server.py", path, str(gpus)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(path))

    def ask(self, op: str = "look", **what: Any) -> dict[str, Any]:
        self.sock.send(json.dumps({"op": op, **what}).encode())
        answer: dict[str, Any] = json.loads(self.sock.recv(1 << 20))
        return answer

    def refuse(self, name: str, times: int, status: int) -> None:
        """Makes the next ``times`` calls of an operation fail with ``status``."""
        self.ask("refuse", name=name, times=times, status=status)

    def machine(self, *gpus: dict[str, int], release: tuple[int, int] = (6, 1), cwsr: int = 1) -> None:
        """Sets AMD's driver's machine before a program opens it: GPUs (topology.KfdGpu), kernel, module parameter."""
        self.ask("machine", gpus=gpus, release=release, cwsr=cwsr)

    def finish(self, pid: int) -> None:
        """Makes all work that a process has submitted complete as soon as the process has the GPU."""
        self.ask("finish", pid=pid)

    def groups(self, pid: int) -> list[dict[str, Any]]:
        """The process's groups or queues."""
        return [group for group in self.ask()["groups"] if group["pid"] == pid]

    def enabled(self, pid: int) -> bool:
        """Whether all its groups are on."""
        return all(group["enabled"] for group in self.groups(pid))

    def order(self, gpu: int = 0) -> list[int]:
        """The processes whose work completed, in order."""
        return [int(name.split(":")[0]) for name, _ in self.ask()["order"][gpu]]

    def close(self) -> None:
        self.sock.close()
        self.process.kill()
        self.process.wait()


class Program:
    """A program under the preload library."""

    def __init__(self, built: Path, gpu: FakeGpu, host: Path, how: str, family: str, extra: dict[str, str]) -> None:
        user = extra.pop("user", None)
        loader = extra.pop("loader", "").split()  # of another C library than this machine's, with its options
        version = gpu.path.with_suffix(".version")
        version.write_text(extra.pop("version", "570.86.15") + "\n")
        environment = {
            **os.environ, "FAKE_GPU": str(gpu.path), "FAKE_FAMILY": family, "FAKE_NVIDIA_VERSION": str(version),
            "GPURT_DEVICE": str(host), "LD_LIBRARY_PATH": str(built), "GPURT_VERBOSE": "1",
            "LD_PRELOAD": f"{built}/libgpurt-preload.so:{built}/libdriver.so", **extra,
        }  # fmt: skip
        command = [*loader, built / "program", "hip" if family == "hip" else how]
        self.gpu = gpu
        self.complaints = gpu.path.with_suffix(f".{id(self)}.err")
        with self.complaints.open("wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=err, env=environment, user=user,
            )  # fmt: skip
        self.pid = self.process.pid
        self.asked: list[str] = []  # commands whose answers are still to come
        self.read = b""  # of its output

    def send(self, *lines: str) -> None:
        """Sends commands to the program.  Does not wait."""
        self.asked += lines
        assert self.process.stdin
        self.process.stdin.write("".join(line + "\n" for line in lines).encode())
        self.process.stdin.flush()

    def answer(self) -> str:
        """Waits for the program's answer to the next command, and returns it; "" if the program has ended."""
        asked, more = self.asked.pop(0), b" "
        assert self.process.stdout
        while more and b"\n" not in self.read:
            assert readable(self.process.stdout, PATIENCE), f"no answer to {asked!r}: {self.said()}"
            more = os.read(self.process.stdout.fileno(), 4096)
            self.read += more
        line, _, self.read = self.read.partition(b"\n")
        return line.decode().strip()

    def heard(self) -> None:
        """Waits until the host has taken what the program has posted, if the program does nothing now."""
        if not self.asked:
            self.do("query-host")

    def do(self, *lines: str) -> None:
        """Sends commands, and waits until the program has carried them out."""
        self.send(*lines)
        assert [self.answer() for _ in lines] == ["ok"] * len(lines), self.said()

    def said(self) -> str:
        return self.complaints.read_text()

    def quit(self) -> str:
        """Ends the program and returns what it wrote on stderr."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.said()
        return self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., Program]


class Served:
    """A `gpurt serve`."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.log = path.with_suffix(".log")
        command = [sys.executable, *self.command(*options)]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        await_host(self.process, self.log)

    def command(self, *options: str) -> list[str | Path]:
        """What Python executes."""
        return ["-m", "pycontrol", "serve", f"--socket={self.path}", "--policy=segment", *options]

    def stop(self) -> None:
        if self.process.poll() == -signal.SIGKILL:
            return  # the test's doing
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        assert "dropped client" not in self.log.read_text()


#: Where the fake's GPUs are, by driver.
ADDRESSES = {
    "hip": "0000:03:00.0@0,0000:04:00.0@1", "nvidia": "0000:04:00.0@0,0000:05:00.0@1", "nvgpu": "17000000.gpu@0",
}  # fmt: skip


class Patched(Served):
    """A host with a patched driver: patched_host.py.  Options: the fake GPU, and where the host's GPUs are."""

    def command(self, *options: str) -> list[str | Path]:
        """What Python executes."""
        return [Path(__file__).with_name("patched_host.py"), self.path, *options]


def stop(program: Program) -> None:
    """Stops all threads of the program.  One thread takes the signal first and then stops the others."""
    os.kill(program.pid, signal.SIGSTOP)
    threads = Path(f"/proc/{program.pid}/task")

    def states() -> set[str]:
        return {(one / "stat").read_text().rpartition(")")[2].split()[0] for one in threads.iterdir()}

    eventually(lambda: states() == {"T"})


def real_time(plane: Control, program: Program, priority: int = 50) -> Program:
    """Gives a program a priority.  With HIP the host knows the process only when its agent has reported a queue."""
    eventually(lambda: any(one.pid == program.pid for one in plane.clients()))
    plane.set_priority(program.pid, priority)
    return program


def never_known_to_be_off(host: Served, gpu: FakeGpu, background: Program, urgent: Program, error: int) -> None:
    """The first step of an order off succeeds and each preemption fails; then the urgent process goes away.

    The background process's group must come back all the same, once its process is late.
    """
    background.do(LONG)
    gpu.refuse("preempt", ALWAYS, error)
    with connect(str(host.path)) as plane:
        real_time(plane, urgent).send(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    urgent.kill()
    eventually(lambda: gpu.enabled(background.pid))
    gpu.finish(background.pid)
    background.do("all")
