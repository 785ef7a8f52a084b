# SPDX-License-Identifier: GPL-2.0
"""Hosts as their status answers describe them, and taskset files, to be compared with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, replace
from types import TracebackType
from typing import Any

import unobserved  # noqa: F401  # hosts here have no strangers but those that tests give them

from gpurt._gpurt import lib
from gpurt.enums import Cause, Form, Image, Notice, Policy, State, Tier
from pycontrol.link.control import FIELDS, BusStatus, ClientInfo, GpuStatus, RuleInfo, UpdateLatency
from pycontrol.observe.fit.fit import Host

US, MS = 1_000, 1_000_000
#: The parts of a status that objections ask about.
ASKED = ("tier", "driver", "policy", "notice", "poll_ns", "emulated", "unit_policy", "alpha_ns", "theta_ns", "slice_ns",
         "cross_thousandths", "late", "faults", "refused", "normal_priorities")  # fmt: skip
POLICIES = Policy.words()

VIRTUAL = GpuStatus(**{name: 0 for name, (_, default) in FIELDS[GpuStatus].items() if default is MISSING} | {
    "policy": Policy.SEGMENT, "notice": Notice.POLL, "poll_ns": MS, "tier": Tier.VIRTUAL, "driver": "vgpu",
    "image": Image.ALL, "updates": 10, "alpha_ns": 500 * US, "theta_ns": 100 * US, "slice_ns": 1024 * US,
    "normal_priorities": 24, "stuck_bound_ns": 1_000 * MS,
})  # fmt: skip
REAL = replace(VIRTUAL, tier=Tier.UNPATCHED, driver="nvgpu", alpha_ns=0, theta_ns=0, slice_ns=0)
CLIENT = ClientInfo(
    gpu=0, client=7, pid=4711, comm="camera", state=State.IDLE, priority=20, own_priority=20, set_priority=None,
    depth=0, tsgs=1, exempt=False, demoted=False, segments=3, preemptions=0, held_ns=0, overruns=0, form=Form.SELF,
    barred=False, copy=State.IDLE, copies=0, kept=False,
)  # fmt: skip


def updates(longest: int = 400 * US, count: int = 5000, gpu: int = 0) -> UpdateLatency:
    buckets = [0] * lib.GPURT_HIST_BUCKETS
    buckets[lib.gpurt_hist_bucket(longest)] = count
    return UpdateLatency(gpu, count, longest // 2, longest * count // 2, longest, tuple(buckets), Cause.BEGIN)


def host(*gpus: GpuStatus, **more: Any) -> Host:
    """A host of root's on a machine with four CPUs, which has timed updates that take no longer than the files say."""
    facts = {"latency": [updates(gpu=gpu.gpu) for gpu in gpus], "raises": True, "cpus": frozenset(range(4))}
    return Host(gpus, **(facts | more))


def under(policy: str, gpu: GpuStatus = VIRTUAL, count: int = 1, **more: Any) -> Host:
    """A host with so many GPUs under a policy."""
    return host(*(replace(gpu, gpu=at, policy=Policy.parse(policy)) for at in range(count)), **more)


@dataclass(frozen=True)
class Board:
    """A fake board under `gpurt serve`: the preload library's family, the driver that agents tell of, and whether the
    driver takes work off the GPU before it is done.  tests/preload/test_preload_fit.py asks a real host with each."""

    family: str
    driver: str
    preempts: bool = True


SERVED = {
    "nvgpu": Board("nvgpu", "nvgpu-tsg"), "nvidia": Board("nvidia", "nvidia-rm"), "kfd": Board("hip", "kfd-queue"),
    "kfd without preemption": Board("hip", "kfd-queue", preempts=False),
}  # fmt: skip


def _hosts() -> Iterator[tuple[str, Host]]:
    for policy in POLICIES:
        yield f"emulator {policy}", under(policy)
        yield f"two GPUs {policy}", under(policy, count=2)
    yield "unprivileged segment", under("segment", raises=False, fifo=False)
    yield "unprivileged boosted", under("boosted", raises=False, fifo=False)
    units = {"unit_policy": "sbeet", "mechanism": "virtual", "units": 8, "unit_clients": 1}
    yield "units", under("timesliced", replace(VIRTUAL, **units))
    yield "dear", under("segment", replace(VIRTUAL, alpha_ns=2 * MS))
    for name, board in SERVED.items():
        tier = Tier.UNPATCHED if board.preempts else Tier.HINTS
        for policy in ("segment", "boosted"):
            yield f"serve {name} {policy}", under(policy, replace(REAL, tier=tier, driver=board.driver))
    yield "serve, go on when late", under("segment", replace(REAL, late=1))
    yield "serve, refused agents", under("segment", replace(REAL, refused=2))
    yield "module boosted", under("boosted", thread_stays=True)
    yield "module job", under("job", thread_stays=True)
    yield "module, sleeping", under("boosted", sleeps=True)
    patched = replace(REAL, tier=Tier.PATCHED, driver="amdgpu")
    yield "patched segment", under("segment", patched)
    yield "patched boosted", under("boosted", patched)
    trouble = "nvgpu gpu0: the driver cannot switch for now (another scheduler, or user queues); isolation is lost"
    yield "patched, unable", under("segment", patched, troubles=(trouble,))
    yield "few CPUs", under("segment", cpus=frozenset((0,)))
    yield "slow updates", under("segment", latency=[updates(3 * MS)])
    camera = {4711: ("camera",)}
    yield "a client of the file", under("boosted", clients=[CLIENT], names=camera)
    for name, change in (
        ("exempt", {"exempt": True}), ("barred", {"barred": True}), ("demoted", {"demoted": True}),
        ("in another form", {"form": Form.FENCE}), ("of another GPU priority", {"priority": 3}),
        ("of another CPU priority", {"own_priority": 3}),
    ):  # fmt: skip
        yield f"a client {name}", under("boosted", clients=[replace(CLIENT, **change)], names=camera)
    yield "a stranger", under("segment", clients=[replace(CLIENT, pid=12, comm="x")])
    yield "two tasks in one", under("segment", clients=[CLIENT], names={4711: ("camera", "lidar")})


