# SPDX-License-Identifier: GPL-2.0
"""The known facts of a host for a comparison with a taskset file, and the questions to a running host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from analysis.model import POLICIES, Waiting
from analysis.taskset import TasksetFile
from gpurt.enums import Cap, Policy
from gpurt.files import matching
from gpurt.segments import Client
from gpurt.text import visible
from pycontrol.link import patched
from pycontrol.link.control import ClientInfo, Control, GpuStatus, UpdateLatency
from pycontrol.link.placed import partition_of
from pycontrol.machine import clocks, procs
from pycontrol.machine.clocks import MachineClocks
from pycontrol.machine.instances import shared_numbers
from pycontrol.machine.placement import fifo_permitted
from pycontrol.machine.programs import command_of, fingerprint, tasks_of
from pycontrol.observe import host_cpu
from pycontrol.observe.host_cpu import urgent_threads

#: Module parameters: the CPU on which the GPUs' threads stay, and whether updates of virtual GPUs sleep.
THREAD_CPU = Path("/sys/module/gpurt/parameters/thread_cpu")
SLEEPS = Path("/sys/module/gpurt_vgpu/parameters/vgpu_sleeps")
#: Longer updates of the module's virtual GPUs always sleep, ns (kmod/drv/vgpu.c).
MAX_AWAKE_NS = 10_000_000
#: The file that lists the CPUs that are online.
ONLINE = Path("/sys/devices/system/cpu/online")
#: The files with the CPUs of each CPU's core.
THREAD_SIBLINGS = "cpu[0-9]*/topology/thread_siblings_list"

#: The priority and the CPUs of each real-time thread of a process.
Threads = Sequence[tuple[int, Sequence[int]]]
#: A process that is no client: its name, its command's fingerprint, and its real-time threads.
Stranger = tuple[str, str, Threads]


@dataclass(frozen=True)
class Ran:
    """How `gpurt run` executes tasks on a host.  ``waiting``: the mode of all tasks; None: as the file says."""

    waiting: Waiting | None = None
    folded: bool = False
    shaped: bool = True


@dataclass(frozen=True)
class Host:
    """The known facts of a host.

    ``policy`` and ``count``: of the GPUs if a trace says nothing else of them; None and 0: it says neither.  If there
    are ``gpus``, ``policy`` is a previous policy.  ``known``: False for a real host that a trace does not
    describe.  ``raises``: whether the host raises other processes' threads; None: not asked.  ``thread_stays``: whether
    the GPUs' threads stay on CPU 0.  ``sleeps``: whether updates of virtual GPUs sleep.  ``troubles``: of patched
    drivers.  ``cpus``: the CPUs' numbers; None: not known.  ``fifo``: whether this user, or the user who ran the tasks,
    may use SCHED_FIFO.  ``programs``: by pid, the process's name and its command's fingerprint.  ``names``: the tasks
    that processes may be.  ``homes``: the partitions that processes were started in.  ``users``: the numbers of
    processes' users.  ``ran``: how `gpurt run` starts the tasks.  ``clocks``: the machine's clocks at each look; empty:
    no look.  ``threads``: by pid, the priority and CPUs of each real-time thread, also of tasks that are no
    clients.  ``exempted``: the processes that rules exempt, in words.  ``strangers``: the name, command's fingerprint
    and real-time threads of other processes that have such threads.
    ``unseen``: why other processes may be hidden; empty: all were looked at, or none counts.  ``siblings``: CPUs that
    share a core, in lists.  ``instances``: the numbers of GPUs that stand for several GPU instances (MIG).
    """

    gpus: Sequence[GpuStatus] = ()
    clients: Sequence[ClientInfo] = ()
    latency: Sequence[UpdateLatency] = ()
    policy: str | None = None
    count: int = 0
    raises: bool | None = None
    thread_stays: bool = False
    sleeps: bool = False
    troubles: Sequence[str] = ()
    cpus: frozenset[int] | None = None
    fifo: bool = True
    programs: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    homes: Mapping[int, str] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)
    ran: Ran | None = None
    known: bool = True
    clocks: Sequence[MachineClocks] = ()
    threads: Mapping[int, Threads] = field(default_factory=dict)
    exempted: Sequence[str] = ()
    strangers: Mapping[int, Stranger] = field(default_factory=dict)
    unseen: str = ""
    siblings: Sequence[Sequence[int]] = ()
    instances: Sequence[int] = ()

    def under(self, policy: str) -> Host:
        """The host with one policy on all its GPUs."""
        return replace(self, gpus=[replace(one, policy=Policy(Policy.parse(policy))) for one in self.gpus])

    def given(self, priorities: Mapping[int, int], groups: Mapping[int, str] = {}) -> Host:
        """The host after `gpurt apply`: these GPU priorities, and these groups for clients without one, by pid."""
        clients = [
            replace(one, priority=priorities.get(one.pid, one.priority), group=one.group or groups.get(one.pid, ""))
            for one in self.clients
        ]
        return replace(self, clients=clients)

    def named(self, file: TasksetFile) -> Host:
        """The host with the file's tasks that its processes may be, as far as their programs are known."""
        found = {pid: tuple(tasks_of(file, *program)) for pid, program in self.programs.items()}
        return replace(self, names={**self.names, **found})


