# SPDX-License-Identifier: GPL-2.0
"""A first taskset file from running processes: the facts that the machine knows, and a ? for all others.

No command takes the file until each ? is replaced: an unknown time must not become a bound.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.taskset import task_name
from gpurt.text import visible
from gpurt.units import UNKNOWN_TIME, format_time
from pycontrol.link.control import ClientInfo, UpdateLatency, raised, update_times
from pycontrol.machine import procs

#: The value of an unknown key.
BLANK = f'"{UNKNOWN_TIME}"'
MEASURED = "`gpurt status latency` shows what a host has measured"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that becomes a task.

    ``priorities``: the SCHED_FIFO and SCHED_RR priorities of its threads.  ``cpus``: the CPUs that these threads may
    use, or the main thread's if none has a priority.  ``segments``: how many GPU segments it has
    begun.  ``gpu_priority``: as the control plane set it; None: it is no client.  ``executes``: whether it has loaded
    ROS 2, whose executors serve several callbacks on one thread.
    """

    pid: int
    name: str
    command: tuple[str, ...]
    priorities: tuple[int, ...]
    cpus: tuple[int, ...]
    segments: int | None = None
    gpu_priority: int | None = None
    executes: bool = False


def look_at_process(pid: int, clients: Sequence[ClientInfo]) -> Process | None:
    """The known facts of a process; None if it does not exist.  ``clients``: the host's clients."""
    command = tuple(procs.command_line_of(pid))
    here = procs.process(pid)
    real_time = {thread: found.priority for thread in procs.threads(pid) if (found := procs.stat(thread)) and
                 found.priority}  # fmt: skip
    cpus = set[int]().union(*map(_cpus, real_time)) or _cpus(pid)
    if here is None or not cpus:
        return None
    own = [client for client in clients if client.pid == pid]
    name = Path(command[0]).name if command and command[0] else here.comm
    return Process(
        pid, name, command, tuple(sorted({*real_time.values()})), tuple(sorted(cpus)),
        sum(one.segments for one in own) if own else None,
        next((one.set_priority for one in own if one.set_priority), None), _executes(pid),
    )  # fmt: skip


def _executes(pid: int) -> bool:
    """Whether a process has loaded ROS 2's client library; also False if this user may not know."""
    return b"/librcl.so" in (procs.read_proc(pid, "maps") or b"")


def _cpus(thread: int) -> set[int]:
    """The CPUs that a thread may use; none if the thread has ended."""
    try:
        return os.sched_getaffinity(thread)
    except OSError:
        return set()


def text_of(processes: Sequence[Process], policy: str | None, latency: Sequence[UpdateLatency]) -> str:
    """The file's text.  ``policy``: the host's; None: no host was asked.  ``latency``: of the host's updates."""
    seen = MEASURED
    if latency:
        (count, longest), raising = update_times(latency), raised(latency, (policy,))
        seen = f"the longest of {count} updates that the host has seen took {format_time(longest)}: add a margin"
        seen += f", and {format_time(raising)} to raise threads" if raising else ""
    lines = [
        "# Made by gpurt init from running processes.  No command takes the file before each \"?\" is replaced.",
        "# What was measured once is no worst case: `gpurt measure times` measures segments; add a margin.",
        "# A thread that serves several tasks (an executor, an event loop) is a [[thread]]: docs/manual/callbacks.md.",
        *_platform(policy, f"{os.cpu_count() or 1}  # of this machine", seen),
    ]
    names: dict[str, int] = {}
    for one in processes:
        name = task_name(one.name)
        names[name] = names.get(name, 0) + 1
        name = name if names[name] == 1 else f"{name[:50]}-{one.pid}"
        lines += ["", *_task(one, name)]
    return "\n".join(lines) + "\n"


def _platform(policy: str | None, cpus: str, seen: str) -> list[str]:
    """The lines of [platform].  ``seen``: known facts about its costs."""
    return [
        "",
        "[platform]",
        f'policy = "{policy or UNKNOWN_TIME}"' + ("  # the host's" if policy else "  # boosted, segment, ..."),
        f"cpus = {cpus}",
        f"alpha = {BLANK}  # what a runlist update takes at most; {seen}",
        f"theta = {BLANK}  # what the GPU's context switch takes at most",
    ]


def _task(one: Process, name: str) -> list[str]:
    """The lines of a [[task]].  Keys such as the waiting mode, whose default would be a guess, also get a ?."""
    pinned = len(one.cpus) == 1
    return [
        f"[[task]]  # {_seen(one)}",
        f'name = "{name}"',
        f"cpu = {one.cpus[0]}" if pinned else f"cpu = {BLANK}  # not pinned: it may run on {len(one.cpus)} CPUs",
        _priority(one.priorities),
        *([f"gpu_priority = {one.gpu_priority}"] if one.gpu_priority else []),
        f"period = {BLANK}  # the least time between two releases of its job",
        f"deadline = {BLANK}",
        f"waiting = {BLANK}  # while its GPU work executes: suspend or busy",
        "segments = [  # of a job, in order",
        f"  {{ cpu = {BLANK} }},",
        f"  {{ misc = {BLANK}, gpu = {BLANK} }},  # CPU work of the segment, and its work on the GPU",
        f"  {{ cpu = {BLANK} }},",
        "]",
        _command(one),
    ]


def _seen(one: Process) -> str:
    segments = "no GPU segment was seen" if not one.segments else f"{one.segments} GPU segments were seen"
    ros = "; it has loaded ROS 2: write a [[thread]], and a [[task]] for each callback" if one.executes else ""
    return f"process {one.pid}; {segments}{ros}"


def _command(one: Process) -> str:
    if one.command and all("\0" not in word and _is_text(word) for word in one.command):
        return f"command = [{', '.join(map(_quoted, one.command))}]"
    return f"# command: {visible(' '.join(one.command))[:200] or 'not readable'}"


def _priority(those: Sequence[int]) -> str:
    if len(those) == 1:
        return f"priority = {those[0]}"
    why = f"its threads have {', '.join(map(str, those))}" if those else "it has no SCHED_FIFO priority now"
    return f"priority = {BLANK}  # {why}; 0 makes it best effort"


def _is_text(word: str) -> bool:
    """Whether all bytes of the word are UTF-8, as TOML requires."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in word)


def _quoted(word: str) -> str:
    """A basic string of TOML."""
    return '"' + "".join(_escaped(character) for character in word) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