HOSTS = dict(_hosts())


@dataclass(frozen=True)
class File:
    """A file's text, and what of it matters for a host."""

    text: str
    policy: str = "segment"
    busy: bool = False
    parts: int = 1
    forms: bool = False


def text(
    policy: str, platform: str = "", task: str = "", *, costs: str = 'alpha = "500us"\ntheta = "100us"', more: str = "",
    priority: int = 20, other: str = "",
) -> str:  # fmt: skip
    """Two light tasks on CPUs of their own."""
    segments = 'segments = [{ cpu = "100us" }, { misc = "10us", gpu = "200us" }]\nperiod = "1s"'
    return (
        f'[platform]\ncpus = 4\npolicy = "{policy}"\ntime_slice = "1024us"\n{costs}\n{platform}\n'
        f'[[task]]\nname = "camera"\ncpu = 0\npriority = {priority}\n{segments}\n{task}\n'
        f'[[task]]\nname = "lidar"\ncpu = 1\npriority = 10\n{segments}\n{other or task}\n{more}\n'
    )


def _files() -> Iterator[tuple[str, File]]:
    busy = 'waiting = "busy"'
    for policy in POLICIES:
        yield f"{policy} suspend", File(text(policy), policy)
        yield f"{policy} busy", File(text(policy, "thread_cpu = 0", busy), policy, busy=True, forms=True)
    yield "boosted mixed", File(text("boosted", task=busy, other='waiting = "suspend"'), "boosted", True, forms=True)
    yield "boosted fence", File(text("boosted", task=f'{busy}\nform = "fence"'), "boosted", True, forms=True)
    yield "boosted owner", File(text("boosted", task='form = "owner"'), "boosted", forms=True)
    yield "boosted high", File(text("boosted", priority=60), "boosted")
    parts = '[[partition]]\nname = "a"\ncompute_units = 4\n[[partition]]\nname = "b"\ncompute_units = 4'
    two = {"task": 'partition = "a"', "other": 'partition = "b"', "more": parts}
    yield "partitions", File(text("segment", "compute_units = 8", **two), parts=2)
    masks = parts.replace("compute_units = 4", 'cu_mask = "0xf"', 1).replace("compute_units = 4", 'cu_mask = "0xf0"')
    yield "masks", File(text("segment", "compute_units = 8", **(two | {"more": masks})), parts=2)
    slices = '[[partition]]\nname = "a"\nslice = "2ms"\n[[partition]]\nname = "b"\ninterleave = "high"'
    yield "slices", File(text("timesliced", **(two | {"more": slices})), "timesliced")
    yield "no epsilon", File(text("segment", costs=""))
    yield "no theta", File(text("lock-fifo", costs='epsilon = "1ms"'), "lock-fifo")


FILES = dict(_files())


def with_commands(text: str, command: str = '["sleep", "600"]') -> str:
    """The file where each task has a program, as on real hosts: stand-ins use virtual GPUs."""
    return text.replace("[[task]]\n", f"[[task]]\ncommand = {command}\n")


class Fake:
    """A host's control plane that answers as one of HOSTS, and tells of no event."""

    def __init__(self, known: Host) -> None:
        self.known, self.device, self.set = known, "/nowhere", dict[int, int | None]()

    def __enter__(self) -> Fake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to close."""

    def gpus(self) -> Sequence[GpuStatus]:
        return self.known.gpus

    status = gpus

    def clients(self, gpu: int | None = None) -> Sequence[ClientInfo]:
        return self.known.clients

    def latency(self, gpu: int | None = None) -> Sequence[UpdateLatency]:
        return self.known.latency

    def buses(self, gpu: int | None = None) -> Sequence[BusStatus]:
        return []

    def rules(self) -> Sequence[RuleInfo]:
        return []

    def set_priority(self, pid: int, priority: int | None, gpu: int | None = None) -> None:
        self.set[pid] = priority

    def events(self, timeout: float | None = None) -> Iterator[Any]:
        return iter(())

    more = events
