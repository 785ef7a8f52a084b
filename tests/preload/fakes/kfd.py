# SPDX-License-Identifier: GPL-2.0
"""A model of AMD's compute driver (KFD), as strict as drivers/gpu/drm/amd/amdkfd of Linux 6.1.192 and 6.12.117.

Numbers and layouts repeat userlib/preload/kfd.h on purpose and take nothing from it.  A wrong number there must
disagree with this file, so that a test fails.  The model leaves out the execution of work from rings (a test submits
work), events, SVM, page tables and evictions.  It also leaves out the sizes of a queue's save area, which 6.12 checks.
"""

from __future__ import annotations

import errno
import string
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from drivers import Caller, File, Later, Refused
from engine import Group
from topology import Gpu

ENOTSUPP = 524
FOREVER = 0xFFFFFFFE  # ms
PAGE = 4096
FIRST = 0xFFFFFFFF  # what user space that does not know its queue's number submits to
COMPUTE, SDMA, AQL, SDMA_XGMI = range(4)
AQL_RING = 1 << 27  # memory of half the size, which is mapped twice
MOST = 127  # queues of a process on a GPU
#: kfd_ioctl.h: the number of a call -> its name and the bytes of its arguments, of those that the model knows.
CALLS = {
    0x01: ("version", 8), 0x02: ("create", 88), 0x03: ("destroy", 8), 0x04: ("policy", 32), 0x05: ("clocks", 40),
    0x07: ("update", 24), 0x08: ("event", 32), 0x09: ("no-event", 8), 0x0A: ("set-event", 8), 0x0B: ("reset-event", 8),
    0x0C: ("wait", 24), 0x11: ("scratch", 16),
    0x12: ("tiles", 40),
    0x13: ("trap", 24), 0x14: ("apertures", 16), 0x15: ("vm", 8), 0x16: ("allocate", 40), 0x17: ("free", 8),
    0x18: ("map", 24), 0x19: ("unmap", 24), 0x1A: ("mask", 16), 0x21: ("xnack", 4), 0x23: ("available", 16),
    0x27: ("process", 0),
}  # fmt: skip


@dataclass(eq=False)
class Queue(Group):
    """A user queue.  ``bare``: it was active while it had no mask."""

    gpu: int = 0
    kind: int = COMPUTE
    ring: int = 0
    size: int = 0
    percentage: int = 0
    xcc: int = 0
    priority: int = 0
    mask: bytes = b""
    bare: bool = False

    def facts(self) -> dict[str, object]:
        return {"percentage": self.percentage, "xcc": self.xcc, "mask": self.mask.hex(), "bare": self.bare,
                "priority": self.priority}  # fmt: skip

    def ready(self) -> bool:
        """Whether it has work and may run.  Without any compute unit its waves never start."""
        return super().ready() and (not self.mask or any(self.mask))


@dataclass
class Memory:
    """Memory of a GPU's address space."""

    address: int
    size: int
    mapped: bool = False


@dataclass(eq=False)
class Process:
    """A process's queues and memory: those of all its open files, until it ends or executes another program."""

    pid: int
    image: str
    spaces: set[int] = field(default_factory=set)  # GPUs for which it has acquired an address space
    queues: dict[int, Queue] = field(default_factory=dict)
    memory: dict[int, Memory] = field(default_factory=dict)
    events: dict[int, bool] = field(default_factory=dict)  # whether it is set
    waiters: list[tuple[list[int], Callable[[], None]]] = field(default_factory=list)
    contexts: list[Process] = field(default_factory=list)  # what CREATE_PROCESS has made


@dataclass
class Machine:
    """The GPUs, the kernel's release, and how often each GPU's queues were all unmapped and mapped again."""

    gpus: list[Gpu]
    release: tuple[int, ...] = (6, 1)
    cycles: list[int] = field(default_factory=list)
    running: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cycles, self.running = [0] * len(self.gpus), [False] * len(self.gpus)

    def number(self, identity: int) -> int:
        """The index of a GPU, by the id that sysfs gives it."""
        for number, gpu in enumerate(self.gpus):
            if gpu.id == identity:
                return number
        raise Refused(errno.EINVAL)


