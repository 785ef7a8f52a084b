# SPDX-License-Identifier: GPL-2.0
"""Checks a machine for the needs of real-time tasks, and says how to get what is missing."""

from __future__ import annotations

import errno
import getpass
import grp
import gzip
import os
import platform
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from analysis.taskset import TasksetFile
from gpurt._gpurt import ffi, lib
from gpurt.enums import Begin, Tier
from gpurt.errors import GpurtError
from gpurt.files import matching
from gpurt.segments import explain
from pycontrol.link import patched as live_patched
from pycontrol.link.control import HOST_WITHOUT_GPU, GpuStatus, connect
from pycontrol.link.netlink import HungError
from pycontrol.link.patched import PatchedGpu
from pycontrol.machine import clocks, drivers, procs
from pycontrol.machine.instances import instances, shared_numbers
from pycontrol.machine.mps import mps_pipe, mps_runs
from pycontrol.machine.placement import fifo_permitted
from pycontrol.machine.rights import fifo_forbidden
from pycontrol.observe import host_cpu
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.host import online, siblings

ROOT = Path("/")
#: The module's GPU threads have SCHED_FIFO 99, and tasks must stay below.
HIGHEST = 98
#: A host that has not answered after this time gets no further question, seconds.
PATIENCE_S = 5.0
#: The file, below a root, in which the kernel module states facts about patched drivers.
FACTS = live_patched.FACTS.relative_to("/")
#: A function that only kernels with CONFIG_RT_GROUP_SCHED have (kernel/sched/rt.c).
RT_GROUP_SYMBOL = " sched_group_set_rt_runtime"


class Status(str, Enum):
    """How bad a diagnosis is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check; ``cure`` is None if nothing is to be done."""

    name: str
    status: Status
    text: str
    cure: str | None = None


def as_text(findings: list[Diagnosis]) -> str:
    """A line for each diagnosis, and a line for its cure."""
    marks = {Status.OK: "ok  ", Status.WARN: "WARN", Status.FAIL: "FAIL"}
    lines = []
    for finding in findings:
        lines.append(f"{marks[finding.status]}  {finding.name}: {finding.text}")
        if finding.cure:
            lines.append(f"      -> {finding.cure}")
    return "\n".join(lines)


def examine(device: str | None, root: Path = ROOT, file: TasksetFile | None = None) -> list[Diagnosis]:
    """Runs every check, in a fixed order.  Reads files below ``root`` and changes nothing.

    ``file``: a taskset file to compare with the machine, and with a host that answers.
    """
    return [
        _throttling(root),
        _fair_server(root),
        _group_scheduling(root),
        *_compiler(root),
        *_limits(root),
        _deadline_tasks(root),
        *_clocks(root),
        _isolation(root),
        _preemption(root),
        *_driver(root, _switched(device)),
        *_mig(root),
        *_host(device, root),
        *(_file(device, root, file) if file else ()),
    ]


def _file(device: str | None, root: Path, file: TasksetFile) -> Iterator[Diagnosis]:
    """The objections to this machine, and to the host if it answers."""
    try:
        with connect(device, PATIENCE_S) as control:
            host = replace(fit.ask(control, file), clocks=[clocks.look(root)])
    except GpurtError:  # another check reports it
        host = fit.Host(cpus=online(), clocks=[clocks.look(root)], unseen=procs.hidden(), siblings=siblings(root),
                        instances=shared_numbers(root))  # fmt: skip
    found = fit.objections(file, host)
    name = "taskset file"
    for one in found:
        status = Status.FAIL if fit.Defeats.BOUNDS in one.defeats else Status.WARN
        yield Diagnosis(name, status, one.text, one.cure or None)
    if not found:
        text = "nothing is known against it here" if host.gpus else "nothing is known against it, but no host was asked"
        yield Diagnosis(name, Status.OK if host.gpus else Status.WARN, text)


def _read(root: Path, name: str) -> str | None:
    try:
        return (root / name).read_text().strip()
    except OSError:
        return None


