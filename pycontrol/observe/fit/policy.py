# SPDX-License-Identifier: GPL-2.0
"""Objections to how a host schedules its GPUs: policies, their needs of the host, and the users of each GPU."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.answers.partitions import shared_cpus
from analysis.model import POLICIES, Partition, Task, Taskset, Waiting
from analysis.model.platform import TURNS, YIELD
from analysis.rta.kernel_thread import POLL
from analysis.taskset import TasksetFile
from analysis.taskset.file import beyond_normal
from analysis.taskset.mechanisms import way_of
from gpurt._gpurt import lib
from gpurt.enums import Begin, Form, Notice, Policy, Tier
from gpurt.text import visible
from gpurt.units import US, exact_ms
from pycontrol.link.control import GpuStatus
from pycontrol.link.placed import place_of
from pycontrol.observe.fit.host import Host
from pycontrol.observe.fit.objection import BOTH, BOUNDS, Code, Defeats, Objection

#: The slice that agents give less urgent groups if the most urgent process begins by yield, ns.
SHORT = lib.GPURT_SLICE_SHORT_US * US


def users(taskset: Taskset) -> list[Task]:
    """The real-time tasks that use the GPU."""
    return [task for task in taskset.real_time if task.uses_gpu]


def _apart(taskset: Taskset, host: Host) -> bool:
    """Whether the GPUs of the host are the file's partitions, in their order (`gpurt emulate --taskset`)."""
    return len(taskset.parts) > 1 and len(host.gpus) == len(taskset.parts) and all(one.emulated for one in host.gpus)


def owned_objections(taskset: Taskset, host: Host) -> bool:
    """Whether each task that uses the GPU has a virtual GPU of its own, which no policy orders: `federated`."""
    places = [taskset.part_of(task) for task in taskset if task.uses_gpu]
    alone = len(host.gpus) == len(taskset.parts) and len(set(places)) == len(places)
    return alone and all(gpu.emulated and gpu.policy is Policy.TIMESLICED for gpu in host.gpus)


def used(taskset: Taskset, host: Host) -> list[tuple[GpuStatus, Partition | None]]:
    """The GPUs that the bounds cover, each with its partition if that is known."""
    if not _apart(taskset, host):
        return [(gpu, None) for gpu in host.gpus]
    names = {part.name for part in taskset.locked_beside}
    names |= {taskset.parts[taskset.part_of(task)].name for task in users(taskset)}
    return [(gpu, part) for gpu, part in zip(host.gpus, taskset.parts, strict=True) if part.name in names or not names]


def wanted(taskset: Taskset, part: Partition | None) -> str:
    """The file's policy for a partition; None: for all partitions with real-time tasks, if they have one policy."""
    if part is not None:
        return part.policy or taskset.platform.policy
    return taskset.policies[0] if len(taskset.policies) == 1 else taskset.platform.policy


