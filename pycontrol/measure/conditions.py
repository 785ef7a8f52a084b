# SPDX-License-Identifier: GPL-2.0
"""The conditions under which a program is measured: the effect of each, and whether it can be made here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gpurt.enums import Policy
from gpurt.errors import RefusedError, RuntimeFailure, UsageError
from gpurt.files import matching
from gpurt.text import visible
from pycontrol.link.control import GpuStatus
from pycontrol.machine.clocks import UNKNOWN_CLOCKS, MachineClocks

CACHES = Path("/sys/devices/system/cpu")
#: The assumed size of an unknown last-level cache, and the most bytes of a buffer that evicts a cache.
UNKNOWN_CACHE, MOST_BUFFER = 32 << 20, 1 << 30
#: How many bytes one write has: glibc's memcpy may bypass all caches for more than 3/4 of a cache.
WRITTEN_BYTES = 1 << 13


class Condition(str, Enum):
    """A condition; the value is its name on the command line."""

    QUIET = "quiet"
    COLD = "cold"
    CPU = "cpu"
    GPU = "gpu"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class Here:
    """The facts that conditions depend on.

    ``gpus``: of the host.  ``priority``: the program's; None: its own.  ``beside``: the user's co-runner.  ``clocks``:
    of the machine, before the runs.
    """

    gpus: Sequence[GpuStatus]
    priority: int | None
    beside: Sequence[str] = ()
    clocks: MachineClocks = UNKNOWN_CLOCKS


def described(gpus: Sequence[GpuStatus]) -> list[dict[str, str | int]]:
    """The properties of a host that times depend on, by GPU, for JSON."""
    return [
        {"driver": one.driver, "tier": one.tier.word, "policy": one.policy.word, "alpha_ns": one.alpha_ns,
         "theta_ns": one.theta_ns, "slice_ns": one.slice_ns} for one in gpus
    ]  # fmt: skip


def check_host(now: Sequence[GpuStatus], here: Here) -> None:
    """Raises RuntimeFailure: the host has changed since the measurement began."""
    earlier, found = described(here.gpus), described(now)
    if len(earlier) != len(found):
        raise RuntimeFailure(f"the host had {len(earlier)} GPUs when the measurement began, and has {len(found)}")
    for gpu, (before, after) in enumerate(zip(earlier, found, strict=True)):
        for name, value in before.items():
            if after[name] != value:
                was = f"{name} of GPU {gpu} was {value} when the measurement began"
                raise RuntimeFailure(f"{was}, and is {after[name]}: restore it, and measure again")


def lacks(condition: Condition, here: Here) -> str:
    """Why a condition cannot be made here, or would have no effect; empty if it can be made."""
    if condition is Condition.GPU:
        if not all(gpu.emulated for gpu in here.gpus):
            return "gpurt has no work for this GPU: name a program that keeps it busy with --beside"
        if any(gpu.policy is Policy.TIMESLICED for gpu in here.gpus):
            return "under policy timesliced the co-runner's slices would count as the program's own time"
    if condition is Condition.BESIDE and not here.beside:
        return "no co-runner is named with --beside"
    return ""


def choose(named: Sequence[str], here: Here) -> tuple[list[Condition], dict[Condition, str]]:
    """The conditions to measure under, and why the others are omitted.

    Args:
        named: the conditions that the user named.  If there are none: all possible ones, but `gpu` only for programs
            with a priority: a best-effort program would share the GPU with the co-runner.
        here: the facts that conditions depend on.

    Raises:
        RefusedError: a named condition cannot be made.
        UsageError: there is a co-runner, but no run beside it.
    """
    wanted = [one for one in Condition if one.value in named]
    for one in wanted:
        if why := lacks(one, here):
            raise RefusedError(f"condition {one.value} cannot be made: {why}")
    if wanted and here.beside and Condition.BESIDE not in wanted:
        raise UsageError("--beside names a co-runner for condition beside, which is not among those of --condition")
    without = {one: lacks(one, here) or _unasked(one, here) for one in Condition}
    chosen = wanted or [one for one in Condition if not without[one]]
    return chosen, {one: without[one] or "not asked for" for one in Condition if one not in chosen}


def _unasked(condition: Condition, here: Here) -> str:
    """Why a condition is made only if the user names it; empty if it is always made."""
    if condition is Condition.GPU and here.priority is None:
        return "best-effort segments share the GPU with a co-runner: give --priority, or name the condition"
    return ""


def left_out(without: Mapping[Condition, str]) -> list[str]:
    """The omitted conditions, with one text for each reason."""
    reasons = dict.fromkeys(without.values())
    return [f"{', '.join(one.value for one, why in without.items() if why == reason)}: {reason}" for reason in reasons]


def about(condition: Condition, here: Here) -> str:
    """The effect of a condition, in words."""
    size = f"{buffer_size() >> 20} MiB"
    return {
        Condition.QUIET: "nothing beside the program, except what the machine does anyway",
        Condition.COLD: "before each run: the kernel was asked to drop the page cache of the program's file and of "
                        f"files among its arguments, and each CPU wrote {size} twice; later jobs of the run find warm "
                        "caches",
        Condition.CPU: f"beside each run: on each of {len(os.sched_getaffinity(0))} CPUs a process of class SCHED_IDLE "
                       f"that copies memory, {size} together",
        Condition.GPU: "beside each run: a best-effort client that always has work on the GPU",
        Condition.BESIDE: f"beside each run: {visible(' '.join(here.beside))}",
    }[condition]  # fmt: skip


def buffer_size() -> int:
    """Twice the size of the largest cache of any CPU, bytes: a machine's CPUs may have caches of different sizes."""
    found = [_size(path) for path in matching(CACHES, "cpu[0-9]*/cache/index*/size")]
    return min(2 * max(found, default=UNKNOWN_CACHE), MOST_BUFFER)


