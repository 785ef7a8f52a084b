# SPDX-License-Identifier: GPL-2.0
"""Many combinations of waiting modes of one taskset under one compiled test: arrays in which only the modes change."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import lcm
from typing import TypeAlias

from analysis.answers import compiled
from analysis.model import Taskset, Waiting
from analysis.rta import Test, boosted
from analysis.rta.columns import columns_of, i64, pointer, u32
from gpurt._gpurt import ffi, lib

#: Each task's waiting mode by its name.
Modes: TypeAlias = Mapping[str, Waiting]
#: How good a combination is: whether it is schedulable, then its slacks, the least first; or how few bounds it lacks.
#: The slacks are multiplied by one number that makes them integers.
Merit: TypeAlias = tuple[bool, list[int]]


class Trials:
    """The merit of a combination, in less than a millisecond where the compiled test alone says it.

    ``in_full`` answers the rest: combinations that hold by other GPU priorities, or whose turns may be slow.
    """

    def __init__(self, test: Test, taskset: Taskset, whole: int, in_full: Callable[[Modes], Merit]) -> None:
        self.test, self.taskset, self.whole, self.in_full = test, test.seen(taskset), whole, in_full
        self.columns = columns_of(self.taskset)
        self.facts = compiled.facts(test)
        count = len(taskset)
        self.state, self.wcrt = array("B", bytes(count)), i64([0] * count)
        self.end, self.others, self.levels = i64([0] * count), u32([0] * count), u32([0] * count)
        self.rank, self.given = u32(range(count)), ffi.new("int *")
        real_time = [(index, task) for index, task in enumerate(self.taskset) if not task.best_effort]
        self.users = [(index, task) for index, task in real_time if task.uses_gpu]
        self.real_time = [(index, task.deadline) for index, task in real_time]

    def merit(self, modes: Modes) -> Merit:
        """How good these modes are."""
        busy = self.columns.numbers["busy"]
        for index, task in self.users:
            busy[index] = modes[task.name].spins
        found = [self.state, self.wcrt, self.end, self.others]
        pointers = (pointer(kind, one) for kind, one in zip(("u8", "int64_t", "int64_t", "u32"), found, strict=True))
        status = lib.gpurt_rta_bounds(self.columns.view, self.facts, 0, pointer("u32", self.rank), *pointers)
        if status:
            return self.in_full(modes)
        late = sum(self.state[index] != lib.GPURT_RTA_BOUND for index, _ in self.real_time)
        if late:
            return self.in_full(modes) if self._assignable() else (False, [-late * self.whole])
        if not self._in_turn(modes):
            return self.in_full(modes)
        slacks = ((deadline - self.wcrt[index]) * (self.whole // deadline) for index, deadline in self.real_time)
        return True, sorted(slacks)

    def _assignable(self) -> bool:
        """Whether each task that uses the GPU may have a level; also where that is not known."""
        levels = pointer("u32", self.levels)
        status = lib.gpurt_rta_levels(self.columns.view, self.facts, levels, self.given)
        return bool(status) or not 0 <= self.given[0] < len(self.users)

    def _in_turn(self, modes: Modes) -> bool:
        """Whether no spinning task waits too long for its turn at the update lock: the least urgent waits longest."""
        waiting = [task.segment_priority for _, task in self.users if modes[task.name].spins]
        if not self.test.rules.raises or not waiting:
            return True
        alpha, least = self.taskset.platform.alpha, min(waiting)
        first = [(self.wcrt[index], task.period, 2 * task.eta * alpha)
                 for index, task in self.users if task.segment_priority >= least]  # fmt: skip
        wait, before = alpha, -1
        while before < wait <= boosted.MAX_SPIN_NS:
            before = wait
            wait = alpha + sum(-(-(wait + response) // period) * cost for response, period, cost in first)
        return wait <= boosted.MAX_SPIN_NS


def trials(
    test: Test, taskset: Taskset, busy: Taskset, merit: Callable[[Modes], tuple[bool, list[Fraction]]]
) -> Callable[[Modes], Merit]:  # fmt: skip
    """The merit of combinations of modes; ``busy``: the taskset where all spin.  ``merit``: that of a choice."""
    whole = lcm(*(task.deadline for task in taskset.real_time))

    def in_full(modes: Modes) -> Merit:
        schedulable, slacks = merit(modes)
        return schedulable, [int(one * whole) for one in slacks]

    alone = (
        compiled.known(test, taskset) and not taskset.threads and len(taskset) <= compiled.MAX_TASKS_BOUNDED
        and not any(chain.limits for chain in taskset.chains)
        and not any(test.refusal(test.seen(one)) for one in (taskset, busy))
    )  # fmt: skip
    if not alone:
        return in_full
    try:
        return Trials(test, taskset, whole, in_full).merit
    except OverflowError:  # of a time, which the readable test has no limit for
        return in_full