def _throttling(root: Path) -> Diagnosis:
    runtime = _read(root, "proc/sys/kernel/sched_rt_runtime_us")
    period = _read(root, "proc/sys/kernel/sched_rt_period_us")
    name = "real-time throttling"
    if runtime is None or period is None:
        return Diagnosis(name, Status.WARN, "cannot be read", "mount /proc")
    if runtime == "-1":
        return Diagnosis(name, Status.OK, "off")
    return Diagnosis(
        name,
        Status.WARN,
        f"real-time tasks are stopped after {runtime} of every {period} us on a CPU; the analyses do not know that",
        "once the taskset is proven: sysctl kernel.sched_rt_runtime_us=-1",
    )


def _release(root: Path) -> tuple[int, ...]:
    """The kernel's release, such as (6, 12); empty if it cannot be read."""
    parts = (_read(root, "proc/sys/kernel/osrelease") or "").split("-")[0].split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def _fair_server(root: Path) -> Diagnosis:
    """From Linux 6.12 on, a server of the deadline class executes starving SCHED_OTHER tasks (kernel/sched/fair.c)."""
    name = "fair server"
    if _release(root) < (6, 12):
        return Diagnosis(name, Status.OK, "none in this kernel; it comes with Linux 6.12")
    times = {
        (_read(folder, "runtime"), _read(folder, "period"))
        for folder in matching(root / "sys/kernel/debug/sched/fair_server", "cpu[0-9]*")
    }
    cure = "as root: for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 > $f; done"
    if not times or None in {value for pair in times for value in pair}:
        text = "may run SCHED_OTHER tasks ahead of SCHED_FIFO 99, the module's threads included; it cannot be read"
        cure = f"mount debugfs and run this as root; {cure}"
        if "[none]" not in (_read(root, "sys/kernel/security/lockdown") or "[none]"):
            text += ", for the kernel's lockdown closes debugfs"
            cure = "keep ordinary tasks off the CPUs of real-time tasks (isolcpus=): a CPU's server runs its own only"
        return Diagnosis(name, Status.WARN, text, cure)
    times = {(runtime, period) for runtime, period in times if runtime != "0"}
    if not times:
        return Diagnosis(name, Status.OK, "off")
    shares = ", ".join(sorted(f"{runtime} of every {period} ns" for runtime, period in times))
    text = f"SCHED_OTHER tasks that starve get {shares} on a CPU, ahead of SCHED_FIFO 99, the module's threads included"
    return Diagnosis(name, Status.WARN, text, cure)


def _deadline_tasks(root: Path) -> Diagnosis:
    name = "SCHED_DEADLINE"
    found = set()
    for path in matching(root / "proc", "[0-9]*/task/[0-9]*/stat"):
        try:
            head, _, tail = path.read_bytes().decode("utf-8", "replace").rpartition(")")
        except OSError:
            continue  # the thread has ended
        if tail.split()[38] == str(procs.SCHED_DEADLINE):
            found.add(head.partition("(")[2])
    if not found:
        return Diagnosis(name, Status.OK, "no task uses it; gpurt would count it as best effort")
    text = f"used by {', '.join(sorted(found))}: best effort for gpurt, yet ahead of every SCHED_FIFO task on its CPU"
    cure = "give tasks that use the GPU SCHED_FIFO, and keep the others off their CPUs"
    return Diagnosis(name, Status.WARN, text, cure)


def _config(root: Path) -> dict[str, str] | None:
    """The kernel's build configuration; None if this machine has no file of it."""
    text = _read(root, f"boot/config-{platform.release()}")
    if text is None:
        try:
            text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode()
        except (OSError, EOFError, gzip.BadGzipFile):
            return None
    lines = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {key: value for key, _, value in lines}


