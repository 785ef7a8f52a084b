# SPDX-License-Identifier: GPL-2.0
"""The preload library over fake drivers: a fake GPU, a host with agents, and programs that do what they are told."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pycontrol.client import Control
from pycontrol.client import connect as control

ROOT = Path(__file__).resolve().parents[2]
FAKES = Path(__file__).parent / "fakes"
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
#: How long anything may take before it counts as hung, seconds.
PATIENCE = 60.0


def eventually(holds: Callable[[], Any]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.002)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the libraries, the fakes and the program are."""
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("needs make and a C compiler")
    folder = tmp_path_factory.mktemp("preload")
    subprocess.run(["make", "-s", "-C", ROOT / "userlib", f"BUILD={folder}"], check=True, timeout=200)
    for name, source in (("libdriver.so", "driver.c"), ("libcuda.so.1", "cuda.c"), ("libamdhip64.so", "hip.c")):
        shared = ["-fPIC", "-shared", "-Wl,-Bsymbolic", f"-Wl,-soname,{name}", FAKES / source, "-ldl", "-pthread"]
        subprocess.run(["cc", *FLAGS, *shared, "-o", folder / name], check=True)
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    link = ["-Wl,--no-as-needed", f"-L{folder}", "-lgpurt", "-lcuda", "-ldl", "-pthread"]
    program = ["cc", *FLAGS, FAKES / "program.c", f"-I{ROOT}/userlib/include", *link, "-o", folder / "program"]
    subprocess.run(program, check=True)
    return folder


class FakeGpu:
    """The fake GPU's process, looked into and told what to do wrong."""

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
        """Has an operation fail so many times."""
        self.ask("refuse", name=name, times=times, status=status)

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


@pytest.fixture
def make_gpu(tmp_path: Path) -> Iterator[Callable[[int], FakeGpu]]:
    """Makes fake GPUs."""
    made: list[FakeGpu] = []

    def make(gpus: int = 1) -> FakeGpu:
        made.append(FakeGpu(tmp_path / f"gpu{len(made)}.sock", gpus))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def gpu(make_gpu: Callable[[int], FakeGpu]) -> FakeGpu:
    """One machine with two fake GPUs."""
    return make_gpu(2)


class Served:
    """A `gpurt serve`."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.log = path.with_suffix(".log")
        reader, writer = os.pipe()
        serve = [sys.executable, "-m", "pycontrol.host", "serve"]
        command = [*serve, f"--socket={path}", f"--ready-fd={writer}", *options]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, pass_fds=[writer])
        os.close(writer)
        ready = select.select([reader], [], [], PATIENCE)[0] and os.read(reader, 16)
        os.close(reader)
        assert ready, self.log.read_text()

    def stop(self) -> None:
        if self.process.poll() == -signal.SIGKILL:
            return  # the test's doing
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        assert "dropped client" not in self.log.read_text()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts hosts with agents; all are stopped at the end, and must have ended well."""
    running: list[Served] = []

    def start(*options: str) -> Served:
        running.append(Served(tmp_path / f"host{len(running)}.sock", *options))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A host with agents for two GPUs; agents are late after 10 s: machines can be slow."""
    return serve("--gpus=2", "--answer-bound=10s")


@pytest.fixture
def host(served: Served) -> Path:
    """Where it listens."""
    return served.path


@pytest.fixture
def plane(host: Path) -> Iterator[Control]:
    """The host's control plane."""
    with control(str(host)) as made:
        yield made


class Program:
    """A program under the preload library."""

    def __init__(self, built: Path, gpu: FakeGpu, host: Path, how: str, family: str, extra: dict[str, str]) -> None:
        version = gpu.path.with_suffix(".version")
        version.write_text(extra.pop("version", "570.86.15") + "\n")
        environment = {
            **os.environ, "FAKE_GPU": str(gpu.path), "FAKE_FAMILY": family, "FAKE_NVIDIA_VERSION": str(version),
            "GPURT_DEVICE": str(host), "LD_LIBRARY_PATH": str(built), "GPURT_VERBOSE": "1",
            "LD_PRELOAD": f"{built}/libgpurt-preload.so:{built}/libdriver.so", **extra,
        }  # fmt: skip
        self.gpu = gpu
        self.complaints = gpu.path.with_suffix(f".{id(self)}.err")
        with self.complaints.open("wb") as err:
            self.process = subprocess.Popen(
                [built / "program", "hip" if family == "hip" else how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=err, env=environment, text=True, bufsize=1,
            )  # fmt: skip
        self.pid = self.process.pid

    def send(self, *lines: str) -> None:
        """Tells it what to do, without waiting."""
        assert self.process.stdin
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def answer(self) -> str:
        """What it says to the next line that it was told."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def do(self, *lines: str) -> None:
        """Tells it what to do and waits until it has done that."""
        self.send(*lines)
        assert [self.answer() for _ in lines] == ["ok"] * len(lines), self.said()

    def said(self) -> str:
        return self.complaints.read_text()

    def quit(self) -> str:
        """Has it end; what it had to say."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.said()
        return self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., Program]


@pytest.fixture
def start(built: Path, gpu: FakeGpu, host: Path) -> Iterator[Start]:
    """Starts programs: how they find the driver API, the driver family, other environment."""
    made: list[Program] = []

    def one(how: str = "proc", family: str = "nvidia", at: Path = host, **extra: str) -> Program:
        made.append(Program(built, gpu, at, how, family, extra))
        if family != "hip":
            made[-1].do("context 0 0")
        return made[-1]

    yield one
    for program in made:
        program.kill()


@pytest.fixture
def depth(plane: Control) -> Callable[..., int]:
    """How deep in segments a program is on a GPU."""

    def of(program: Program, gpu: int = 0) -> int:
        return sum(one.depth for one in plane.clients() if one.pid == program.pid and one.gpu == gpu)

    return of
