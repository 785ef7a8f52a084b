# SPDX-License-Identifier: GPL-2.0
"""What is known of a host when it is compared with a taskset file: from the running one, or from a trace of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from analysis.model import Taskset, Waiting
from analysis.taskset import TasksetFile
from analysis.trace import HOST, Trace
from gpurt.enums import Cap, Cause, Form, Image, Notice, Overrun, Policy, State, Tier
from gpurt.segments import Client
from pycontrol import procs
from pycontrol.live import patched
from pycontrol.live.control import ClientInfo, Control, GpuStatus, Latency
from pycontrol.live.placed import partition_of
from pycontrol.run.placement import DEFAULT_CLASS, FOLDED, fifo_permitted
from pycontrol.run.programs import tasks_of

_Kind = TypeVar("_Kind", GpuStatus, ClientInfo, Latency)

#: The module's parameters: on which CPU the GPUs' threads stay, and whether updates of virtual GPUs sleep.
PARAMETERS = Path("/sys/module/gpurt/parameters")
#: Updates of the module's virtual GPUs that take longer always sleep, ns (kmod/drv/vgpu.c).
SPIN = 10_000_000
#: The CPUs that this machine has now.
ONLINE = Path("/sys/devices/system/cpu/online")


@dataclass(frozen=True)
class Ran:
    """How `gpurt run` executes tasks on a host.  ``waiting``: of all of them, None: as the file says."""

    waiting: Waiting | None = None
    folded: bool = False
    shaped: bool = True


@dataclass(frozen=True)
class Host:
    """What is known of a host.

    ``policy`` and ``count`` of GPUs: all that a trace may say of them; None, 0: not even that.  ``raises``: whether the
    host raises other processes' threads; None: it was not asked.  ``thread_stays``: whether the GPUs' threads stay on
    CPU 0.  ``sleeps``: whether updates of virtual GPUs sleep.  ``troubles``: of patched drivers.  ``cpus``: the numbers
    of the CPUs; None: not known.  ``fifo``: whether this user, or the one who ran the tasks, may use SCHED_FIFO.
    ``names``: of processes, by pid, the tasks that they may be; ``homes``: the partitions that they were started in.
    ``ran``: how tasks run, where `gpurt run` starts them.
    """

    gpus: Sequence[GpuStatus] = ()
    clients: Sequence[ClientInfo] = ()
    latency: Sequence[Latency] = ()
    policy: str | None = None
    count: int = 0
    raises: bool | None = None
    thread_stays: bool = False
    sleeps: bool = False
    troubles: Sequence[str] = ()
    cpus: frozenset[int] | None = None
    fifo: bool = True
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    homes: Mapping[int, str] = field(default_factory=dict)
    ran: Ran | None = None

    def under(self, policy: str) -> Host:
        """The host with all its GPUs under a policy."""
        return replace(self, gpus=[replace(one, policy=Policy(Policy.parse(policy))) for one in self.gpus])

    def given(self, priorities: Mapping[int, int]) -> Host:
        """The host after the control plane has set GPU priorities, by pid."""
        clients = [replace(one, priority=priorities.get(one.pid, one.priority)) for one in self.clients]
        return replace(self, clients=clients)


def ask(control: Control, file: TasksetFile, policy: str | None = None) -> Host:
    """What a running host says of itself, and this machine of it and of its clients' processes.

    ``policy``: one that the host is about to have.  Raises DeviceError if it has no GPU or does not answer.
    """
    gpus, clients = control.gpus(), control.clients()
    pids = {one.pid: one.comm for one in clients if one.pid}  # 0: another user's, or in another pid namespace
    homes = {pid: home for pid in pids if (home := partition_of(pid)) is not None}
    module = Path(control.device).is_char_device()
    return Host(
        gpus, clients, control.latency(), raises=_raises(control.device, file.taskset, gpus, policy),
        thread_stays=module and _parameter("thread_cpu") == "0",
        sleeps=module and (_parameter("vgpu_sleeps") == "Y" or any(one.alpha_ns + one.theta_ns > SPIN for one in gpus)),
        troubles=_troubles() if module else (), cpus=online(), fifo=fifo_permitted(),
        names={pid: tuple(tasks_of(file, comm, procs.command(pid))) for pid, comm in pids.items()}, homes=homes,
    )  # fmt: skip


def _raises(device: str, taskset: Taskset, gpus: Sequence[GpuStatus], policy: str | None) -> bool | None:
    """Whether the host raises threads.  Only a client can ask, which other readers see come and go."""
    policies = {*taskset.policies, *(gpu.policy.word for gpu in gpus), policy}
    if "boosted" not in policies:
        return None
    try:
        with Client(device) as client:
            return bool(client.capabilities & Cap.RAISES)
    except OSError:
        return None


def _parameter(name: str) -> str:
    try:
        return (PARAMETERS / name).read_text().strip()
    except OSError:
        return ""


def _troubles() -> tuple[str, ...]:
    try:
        return tuple(one.trouble for one in patched.read() if one.trouble)
    except (OSError, ValueError) as error:
        return (str(error),)


def online() -> frozenset[int] | None:
    """The numbers of this machine's CPUs; None if it does not say."""
    try:
        pieces = [one.partition("-") for one in ONLINE.read_text().strip().split(",")]
        return frozenset(cpu for low, _, high in pieces for cpu in range(int(low), int(high or low) + 1))
    except (OSError, ValueError):
        return None