def ask(control: Control, file: TasksetFile, policy: str | None = None) -> Host:
    """The facts that a running host states, and the facts of this machine about the host and its clients' processes.

    ``policy``: the host's future policy.  Raises DeviceError if the host has no GPU or does not answer.
    """
    host = look_without_file(control, {*file.taskset.policies, policy})
    others = _others(file, {one.pid for one in host.clients})
    threads = {**host.threads, **urgent_threads(others)}
    return replace(host, programs={**host.programs, **others}, threads=threads).named(file)


def _others(file: TasksetFile, clients: Collection[int]) -> dict[int, tuple[str, str]]:
    """The processes of tasks without GPU work, as ``programs``: they are no clients, so the host does not know them.

    Only the command counts: any process of this machine may have a task's name.
    """
    alone = [task.name for task in file.taskset.real_time
             if file.launch[task.name].command and not any(one.uses_gpu for one in file.taskset.beside(task))]
    wanted = {fingerprint(file.launch[name].command or ()) for name in alone}
    found = {}
    for pid in psutil.pids() if wanted else ():
        command = command_of(str(pid)) if pid not in clients else ""
        if wanted.intersection(command.split()):
            found[pid] = procs.name(pid), command
    return found


def look_without_file(control: Control, policies: Collection[str | None] | None = ()) -> Host:
    """As `ask`, but without a file: no process is known to be a task.

    ``policies``: policies to ask the host about, besides its own; None: omits the questions that only a client can ask.
    """
    gpus, clients = control.gpus(), control.clients()
    pids = {one.pid: one.comm for one in clients if one.pid}  # pid 0: of another user, or in another pid namespace
    homes = {pid: home for pid in pids if (home := partition_of(pid)) is not None}
    module = Path(control.device).is_char_device()
    asked = {gpu.policy.word for gpu in gpus} | {name for name in policies or () if name}
    boosted = policies is not None and any(one.raises for name, one in POLICIES.items() if name in asked)
    return Host(
        gpus, clients, control.latency(), raises=_raises(control.device) if boosted else None,
        thread_stays=module and _content(THREAD_CPU) == "0",
        sleeps=module and (_content(SLEEPS) == "Y"
                           or any(one.alpha_ns + one.theta_ns > MAX_AWAKE_NS for one in gpus)),
        troubles=_troubles() if module else (), cpus=online(), fifo=fifo_permitted(),
        programs={pid: (comm, command_of(str(pid))) for pid, comm in pids.items()}, homes=homes,
        users={pid: procs.user(pid) for pid in pids}, clocks=(clocks.look(),),
        threads=urgent_threads(pids), exempted=exempted(control),
        strangers=strangers(control, pids, gpus), unseen="" if all(one.emulated for one in gpus) else procs.hidden(),
        siblings=siblings(), instances=shared_numbers(),
    )  # fmt: skip


def strangers(control: Control, clients: Collection[int], gpus: Sequence[GpuStatus]) -> dict[int, Stranger]:
    """Processes with real-time threads that are no clients; none if all GPUs are virtual."""
    if all(gpu.emulated for gpu in gpus):
        return {}
    found = host_cpu.strangers(control, clients)
    return {pid: (procs.name(pid), command_of(str(pid)), threads) for pid, threads in found.items()}


def exempted(control: Control) -> list[str]:
    """The processes that rules of the host exempt, including future processes, in words."""
    return [next((f"{kind} {visible(whose)}" for kind, whose in (
        ("process", one.pid), ("processes named", one.comm), ("processes of cgroup", one.cgroup)) if whose),
        "processes that only root is told of") for one in control.rules() if one.exempt]  # fmt: skip


def _raises(device: str) -> bool | None:
    """Whether the host raises threads.  Only a client can ask, so other readers see this client come and go."""
    try:
        with Client(device) as client:
            return bool(client.capabilities & Cap.RAISES)
    except OSError:
        return None


def _content(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _troubles() -> tuple[str, ...]:
    try:
        return tuple(one.trouble for one in patched.read_patched() if one.trouble)
    except (OSError, ValueError) as error:
        return (str(error),)


def siblings(root: Path = Path("/")) -> list[list[int]]:
    """The CPUs of this machine that share a core with another one, a list for each such core."""
    lists = {(_content(one) or "0") for one in matching(root / "sys/devices/system/cpu", THREAD_SIBLINGS)}
    return sorted(sorted(_numbers(one)) for one in lists if len(_numbers(one)) > 1)


def _numbers(text: str) -> frozenset[int]:
    """The numbers of a list such as 0-3,8.  Raises ValueError."""
    pieces = [one.partition("-") for one in text.strip().split(",")]
    return frozenset(number for low, _, high in pieces for number in range(int(low), int(high or low) + 1))


def online() -> frozenset[int] | None:
    """The numbers of this machine's CPUs; None if the system does not say."""
    try:
        return _numbers(ONLINE.read_text())
    except (OSError, ValueError):
        return None
