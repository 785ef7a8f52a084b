# SPDX-License-Identifier: GPL-2.0
"""The fake GPU's process.  It serves driver.c, cuda.c and hip.c (see wire.h), and a test that sends JSON."""

from __future__ import annotations

import contextlib
import errno
import heapq
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from drivers import Caller, Faults, File, Later, Refused
from engine import Engine
from kfd import Kfd, Machine
from mig import Cap
from nodes import file_of
from nvgpu import NvgpuTsg
from nvidia import Nvidia, NvidiaUvm
from pci import write as write_pci
from topology import Gpu, write

REQUEST = struct.Struct("=IIIIQIIQ")
ANSWER = struct.Struct("=iiQ")
OPEN, IOCTL, SUBMIT, WAIT, DONE = 1, 2, 3, 4, 5


class Server:
    """One epoll loop.  A test can make it delay answers."""

    def __init__(self, path: str, gpus: int) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        self.listener.listen(4096)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.engines = [Engine(time.monotonic_ns()) for _ in range(gpus)]
        self.faults = Faults()
        Nvidia.VERSION = Path(path).with_suffix(".version")
        self.sysfs = Path(path).with_suffix(".sys")
        Nvidia.GPUS = gpus
        write_pci(self.sysfs, gpus)
        Kfd.watch, Kfd.at = self.watch, self.at
        self.machine([{"id": 4711 + number} for number in range(gpus)])
        self.files = NvgpuTsg.FILES = NvidiaUvm.FILES = Cap.FILES = {}  # by cookie
        self.held: dict[socket.socket, int] = {}  # connections that are open nodes
        self.later: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.unlocked = 0  # when nobody holds nvgpu's lock any more, ns

    def machine(self, gpus: list[dict[str, Any]], release: Iterable[int] = (6, 1), cwsr: int = 1) -> None:
        """Sets the machine that AMD's driver runs on, from now on."""
        Kfd.MACHINE = Machine([Gpu(**gpu) for gpu in gpus], tuple(release))
        write(self.sysfs, Kfd.MACHINE.gpus, cwsr)

    def divide(self, gpu: int, instance: int, computes: int) -> None:
        """Makes a GPU instance with so many compute instances.  Each has an engine, behind those of all GPUs."""
        first = len(self.engines)
        self.engines += [Engine(time.monotonic_ns()) for _ in range(computes)]
        Nvidia.MIG.divide(gpu, instance, list(range(first, first + computes)))

    def watch(self, pid: int, then: Callable[[], None]) -> None:
        self.selector.register(os.pidfd_open(pid), selectors.EVENT_READ, then)

    def serve(self) -> None:
        while True:
            times = [at for engine in self.engines if (at := engine.next()) is not None]
            times += [self.later[0][0]] if self.later else []
            wait = max(0, min(times) - time.monotonic_ns()) / 1e9 if times else None
            for key, _ in self.selector.select(wait):
                self.advance()
                sock = key.fileobj
                if isinstance(sock, int):  # a process has ended
                    self.selector.unregister(sock)
                    os.close(sock)
                    key.data()
                    continue
                assert isinstance(sock, socket.socket)
                if sock is self.listener:
                    made, _ = sock.accept()
                    self.selector.register(made, selectors.EVENT_READ)
                else:
                    self.receive(sock)
            self.advance()
            while self.later and self.later[0][0] <= time.monotonic_ns():
                heapq.heappop(self.later)[2]()

    def advance(self) -> None:
        for engine in self.engines:
            engine.advance(time.monotonic_ns())

    def at(self, delay: int, then: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.later, (time.monotonic_ns() + delay, self.count, then))

    def receive(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(sock)
            cookie = self.held.pop(sock, None)
            sock.close()
            if cookie is not None:
                self.files.pop(cookie).close()
        elif data[:1] == b"{":
            sock.send(json.dumps(self.look(json.loads(data))).encode())
        else:
            self.request(sock, data)

    def request(self, sock: socket.socket, data: bytes) -> None:
        kind, size, nested, code, cookie, client, handle, value = REQUEST.unpack_from(data)
        argument = bytearray(data[REQUEST.size : REQUEST.size + size])
        behind = bytearray(data[REQUEST.size + size : REQUEST.size + size + nested])
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, uid, _ = struct.unpack("=iII", raw)

        def answer(result: int = 0, error: int = 0, number: int = 0) -> None:
            with contextlib.suppress(OSError):  # the process has died
                sock.send(ANSWER.pack(result, error, number) + argument + behind)

        try:
            if kind == OPEN:
                self.files[cookie] = file_of(argument.decode(), Caller(pid, uid), self.engines, self.faults)
                self.held[sock] = cookie
                answer()
                return
            file = self.files.get(cookie)
            if file is None:
                raise Refused(errno.EBADF)
            if kind == IOCTL:
                before = len(file.calls)
                result = file.ioctl(Caller(pid, uid), code, argument, behind)
                delay = max((self.faults.delay.get(name, 0) for name in file.calls[before:]), default=0)
                if delay:
                    self.at(self.locked(file, delay), lambda: answer(result))
                else:
                    answer(result)
                return
            self.work(file, kind, client, handle, value, answer)
        except Later as later:
            later.wait(answer)
        except Refused as refused:
            answer(-1, refused.error)

    def locked(self, file: File, delay: int) -> int:
        """How long a call takes.  nvgpu holds its lock while it polls for a preemption (common/fifo/preempt.c, r36.4).

        Calls of other processes wait for that.
        """
        if not isinstance(file, NvgpuTsg):
            return delay
        now = time.monotonic_ns()
        self.unlocked = max(self.unlocked, now) + delay
        return self.unlocked - now

    def work(self, file: File, kind: int, client: int, handle: int, value: int, answer: Callable[..., None]) -> None:
        group = file.working(client, handle)
        if kind == SUBMIT:
            answer(number=file.engine_of(group).submit(group, value))
        elif kind == DONE:
            answer(number=group.completed >= value)
        elif group.completed >= value:
            answer()
        else:
            group.waiters.setdefault(value, []).append(answer)

    def look(self, what: dict[str, object]) -> object:
        """Carries out a test's request, and answers with the state."""
        if what["op"] == "refuse":
            self.faults.refuse[str(what["name"])] = [int(str(what["times"])), int(str(what["status"]))]
        elif what["op"] == "delay":
            self.faults.delay[str(what["name"])] = int(str(what["ns"]))
        elif what["op"] == "machine":
            self.machine(what["gpus"], what["release"], what["cwsr"])  # type: ignore[arg-type]
        elif what["op"] == "divide":
            self.divide(what["gpu"], what["instance"], what["computes"])  # type: ignore[arg-type]
        elif what["op"] == "resume":
            NvgpuTsg.resume()
        elif what["op"] == "only":
            pids = what["pids"]
            self.engines[what["gpu"]].restrict(None if pids is None else set(pids))  # type: ignore[index,call-overload]
        elif what["op"] == "finish":
            for engine in self.engines:
                engine.finish(int(str(what["pid"])))
        groups = [
            {"pid": group.pid, "gpu": gpu, "enabled": group.enabled, "turns": group.turns, "queued": len(group.works),
             "slice_us": group.slice_us, "completed": group.completed, "log": group.log[-64:],
             **group.facts()}
            for gpu, engine in enumerate(self.engines) for group in engine.groups
        ]  # fmt: skip
        return {
            "groups": groups, "order": [engine.order[-256:] for engine in self.engines],
            "cycles": Kfd.MACHINE.cycles, "refuse": {name: times for name, (times, _) in self.faults.refuse.items()},
            "calls": {str(file.owner.pid): file.calls[-64:] for file in self.files.values() if file.calls},
        }  # fmt: skip


if __name__ == "__main__":
    server = Server(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    server.serve()