# In a trace


def saved(host: Host) -> str:
    """A host as text for a trace's ``meta``; `of_trace` reads it."""
    kept = {
        "gpus": [asdict(one) for one in host.gpus], "clients": [asdict(one) for one in host.clients],
        "latency": [asdict(replace(one, buckets=())) for one in host.latency], "raises": host.raises,
        "thread_stays": host.thread_stays, "sleeps": host.sleeps, "troubles": list(host.troubles),
        "cpus": None if host.cpus is None else sorted(host.cpus), "names": host.names, "homes": host.homes,
    }  # fmt: skip
    return json.dumps(kept, separators=(",", ":"))


def of_trace(recorded: Trace) -> Host:
    """The host that a trace was recorded on, and how its tasks ran.  Simulated ones have no more than a policy."""
    meta = recorded.meta
    modes = {mode.value: mode for mode in Waiting}
    ran = Ran(modes.get(meta.get("waiting", "")), meta.get("placement") == FOLDED, "slices" not in meta)
    fifo = meta.get("scheduling") != DEFAULT_CLASS
    try:
        kept = json.loads(meta[HOST])
        return Host(
            [_known(GpuStatus, one) for one in kept["gpus"]], [_known(ClientInfo, one) for one in kept["clients"]],
            [_known(Latency, one) for one in kept["latency"]], meta.get("policy"), len(kept["gpus"]), kept["raises"],
            kept["thread_stays"], kept["sleeps"], kept["troubles"],
            None if kept["cpus"] is None else frozenset(kept["cpus"]), fifo,
            {int(pid): tuple(names) for pid, names in kept["names"].items()},
            {int(pid): home for pid, home in kept["homes"].items()}, ran,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        count = meta.get("gpus", "")
        return Host(policy=meta.get("policy"), count=int(count) if count.isdecimal() else 0, fifo=fifo, ran=ran)


#: The fields of statuses that are numbers with a name.
_ENUMS = {
    "policy": Policy, "notice": Notice, "tier": Tier, "image": Image, "state": State, "form": Form, "copy": State,
    "cause": Cause, "on_overrun": Overrun,
}  # fmt: skip


def _known(kind: type[_Kind], values: Mapping[str, Any]) -> _Kind:
    """A status from its fields.  Raises TypeError, ValueError or KeyError if they are not those of this release."""
    made = {one.name: values[one.name] for one in fields(kind)}
    made |= {name: _ENUMS[name](value) for name, value in made.items() if name in _ENUMS and value is not None}
    return kind(**made)