def _group_scheduling(root: Path) -> Diagnosis:
    name = "RT group scheduling"
    config = _config(root)
    symbols = "" if config else _read(root, "proc/kallsyms") or ""
    named = RT_GROUP_SYMBOL in symbols
    # Clang's link-time optimization may omit the symbol.
    if not config and not named and (not symbols or _by_clang(root)):
        text = "the kernel's configuration is not published: if it is on, SCHED_FIFO fails in cgroups without a budget"
        return Diagnosis(name, Status.WARN, text, "let /boot/config-RELEASE or /proc/config.gz be read here")
    if not config and not named:
        return Diagnosis(name, Status.OK, "off, as far as the kernel's symbols tell")
    if config and config.get("CONFIG_RT_GROUP_SCHED") != "y":
        return Diagnosis(name, Status.OK, "off")
    if "rt_group_sched=0" in (_read(root, "proc/cmdline") or "").split():
        return Diagnosis(name, Status.OK, "off by rt_group_sched=0")
    if fifo_permitted():
        text = "on, and this cgroup may use SCHED_FIFO; cgroups without real-time budget may not"
        return Diagnosis(name, Status.OK, text)
    if (root / "sys/fs/cgroup/cgroup.controllers").exists():
        text = "on, beside cgroup v2, which can give no cgroup a budget: SCHED_FIFO fails even for root"
        cure = "boot with rt_group_sched=0 (from Linux 6.16), or a kernel without CONFIG_RT_GROUP_SCHED"
        return Diagnosis(name, Status.WARN, f"{text}, except in the root cgroup", cure)
    text = "on: SCHED_FIFO fails even for root in a cgroup without real-time budget"
    cure = "move the programs to the root cgroup, write a budget to cpu.rt_runtime_us, or do without it"
    return Diagnosis(name, Status.WARN, text, cure)


def _by_clang(root: Path) -> bool:
    return "clang version" in (_read(root, "proc/version") or "").lower()


def _compiler(root: Path) -> Iterator[Diagnosis]:
    """gcc cannot build a module for a kernel that clang compiled."""
    if _by_clang(root):
        name, text = "kernel's compiler", "clang: so has to be that of gpurt.ko and of patched drivers"
        there = any((root / folder / "clang").exists() for folder in ("usr/bin", "usr/local/bin"))
        cure = "make -C kmod LLVM=1" if there else "install clang and lld, then make -C kmod LLVM=1"
        yield Diagnosis(name, Status.OK if there else Status.WARN, text, cure)


def _filtered(root: Path) -> bool:
    """Whether a seccomp filter applies to this process."""
    return "Seccomp:\t2" in (_read(root, "proc/self/status") or "")


def _group() -> str:
    """The name for GPU users in limits.conf: the packages' group, else the user."""
    try:
        return f"@{grp.getgrnam('gpurt').gr_name}"
    except KeyError:
        return getpass.getuser()


def _limits(root: Path) -> Iterator[Diagnosis]:
    soft, _ = resource.getrlimit(getattr(resource, "RLIMIT_RTPRIO", 14))
    if fifo_permitted(HIGHEST):
        text = f"permitted; use up to {HIGHEST}, for the module's threads have {HIGHEST + 1}"
        yield Diagnosis("SCHED_FIFO", Status.OK, text)
    elif not fifo_forbidden(HIGHEST):
        text = "refused, though neither user nor limit forbids it"
        cure = "grant CAP_SYS_NICE to the container, or give its cgroup real-time budget (see RT group scheduling)"
        if _filtered(root):
            text += "; a seccomp filter is on, which may be what refuses it"
            cure = f"RestrictRealtime=no in the systemd unit, or a container's profile that allows it; or {cure}"
        yield Diagnosis("SCHED_FIFO", Status.FAIL, text, cure)
    else:
        text = f"permitted up to priority {soft}" if soft else "not permitted"
        cure = f"add '{_group()} - rtprio {HIGHEST}' to /etc/security/limits.d/gpurt.conf and log in again"
        yield Diagnosis("SCHED_FIFO", Status.WARN, text, f"{cure}, or run as root")
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() == 0 or soft == resource.RLIM_INFINITY:
        yield Diagnosis("locked memory", Status.OK, "unlimited")
    else:
        cure = f"add '{_group()} - memlock unlimited' to /etc/security/limits.d/gpurt.conf and log in again"
        yield Diagnosis("locked memory", Status.WARN, f"limited to {soft >> 10} KiB: page faults delay tasks", cure)


def _clocks(root: Path) -> Iterator[Diagnosis]:
    """Whether execution times may vary with a clock (docs/manual/clocks.md)."""
    seen = clocks.look(root)
    if not seen.cpus:
        yield Diagnosis("CPU frequency", Status.OK, "not scaled by this kernel")
    cures = {
        "CPU": "cpupower frequency-set -g performance, and turbo off (on a Jetson: nvpmodel and jetson_clocks)",
        "GPU": "docs/manual/clocks.md says how to hold it",
    }  # fmt: skip
    for what, found in (("CPU", seen.cpus), ("GPU", seen.gpus)):
        loose = [one for one in found if one.hertz is None]
        text = "; ".join(clocks.told(loose or found))
        if loose:
            text += ": execution times vary with the clock"
            yield Diagnosis(f"{what} frequency", Status.WARN, text, cures[what])
        elif found:
            yield Diagnosis(f"{what} frequency", Status.OK, text)