def image_of(pid: int) -> str:
    """Something that changes when the process executes another program.  Empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[25]
    except OSError:
        return ""


class Kfd(File):
    """/dev/kfd.  Only the process that opened it may call it."""

    MACHINE: ClassVar[Machine]  # the server sets it
    PROCESSES: ClassVar[dict[int, Process]] = {}
    #: Has a function called when a process ends; the server sets it.
    watch: ClassVar[Callable[[int, Callable[[], None]], None]]
    #: Has a function called after so many ns; the server sets it.
    at: ClassVar[Callable[[int, Callable[[], None]], None]]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        pid = self.owner.pid
        if pid in self.PROCESSES and self.PROCESSES[pid].image != image_of(pid):
            self.end(pid)
        if pid not in self.PROCESSES:
            self.PROCESSES[pid] = Process(pid, image_of(pid))
            Kfd.watch(pid, lambda: self.end(pid))
        self.process = self.PROCESSES[pid]

    def end(self, pid: int) -> None:
        """The process has ended, or executes another program."""
        if process := self.PROCESSES.pop(pid, None):
            for one in (process, *process.contexts):
                self.drop_all(one)

    def drop_all(self, process: Process) -> None:
        for queue in list(process.queues.values()):
            self.drop_queue(process, queue)

    def close(self) -> None:
        """The last descriptor is closed.  The process keeps its queues; a context of the file goes (kfd_release())."""
        if self.process is not self.PROCESSES.get(self.owner.pid, self.process):
            self.drop_all(self.process)
        if self.process.image != image_of(self.owner.pid):
            self.end(self.owner.pid)

    def working(self, client: int, handle: int) -> Group:
        """The queue with that number, or the process's first one."""
        return self.queue(min(self.process.queues, default=0) if handle == FIRST else handle)

    def queue(self, number: int, error: int = errno.EFAULT) -> Queue:
        if number not in self.process.queues:
            raise Refused(error)
        return self.process.queues[number]

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        """As kfd_ioctl(): the number decides; missing bytes of the arguments are 0, excess ones are ignored."""
        if caller.pid != self.owner.pid:
            raise Refused(errno.EBADF)
        if code & 0xFF not in CALLS:
            raise Refused(errno.ENOTTY)
        name, size = CALLS[code & 0xFF]
        error = self.faults.due(name)
        if error:
            raise Refused(error)
        data = argument + bytes(max(0, size - len(argument)))
        self.calls.append(name)
        getattr(self, f"do_{name.replace('-', '_')}")(data, nested)
        argument[:] = data[: len(argument)]
        return 0

    def do_process(self, data: bytearray, nested: bytearray) -> None:
        """A context of this file alone (kfd_ioctl_create_process() in kfd_chardev.c, 7.2.13)."""
        if self.MACHINE.release < (7, 0):
            raise Refused(errno.ENOTTY)
        primary = self.PROCESSES[self.owner.pid]
        if self.process is not primary:
            raise Refused(errno.EINVAL)
        self.process = Process(primary.pid, primary.image)
        primary.contexts.append(self.process)

    # Queues

    def settings(self, percentage: int, priority: int, size: int) -> tuple[int, int]:
        """The percentage and the XCC (bits 8 to 15, not in 6.1), as set_queue_properties_from_user() checks them."""
        xcc, percent = divmod(percentage & 0xFFFF, 256) if self.MACHINE.release >= (6, 12) else (0, percentage)
        if percent > 100 or priority > 15 or size & (size - 1):
            raise Refused(errno.EINVAL)
        return percent, xcc

    def mapped(self, address: int, size: int, error: int) -> None:
        """6.12 wants a queue's buffers to be mappings of their own (kfd_queue_buffer_get())."""
        if self.MACHINE.release < (6, 12):
            return
        if not any((one.address, one.size) == (address, size) and one.mapped for one in self.process.memory.values()):
            raise Refused(error)

    def halved(self, gpu: Gpu, kind: int) -> bool:
        """AQL rings of GFX7 and GFX8 appear twice in the address space."""
        return kind == AQL and 70000 <= gpu.gfx < 90000

    def do_create(self, data: bytearray, nested: bytearray) -> None:
        ring, write, read, _, size, identity, kind, percentage, priority, _ = struct.unpack_from("=QQQQIIIIII", data)
        percent, xcc = self.settings(percentage, priority, size)
        if kind > SDMA_XGMI:
            raise Refused(ENOTSUPP)
        gpu = self.MACHINE.number(identity)
        if gpu not in self.process.spaces:
            raise Refused(errno.ESRCH)
        if sum(queue.gpu == gpu for queue in self.process.queues.values()) >= MOST:
            raise Refused(errno.ENOSPC)
        self.mapped(ring, size // 2 if self.halved(self.MACHINE.gpus[gpu], kind) else size, errno.EINVAL)
        self.mapped(write & -PAGE, PAGE, errno.EINVAL)
        self.mapped(read & -PAGE, PAGE, errno.EINVAL)
        number = next(n for n in range(1024) if n not in self.process.queues)
        queue = Queue(f"{self.owner.pid}:{number:x}", self.owner.pid, False, gpu=gpu, kind=kind, priority=priority)
        queue.ring, queue.size, queue.percentage, queue.xcc = ring, size, percent, xcc
        self.process.queues[number] = queue
        self.engines[gpu].groups.append(queue)
        if ring and size and percent:
            self.remap(queue, lambda: self.settle(queue))
        struct.pack_into("=Q", data, 24, number * 8)
        struct.pack_into("=I", data, 52, number)

    def do_destroy(self, data: bytearray, nested: bytearray) -> None:
        queue = self.queue(struct.unpack_from("=I", data)[0], errno.EINVAL)
        self.drop_queue(self.process, queue)
        error = self.faults.due("preemption")
        if error:  # pqm_destroy_queue(): with ETIME and EIO the queue is gone all the same
            raise Refused(error)

    def drop_queue(self, process: Process, queue: Queue) -> None:
        def drop() -> None:
            self.engines[queue.gpu].remove(queue)

        process.queues = {number: one for number, one in process.queues.items() if one is not queue}
        if queue.enabled:
            queue.enabled = False
            self.remap(queue, drop)
        else:
            drop()

    def do_update(self, data: bytearray, nested: bytearray) -> None:
        ring, number, size, percentage, priority = struct.unpack_from("=QIIII", data)
        percent, xcc = self.settings(percentage, priority, size)
        queue = self.queue(number)
        if ring and size:
            self.mapped(ring, size, errno.EFAULT)
        queue.ring, queue.size, queue.percentage, queue.xcc, queue.priority = ring, size, percent, xcc, priority
        self.remap(queue, lambda: self.settle(queue))

    def do_mask(self, data: bytearray, nested: bytearray) -> None:
        number, bits = struct.unpack_from("=II", data)
        if not bits or bits % 32:
            raise Refused(errno.EINVAL)
        mask = int.from_bytes(nested[: min(bits, 1024) // 8], "little")
        if len(nested) < min(bits, 1024) // 8:
            raise Refused(errno.EFAULT)
        queue = self.queue(number)
        gpu = self.MACHINE.gpus[queue.gpu]
        if gpu.pairs and (mask ^ mask >> 1) & int("5" * 256, 16):
            raise Refused(errno.EINVAL)
        self.calls.append(f"mask {bytes(nested).hex()}")

        def confine() -> None:
            if queue.kind in (COMPUTE, AQL):
                queue.mask = (mask & (1 << gpu.units) - 1).to_bytes(128, "little")
            self.settle(queue)

        self.remap(queue, confine)

    def settle(self, queue: Queue) -> None:
        """QUEUE_IS_ACTIVE in kfd_mqd_manager.h, of what is modelled."""
        self.switch(queue, bool(queue.ring and queue.size and queue.percentage))
        queue.bare |= queue.enabled and not queue.mask

    def remap(self, queue: Queue, change: Callable[[], None]) -> None:
        """Changes a queue.  With HWS all queues of all processes are unmapped for it; with MES only this one is."""
        engine, machine, gpu = self.engines[queue.gpu], self.MACHINE, queue.gpu
        if machine.gpus[gpu].hws:
            machine.cycles[gpu] += machine.running[gpu]
            engine.current = None
            change()
            machine.running[gpu] = any(group.enabled for group in engine.groups)
        else:
            engine.preempt(queue)
            change()

    # Memory and the rest that user space asks for before it makes a queue

    def do_version(self, data: bytearray, nested: bytearray) -> None:
        struct.pack_into("=II", data, 0, 1, 17 if self.MACHINE.release >= (6, 12) else 11)

    def do_apertures(self, data: bytearray, nested: bytearray) -> None:
        room = struct.unpack_from("=I", data, 8)[0]
        gpus = [gpu for gpu in self.MACHINE.gpus if not gpu.hidden]
        for place, gpu in enumerate(gpus[:room]):
            struct.pack_into("=QQQQQQII", nested, 56 * place, 1 << 56, (1 << 56) + (1 << 32) - 1, 2 << 56,
                             (2 << 56) + (1 << 32) - 1, PAGE, (1 << 47) - 1, gpu.id, 0)  # fmt: skip
        struct.pack_into("=I", data, 8, len(gpus))

    def do_vm(self, data: bytearray, nested: bytearray) -> None:
        gpu = self.MACHINE.number(struct.unpack_from("=I", data, 4)[0])
        self.process.spaces.add(gpu)

    def do_allocate(self, data: bytearray, nested: bytearray) -> None:
        address, size, _, _, identity, flags = struct.unpack_from("=QQQQII", data)
        if self.MACHINE.number(identity) not in self.process.spaces:
            raise Refused(errno.ENODEV)
        if not size:
            raise Refused(errno.EINVAL)
        handle = max(self.process.memory, default=0) + 1
        self.process.memory[handle] = Memory(address, size // 2 if flags & AQL_RING else size)
        struct.pack_into("=QQ", data, 16, handle, handle << 12)

    def memory_of(self, data: bytearray) -> Memory:
        handle = struct.unpack_from("=Q", data)[0]
        if handle not in self.process.memory:
            raise Refused(errno.EINVAL)
        return self.process.memory[handle]

    def do_free(self, data: bytearray, nested: bytearray) -> None:
        self.memory_of(data)
        del self.process.memory[struct.unpack_from("=Q", data)[0]]

    def do_map(self, data: bytearray, nested: bytearray) -> None:
        self.memory_of(data).mapped = True
        struct.pack_into("=I", data, 20, struct.unpack_from("=I", data, 16)[0])

    def do_unmap(self, data: bytearray, nested: bytearray) -> None:
        self.memory_of(data).mapped = False
        struct.pack_into("=I", data, 20, struct.unpack_from("=I", data, 16)[0])

    def do_clocks(self, data: bytearray, nested: bytearray) -> None:
        now = time.monotonic_ns()
        struct.pack_into("=QQQQ", data, 0, now // 10, now, now, 1_000_000_000)

    def do_event(self, data: bytearray, nested: bytearray) -> None:
        number = max(self.process.events, default=0) + 1
        self.process.events[number] = False
        struct.pack_into("=QI", data, 0, 0, number)
        struct.pack_into("=II", data, 24, number, number)

    def do_set_event(self, data: bytearray, nested: bytearray) -> None:
        number = struct.unpack_from("=I", data)[0]
        self.process.events[number] = True
        waiting, self.process.waiters = self.process.waiters, []
        for numbers, wake in waiting:
            if number in numbers:
                wake()
            else:
                self.process.waiters.append((numbers, wake))

    def do_reset_event(self, data: bytearray, nested: bytearray) -> None:
        self.process.events[struct.unpack_from("=I", data)[0]] = False

    def do_wait(self, data: bytearray, nested: bytearray) -> None:
        count, _, timeout = struct.unpack_from("=III", data, 8)
        numbers = [struct.unpack_from("=I", nested, 48 * n + 40)[0] for n in range(count)]

        def wait(wake: Callable[[], None]) -> None:
            self.process.waiters.append((numbers, wake))
            if timeout < FOREVER:
                Kfd.at(timeout * 1_000_000, lambda: self.give_up(wake))

        if not any(self.process.events.get(number) for number in numbers):
            raise Later(wait)

    def give_up(self, wake: Callable[[], None]) -> None:
        """A wait has lasted as long as it may."""
        before = len(self.process.waiters)
        self.process.waiters = [one for one in self.process.waiters if one[1] is not wake]
        if len(self.process.waiters) < before:
            wake()

    def do_nothing(self, data: bytearray, nested: bytearray) -> None:
        """A call whose effect nothing depends on here."""

    do_policy = do_no_event = do_scratch = do_tiles = do_trap = do_available = do_nothing

    def do_xnack(self, data: bytearray, nested: bytearray) -> None:
        raise Refused(errno.EPERM)  # as on GPUs without retry faults


class RenderNode(File):
    """A node of /dev/dri: user queues (amdgpu_userq.c, 7.2.13); what else libdrm asks for is refused."""

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if code & 0xFFFF != 0x6456 or len(argument) != 72:
            raise Refused(errno.ENOTTY)
        operation, number = struct.unpack_from("=II", argument)
        if operation == 1:
            number = next(n for n in range(1, 1024) if (0, n) not in self.groups)
            self.add((0, number), int(self.path.strip(string.ascii_letters + "/")) % 128, True)
            struct.pack_into("=II", argument, 0, number, 0)
        elif operation == 2 and (0, number) in self.groups:
            self.drop((0, number))
        else:
            raise Refused(errno.EINVAL)
        self.calls.append(f"userq {operation}")
        return 0