def described_objection(_file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Objects to a trace of a real host without a description of the host."""
    if not host.known:
        text = "the trace does not say on what host it was recorded: its GPUs, clients and updates are unknown"
        yield Objection(Code.UNKNOWN, text, "record it again")


def policies(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Objects to GPUs with another policy than the file's, now or before, or whose units are shared."""
    taskset = file.taskset
    if host.policy is not None and (host.gpus or host.policy not in taskset.policies):
        part_of_it = " for a time" if host.gpus else ""
        text = f"the run was under policy {visible(host.policy or 'unknown')}{part_of_it}, the file says "
        yield Objection(Code.POLICY, text + " and ".join(taskset.policies))
    for gpu, part in used(taskset, host):
        policy, runs = wanted(taskset, part), gpu.policy.word
        if POLICIES[policy].units:
            yield from _unordered(taskset, host, gpu)
        elif runs != policy:
            raises, normal = POLICIES[policy].raises, gpu.normal_priorities
            able = normal or not raises
            only = "" if part is None else f" --gpu {gpu.gpu}"
            cure = f"`gpurt set policy {policy}{only}` changes that" if able else f"which cannot do {policy}"
            if able and raises:
                cure += f" once all programs that run have an RLIMIT_RTPRIO of {2 * normal + 1}"
            cure += f'; a file for this host has policy = "{runs}"'
            text = f"the file is for policy {policy}, the host runs {runs}"
            if part is not None:
                text = f"partition {part.name} is for policy {policy}, its GPU {gpu.gpu} runs {runs}"
            yield Objection(Code.POLICY, text, cure)
        if gpu.unit_policy:
            text = f"jobs share the units of GPU {gpu.gpu} by policy {gpu.unit_policy}, which no bound knows"
            yield Objection(Code.UNITS, text, "start the host with one of the file's policies")


def begins(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Objects to GPUs whose most urgent process begins otherwise than the file says, or beside more processes.

    Turns only take processes off.  They are harmless if the file counts all, and a turn passes on once in a segment.
    """
    wanted_way, values = file.taskset.platform.begin, file.taskset.platform.yields
    most = values.groups + max(len(users(file.taskset)) - 1, 0) if values else 0
    for gpu, _ in used(file.taskset, host):
        counted = gpu.at_once if wanted_way == TURNS else gpu.ready
        fewer = wanted_way == YIELD and gpu.begin is Begin.TURNS and (not values or values.decision <= values.lazy)
        if gpu.begin.word != wanted_way and not fewer:
            text = f"GPU {gpu.gpu}: segments begin by {gpu.begin.word}, the file is for {wanted_way}"
            yield Objection(Code.BEGIN, text, f"`gpurt serve --begin {wanted_way}` changes that")
        elif values and values.slice < SHORT:
            text = f"the host gives less urgent groups slices of {_ms(SHORT)}, [platform.yield] has {_ms(values.slice)}"
            yield Objection(Code.BEGIN, text, "write the longest that was measured: scripts/probe-nvidia --parts yield")
        elif values and counted is not None and gpu.ready is not None and counted > most:
            text = f"GPU {gpu.gpu}: the most urgent process begins beside {counted} others, more than the file says"
            yield Objection(Code.BEGIN, text, "end some, or write how many there are into [platform.yield]")


def _unordered(taskset: Taskset, host: Host, gpu: GpuStatus) -> Iterator[Objection]:
    """Tasks that own units: no GPU work may wait for another task's, and no kernel may use another task's units."""
    if gpu.policy is not Policy.TIMESLICED:
        text = f"the file is for policy federated, under which nobody orders the GPU, the host runs {gpu.policy.word}"
        yield Objection(Code.POLICY, text, f"`gpurt set policy timesliced --gpu {gpu.gpu}` changes that")
    elif not owned_objections(taskset, host):
        text = "the host does not see whether programs keep to the units that the file gives them, nor all their copies"
        yield Objection(Code.UNITS, text, "gpurt emulate --taskset has a virtual GPU for each task's partition")


def noticing(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Policy `job`: objects to how the host's threads notice jobs, and to the CPU on which they do."""
    taskset = file.taskset
    if not any(one.jobs for one in taskset.rules):
        return
    for gpu in host.gpus:
        if gpu.notice is Notice.POLL and gpu.poll_ns != POLL:
            cure = "`gpurt set policy job --notice poll --poll-period 1ms` changes that"
            text = "the bounds for policy job are for a polling period of "
            yield Objection(Code.POLL, f"{text}{_ms(POLL)}, the host has {_ms(gpu.poll_ns)}", cure)
    if host.gpus and taskset.platform.alpha and users(taskset) and not host.thread_stays:
        text = "the bounds for policy job are for a host's thread that stays on CPU 0"
        yield Objection(Code.THREAD, text, "load gpurt.ko with thread_cpu=0")


def _ms(time: int) -> str:
    return exact_ms(time)


def boosted_objections(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The demands of policy `boosted` on a host.  The host refuses what it cannot do, whatever policy the file has."""
    taskset = file.taskset
    defeats = tuple(
        what for what, names in ((Defeats.BOUNDS, taskset.policies), (Defeats.RUN, _run_by(host)))
        if any(POLICIES[name].raises for name in names)
    )
    if not defeats or not host.gpus:
        return
    yield from _outside(taskset, host, defeats)
    yield from _unraised(taskset, host, defeats)
    if Defeats.BOUNDS in defeats and len(host.gpus) > 1:
        yield Objection(
            Code.GPUS, f"the host has {len(host.gpus)} GPUs, and the bounds for policy boosted are for one: owners of "
            "the others execute above all tasks of their CPUs, which no bound takes into account",
            "start a host with one GPU",
        )  # fmt: skip
    if Defeats.BOUNDS in defeats:
        yield from _asleep(taskset, host)


def _run_by(host: Host) -> list[str]:
    return [gpu.policy.word for gpu in host.gpus]


def _outside(taskset: Taskset, host: Host, defeats: tuple[Defeats, ...]) -> Iterator[Objection]:
    """A real-time task above the normal priorities can preempt a raised thread, even if the task uses no GPU."""
    normal = min(gpu.normal_priorities for gpu in host.gpus)
    most, above = beyond_normal(taskset, normal)
    if normal and above:
        raised = f", or start the host with --normal {most}" if most <= lib.GPURT_NORMAL_MAX else ""
        text = f"under policy boosted the host orders priorities 1 to {normal}, and {above}"
        yield Objection(Code.PRIORITIES, text, f"give the tasks other numbers in the same order{raised}", defeats)


def _unraised(taskset: Taskset, host: Host, defeats: tuple[Defeats, ...]) -> Iterator[Objection]:
    """If threads raise themselves, only threads of form `self` do."""
    others = raised_by_host(taskset, host.ran.waiting if host.ran else None)
    if others and not host.raises:
        (name, form), cure = others[0], "start it as root, at a priority above theirs"
        how = "this host cannot raise" if host.raises is False else "the host does not say that it can raise"
        text = f"{name} has form {form.word}, and {how} other processes' threads"
        yield Objection(Code.RAISES, text, cure, defeats)


def raised_by_host(taskset: Taskset, mode: Waiting | None = None) -> list[tuple[str, Form]]:
    """The tasks whose threads do not raise themselves, with their forms; ``mode``: all tasks' mode; None: as stated."""
    forms = [(task.name, task.form_in(mode or task.waiting)) for task in users(taskset)]
    forms += [(fork.task, Form.OWNER) for fork in taskset.forks if fork.hold]
    return [(name, form) for name, form in forms if form is not Form.SELF]


def _asleep(taskset: Taskset, host: Host) -> Iterator[Objection]:
    """The bounds for tasks that spin assume that an update keeps its caller busy."""
    spinning = [task.name for task in taskset.real_time if task.spins()]
    if not spinning:
        return
    why = ""
    if any(gpu.tier in (Tier.HINTS, Tier.UNPATCHED) for gpu in host.gpus):
        why = "updates by agents sleep"
    elif any(not gpu.emulated for gpu in host.gpus):
        why = "updates of a real GPU's driver may sleep"
    elif host.sleeps:
        why = "updates of this virtual GPU sleep (gpurt-vgpu.ko with vgpu_sleeps, or updates of more than 10 ms)"
    if why:
        text = f"{spinning[0]} waits busily, and {why}: no bound of policy boosted holds then"
        yield Objection(Code.ASLEEP, text, 'have it wait with waiting = "suspend", or use policy segment')


def partitions(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The file needs one GPU for each partition, with only that partition's clients, and with its policy."""
    taskset = file.taskset
    parts, there = len(taskset.parts), len(host.gpus) or host.count
    if parts > 1 and there and there != parts:
        gpus = f"{there} GPU{'s' if there > 1 else ''}"
        text = f"the file has tasks in {parts} partitions, each for a GPU of its own, and the host orders {gpus}"
        yield Objection(Code.PARTITIONS, text, "start a host with as many: gpurt emulate --taskset, or --gpus")
    yield from _placed(file, host)
    if host.instances and sum(part.mig is not None for part in taskset.partitions) > 1:
        text = f"GPU {host.instances[0]} of a host stands for several GPU instances, whose programs wait for each other"
        yield Objection(Code.PARTITIONS, text, "have fewer instances, or one partition for those (gpurt doctor)")
    if taskset.partitioned and shared_cpus(taskset) and not all(gpu.emulated for gpu in host.gpus):
        text = "tasks of several partitions share CPUs, and other threads than theirs execute updates on this host"
        yield Objection(Code.ELSEWHERE, text, "give each task of the GPU a CPU of its own")


def _placed(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Clients that use another partition's GPU, or were started in another partition."""
    tasks = {task.name: task for task in file.taskset}
    policies = {gpu.gpu: gpu.policy.word for gpu in host.gpus}
    homes: dict[int, str] = {}
    places: dict[str, int] = {}
    for one in host.clients:
        names = host.names.get(one.pid, ())
        part = tasks[names[0]].partition if len(names) == 1 else None
        if part is None or part.name is None or not part.own_gpu:
            continue
        process, started = f"process {one.pid} ({visible(one.comm)})", host.homes.get(one.pid)
        other, place = homes.setdefault(one.gpu, part.name), places.setdefault(part.name, one.gpu)
        if other != part.name:
            text = f"GPU {one.gpu} has clients of partitions {other} and {part.name}, each for a GPU of its own"
            yield Objection(Code.PARTITIONS, text)
        elif place != one.gpu:
            text = f"partition {part.name} has clients on GPUs {place} and {one.gpu}, and is one GPU"
            yield Objection(Code.PARTITIONS, text)
        elif part.policy and part.policy != policies.get(one.gpu, part.policy):
            text = f"partition {part.name} is for policy {part.policy}, its GPU {one.gpu} runs {policies[one.gpu]}"
            yield Objection(Code.POLICY, text, f"`gpurt set policy {part.policy} --gpu {one.gpu}` changes that")
        if started is None and way_of(part):
            text = f"nothing says that {process} was started in partition {place_of(part)}, which the file has it in"
            yield Objection(Code.PARTITIONS, text, "start it by `gpurt run`")
        elif started not in (None, place_of(part)):
            text = f"{process} was started in partition {visible(started or '')}, the file has it in {place_of(part)}"
            yield Objection(Code.PARTITIONS, text)


def machine(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The CPUs and rights that tasks need, and the mode in which `gpurt run` has them wait."""
    taskset = file.taskset
    lacking = sorted({task.cpu for task in taskset} - host.cpus) if host.cpus is not None else []
    if lacking:
        numbers = ", ".join(map(str, sorted(host.cpus or ())))
        text = f"the file has tasks on CPU {lacking[0]}, and this machine has CPUs {numbers}"
        yield Objection(Code.CPUS, text, "this is not the machine of the file")
    used_cpus = {task.cpu for task in taskset}
    for alike in (sorted(used_cpus.intersection(one)) for one in host.siblings):
        if len(alike) > 1:
            text = f"CPUs {', '.join(map(str, alike))} of the file are threads of one core (SMT)"
            text += ", and bounds assume that no CPU slows another one down"
            yield Objection(Code.CPUS, text, "give each task a core, or measure times while the others execute", ())
    if host.ran and host.ran.folded and not lacking:
        yield Objection(Code.CPUS, "the run folded the file's CPUs onto fewer: it is not the system of the file")
    if not host.fifo and taskset.real_time:
        refused = any(POLICIES[name].raises for name in _run_by(host))
        defeats = BOTH if host.ran and refused else BOUNDS if host.ran else (Defeats.RUN,) if refused else ()
        text = "tasks that this user starts are not permitted SCHED_FIFO, so that their priorities do not count"
        yield Objection(Code.FIFO, text, "become root or raise RLIMIT_RTPRIO (gpurt doctor)", defeats)
    mode = host.ran.waiting if host.ran else None
    others = [task.name for task in users(taskset) if mode and task.waiting is not mode]
    if mode and others:
        text = f"in the run every task waited in mode {mode.value}, the file says otherwise of {', '.join(others)}"
        yield Objection(Code.WAITING, text, "run it without --waiting")