def _isolation(root: Path) -> Diagnosis:
    name = "CPU isolation"
    isolated = _read(root, "sys/devices/system/cpu/isolated")
    if isolated:
        return Diagnosis(name, Status.OK, f"CPUs {isolated} are isolated")
    cure = "boot with isolcpus= and nohz_full= naming the CPUs of real-time tasks"
    return Diagnosis(name, Status.WARN, "no CPU is kept free of other work", cure)


def _preemption(root: Path) -> Diagnosis:
    name = "kernel preemption"
    if _read(root, "sys/kernel/realtime") == "1":
        return Diagnosis(name, Status.OK, "PREEMPT_RT")
    cure = "use a PREEMPT_RT kernel (Debian: linux-image-rt-*; Jetson: the RT kernel packages)"
    return Diagnosis(name, Status.WARN, "not PREEMPT_RT: kernel code can delay tasks for milliseconds", cure)


#: The releases of NVIDIA's open kernel modules that have patches: kmod/patches/nvidia-open.
PATCHED_NVIDIA = ("570", "580", "590", "595")


def _nvidia_patches(root: Path) -> str:
    """Whether the loaded NVIDIA driver can be patched (tier T2), judged by its own description."""
    said = _read(root, "proc/driver/nvidia/version") or ""
    version = re.search(r"\b(\d{3})\.\d+", said.partition("\n")[0])
    if version is None:
        return ""
    if "Open Kernel Module" not in said:
        return "; NVIDIA's proprietary modules cannot be patched: the open ones can"
    if version[1] not in PATCHED_NVIDIA:
        return f"; release {version[1]} has no patches, {', '.join(PATCHED_NVIDIA)} have"
    return f"; there are patches for release {version[1]} (tier T2, docs/nvidia-open.md)"


def _switched(device: str | None) -> list[GpuStatus]:
    """The host's GPUs that patched drivers switch; none if no host answers, which `_host` reports."""
    try:
        with connect(device, PATIENCE_S) as control:
            return [one for one in control.status() if one.tier is Tier.PATCHED]
    except GpurtError:
        return []


def _driver(root: Path, switched: list[GpuStatus]) -> Iterator[Diagnosis]:
    """Patched drivers, as module and host report them; and drivers that only their device nodes reveal."""
    name = "GPU driver"
    patched = [one for one in live_patched.read_patched(root / FACTS) if one.device != "-" and one.condition != "more"]
    if patched:
        yield _patched_driver(patched)
    if switched:
        gpus = ", ".join(f"GPU {one.gpu} is {one.driver} {one.device}".rstrip() for one in switched)
        text = f"patched (tier T2), which has never run on hardware: {gpus}"
        yield Diagnosis(name, Status.WARN, text, "run sudo gpurt measure board (docs/kernel.md)")
    known = {one.driver for one in patched} | {one.driver for one in switched}
    if idle := drivers.patched(root) - known:
        text = f"{', '.join(sorted(idle))}: patched, but gpurt.ko does not switch it"
        yield Diagnosis(name, Status.WARN, text, drivers.first_host(root))
        known |= idle
    found = drivers.unpatched(root, frozenset(known))
    if found:
        text = f"{', '.join(found)}: only through agents in the programs (tier T1), which have run on one NVIDIA H200"
        text += _nvidia_patches(root) if "NVIDIA" in found else ""
        yield Diagnosis(name, Status.WARN, text, "read docs/unpatched.md: gpurt serve, gpurt run --auto")
    elif not known:
        yield Diagnosis(name, Status.OK, "none found; the virtual GPU is what there is (tier T3)")
    if (root / "dev/kfd").exists() and _read(root, "sys/module/amdgpu/parameters/cwsr_enable") == "0":
        text = "amdgpu/KFD: waves are not saved, so nothing is preempted (tier T0): a stop waits for kernels"
        yield Diagnosis(name, Status.WARN, text, "load amdgpu with cwsr_enable=1, its default")
    yield from _escapes(root)