def _size(path: Path) -> int:
    """A size such as "32768K", bytes.  Some virtual machines and firmwares report 0 for an unknown cache."""
    units = {"K": 10, "M": 20, "G": 30}
    try:
        text = path.read_text(encoding="ascii").strip()
        return int(text[:-1]) << units[text[-1:]] if int(text[:-1]) > 0 else UNKNOWN_CACHE
    except (OSError, ValueError, KeyError):
        return UNKNOWN_CACHE


def chill(condition: Condition, command: Sequence[str]) -> None:
    """Before a run: makes caches cold if the condition requires it."""
    if condition is Condition.COLD:
        for path in files(command):
            _forget(path)
        evict(buffer_size())


def files(command: Sequence[str]) -> list[str]:
    """The program's file, and regular files among its arguments."""
    program = shutil.which(command[0])
    named = [word for word in command[1:] if "\0" not in word and os.path.isfile(word)]
    return [*([program] if program else []), *named]


def _forget(path: str) -> None:
    """Asks the kernel to drop a file from the page cache.  Pages that another process has mapped stay."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # a program may be executable but not readable
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def evict(size: int) -> None:
    """Writes ``size`` bytes on each CPU that this process may use, so that nothing else stays in the caches."""
    overwrite(bytearray(size), size)


def overwrite(buffer: bytearray, size: int) -> None:
    """Writes ``size`` bytes of a buffer on each CPU.

    It writes twice: caches that expect a stream to be used once keep some of their content in the first pass.
    """
    own, pattern = os.sched_getaffinity(0), bytes(WRITTEN_BYTES)
    try:
        for cpu in own:
            os.sched_setaffinity(0, {cpu})
            for start in [*range(0, size, WRITTEN_BYTES)] * 2:
                end = min(start + WRITTEN_BYTES, size)
                buffer[start:end] = pattern[: end - start]
    finally:
        os.sched_setaffinity(0, own)
