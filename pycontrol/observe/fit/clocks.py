# SPDX-License-Identifier: GPL-2.0
"""Objections to clocks, power mode or temperature that are unknown or differ from those of the file's times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.model import Task
from analysis.taskset import TasksetFile
from analysis.taskset.clocks import Clocks, shown
from gpurt.units import format_frequency
from pycontrol.machine.clocks import Clock, MachineClocks
from pycontrol.observe.fit.host import Host
from pycontrol.observe.fit.objection import Code, Objection

ANEW = "set the clocks of the file (docs/manual/clocks.md), or measure the times anew"
ANSWER_CURE = "take it out of the file's clocks if you answer for it"


def clocks(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Compares each look at the machine with the clocks at which the times of the file's real-time tasks were measured.

    An unknown clock differs from every clock.  A machine that was not examined, as in a simulated run, has no clocks.
    """
    stated = [(task, file.clocks[task.name]) for task in file.taskset.real_time if task.name in file.clocks]
    virtual = bool(host.gpus) and all(gpu.emulated for gpu in host.gpus)
    for seen in host.clocks:
        for task, wanted in stated:
            yield from _of_cpu(task, wanted, seen)
            if task.uses_gpu and not virtual:  # virtual GPUs execute equally fast at any clock
                yield from _of_gpu(wanted, seen.gpus)
            yield from _of_board(wanted, seen)


def _differs(what: str, here: str, there: str, cure: str = ANEW) -> Objection:
    return Objection(Code.CLOCKS, f"{what} is {here}, and the file's times are of {there}", cure)


def _of_cpu(task: Task, wanted: Clocks, seen: MachineClocks) -> Iterator[Objection]:
    clock = next((one for one in seen.cpus if one.cpu == task.cpu), None)
    if wanted.cpu is not None:
        yield from _held(f"the clock of CPU {task.cpu}", clock, wanted.cpu)
    if wanted.governor is not None and (clock is None or clock.governor != wanted.governor):
        here = "unknown" if clock is None or clock.governor is None else clock.governor
        cure = ANSWER_CURE if here == "unknown" else ANEW
        yield _differs(f"the governor of CPU {task.cpu}", here, f"governor {wanted.governor}", cure)


def _of_gpu(wanted: Clocks, seen: Sequence[Clock]) -> Iterator[Objection]:
    """Each GPU of the machine counts, since nothing says which GPU programs use."""
    if wanted.gpu is None:
        return
    for clock in seen or (None,):
        yield from _held(f"the clock of {clock.name}" if clock else "the GPU's clock", clock, wanted.gpu)


def _held(what: str, clock: Clock | None, wanted: int) -> Iterator[Objection]:
    there = format_frequency(wanted)
    if clock is None:
        yield _differs(what, "unknown", there, ANSWER_CURE)
    elif clock.hertz is None:
        yield _differs(what, clock.text, there, f"hold it (docs/manual/clocks.md), or {ANSWER_CURE}")
    elif clock.hertz != wanted:
        yield _differs(what, clock.text, there)


def _of_board(wanted: Clocks, seen: MachineClocks) -> Iterator[Objection]:
    if wanted.power_mode is not None and seen.power_mode != wanted.power_mode:
        here, cure = ("unknown", ANSWER_CURE) if seen.power_mode is None else (shown(seen.power_mode), ANEW)
        yield _differs("the power mode", here, shown(wanted.power_mode), cure)
    if wanted.temperature is None:
        return
    if seen.temperature is None:
        yield Objection(Code.CLOCKS, "the temperature is unknown", defeats=())
    elif seen.temperature > wanted.temperature:  # if heat slows a clock down, the clock shows it
        text = f"the hottest sensor has {seen.temperature} degrees Celsius, and the file's times are of "
        text += f"{wanted.temperature}: heat may slow clocks down"
        yield Objection(Code.CLOCKS, text, "cool the board", ())