#: The newest HIP release that the preload library knows completely: `newest` in userlib/preload/hip.table.
NEWEST_HIP = (7, 2)
HIP_FOLDERS = ("usr/lib/*", "opt/rocm*/lib")


def _newer_hip(root: Path) -> Iterator[Diagnosis]:
    """A HIP release with functions that the preload library does not know."""
    libraries = [one for folder in HIP_FOLDERS for one in matching(root, f"{folder}/libamdhip64.so.*.*")]
    versions = {found[0]: one for one in libraries if (found := re.findall(r"\.so\.(\d+)\.(\d+)", one.name))}
    for (major, minor), one in sorted(versions.items()):
        if (int(major), int(minor)) > NEWEST_HIP:
            known = ".".join(map(str, NEWEST_HIP))
            text = f"HIP {major}.{minor} ({one}): work by functions that came after {known} begins no "
            cure = "mark the segments of programs that use such functions (docs/library.md)"
            yield Diagnosis("HIP", Status.WARN, text + "automatic segment", cure)


def _escapes(root: Path) -> Iterator[Diagnosis]:
    """Work that stays on the GPU although it should be off (tier T0), because of the machine's set-up."""
    yield from _newer_hip(root)
    if _read(root, "sys/module/amdgpu/parameters/user_queue") in ("1", "2"):
        text = "amdgpu: programs may use user queues of /dev/dri, which nothing takes off the GPU (tier T0)"
        yield Diagnosis("user queues", Status.WARN, text, "load amdgpu without user_queue, or with user_queue=0")
    pipe = mps_pipe(os.environ)
    if mps_runs(root / str(pipe).lstrip("/")):
        text = f"MPS runs ({pipe.parent}): its clients have no priorities, for its server has their channels (tier T0)"
        cure = "echo quit | nvidia-cuda-mps-control, or divide the GPU (docs/manual/from-mps.md)"
        yield Diagnosis("MPS", Status.WARN, text, cure)


def _patched_driver(gpus: list[PatchedGpu]) -> Diagnosis:
    """A patched driver.  A board must be tried before the module's switching counts as working."""
    troubles = [one.trouble for one in gpus if one.trouble]
    if troubles:
        return Diagnosis("GPU driver", Status.WARN, "; ".join(troubles), "docs/kernel.md says what each means")
    names = ", ".join(one.title for one in gpus)
    text = f"{names}: switched by gpurt.ko (tier T2), which has never run on hardware"
    cure = "try this board first: sudo gpurt measure board --load COMMAND"
    return Diagnosis("GPU driver", Status.WARN, text, cure)


def _mig(root: Path) -> Iterator[Diagnosis]:
    gpus, found = instances(root)
    if not found:
        return
    numbers = [number for _, _, number in found]
    if not gpus:
        text = "/sys/bus/pci/devices shows no NVIDIA GPU: programs in GPU instances have no number and run unmanaged"
        yield Diagnosis("MIG", Status.WARN, text, "let this machine or container see /sys/bus/pci/devices")
        return
    if lib.GPURT_MAX_GPUS in numbers:
        text = f"a machine with {gpus} GPUs has no number for each of their GPU instances: programs run unmanaged there"
        yield Diagnosis("MIG", Status.WARN, text, f"undivide GPUs, or have {lib.GPURT_MAX_GPUS} at most")
        return
    each = (f"GPU instance {instance} of nvidia{gpu} is GPU {number}" for gpu, instance, number in found)
    text = f"{', '.join(each)}, if the driver opened its GPUs in the order of their nodes"
    cure = f"start the host with --gpus {max(numbers) + 1} or more (gpurt.ko: agent_gpus); run nvidia-persistenced"
    for number in shared_numbers(root):
        cure += f"; GPU {number} is shared: analyse the tasks of its instances together, in one file"
    yield Diagnosis("MIG", Status.WARN, text, cure)


def _silent(device: str | None) -> str:
    """A complaint if the host does not answer, since the library would then wait for ever; else empty."""
    try:
        with connect(device, PATIENCE_S) as control:
            control.status()
    except HungError as error:
        return str(error)
    except GpurtError:
        pass
    return ""


def _host(device: str | None, root: Path) -> Iterator[Diagnosis]:
    name = "host"
    if silent := _silent(device):
        text, _, cure = silent.partition("; ")
        yield Diagnosis(name, Status.FAIL, text, cure)
        return
    handle = ffi.new("struct gpurt_handle **")
    status = lib.gpurt_open(handle, device.encode() if device else ffi.NULL)
    if status == -errno.ENODEV and _lacks_gpu(device):
        text, _, cure = HOST_WITHOUT_GPU.partition("; ")
        yield Diagnosis(name, Status.WARN, text, cure)
        return
    if status:
        text, _, cure = explain(device, status).partition("; ")
        yield Diagnosis(name, Status.FAIL, text, drivers.first_host(root) if text.startswith("no host") else cure)
        return
    query = ffi.new("struct gpurt_query *")
    status = lib.gpurt_query_host(handle[0], query)
    lib.gpurt_close(handle[0])
    if status:
        yield Diagnosis(name, Status.FAIL, f"answers with {os.strerror(-status)}", "restart it")
        return
    agents, emulated = query.caps & lib.GPURT_CAP_AGENTS, query.caps & lib.GPURT_CAP_EMULATED
    kind = "kernel module" if not emulated else "gpurt serve" if agents else "gpurt emulate"
    tier = ["T0", "T1", "T2", "T3"][query.tier] if query.tier < lib.GPURT_TIER_COUNT else "unknown"
    yield Diagnosis(name, Status.OK, f"{kind}, interface version {query.version}, {query.gpus} GPU(s), tier {tier}")
    if agents and emulated:
        yield from _host_cpu(device)
    yield _boosted(device, bool(query.caps & lib.GPURT_CAP_RAISES))
    if agents:
        yield from _begin(device)


def _begin(device: str | None) -> Iterator[Diagnosis]:
    """How urgent work begins on NVIDIA's GPUs (docs/unpatched.md): each way except isolation needs a probe."""
    try:
        with connect(device) as control:
            ways = sorted({one.begin.word for one in control.status() if one.driver.startswith("nvidia-rm")})
    except GpurtError:
        return
    probed = "`scripts/probe-nvidia --parts yield` confirms there that slices are kept"
    for way in ways:
        if way == Begin.ISOLATED.word:
            text = f"{way}: others are off before; yield and turns begin at once, for GPUs of which {probed}"
            yield Diagnosis("begin", Status.OK, text)
        else:
            text = f"{way}: no GPU has run it; a bound holds only where {probed}"
            yield Diagnosis("begin", Status.WARN, text, f"run that, and say begin = \"{way}\" in taskset files")


def _host_cpu(device: str | None) -> Iterator[Diagnosis]:
    """Whether the host stays above the real-time threads that it serves, or on a CPU that none of them may use."""
    name = "host's CPU"
    try:
        with connect(device) as control:
            found = host_cpu.of_host(control)
    except GpurtError:
        return
    if found:
        more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
        cure = "start the host as root, and keep it and its clients apart: taskset -c CPU gpurt serve"
        yield Diagnosis(name, Status.WARN, found[0] + more, cure)
    elif found is not None:
        yield Diagnosis(name, Status.OK, "above its clients' real-time threads, on a CPU that none of them may use")


def _boosted(device: str | None, raises: bool) -> Diagnosis:
    """Whether the host's policy is `boosted`, the default of taskset files."""
    name = "policy boosted"
    try:
        with connect(device) as control:
            normal = min(one.normal_priorities for one in control.gpus())
    except GpurtError as error:
        return Diagnosis(name, Status.WARN, f"cannot be read: {error}", "run this as root")
    if not normal:
        cure = "load gpurt.ko without boost=0, or say policy = \"segment\" in taskset files"
        return Diagnosis(name, Status.WARN, "this host cannot raise threads, which it needs", cure)
    band = f"priorities 1 to {normal}, raised threads {normal + 1} to {2 * normal}"
    if raises:
        return Diagnosis(name, Status.OK, f"the host raises threads; {band}")
    text = f"threads raise themselves, by their RLIMIT_RTPRIO, and only those of tasks that suspend; {band}"
    return Diagnosis(name, Status.WARN, text, "for tasks that wait busily start the host as root, at a higher priority")


def _lacks_gpu(device: str | None) -> bool:
    """Whether there is a host without a GPU.  The library reports the same error if there is no host."""
    try:
        with connect(device) as control:
            return not control.status()
    except GpurtError:
        return False
