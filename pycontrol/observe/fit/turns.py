# SPDX-License-Identifier: GPL-2.0
"""Objections to TSGs of a Tegra with slices and levels: bounds assume that each task has one TSG, whose turns end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from analysis.model import Task
from pycontrol.link.hints import WAITS_FOR_BLOCKS, WAITS_FOR_KERNELS, Hints
from pycontrol.observe.fit.objection import Code, Objection


def turns(there: Sequence[Hints], of: Mapping[int, Task]) -> Iterator[Objection]:
    """The objections.  ``there``: the TSGs of all programs; ``of``: the task of each process that is a task, by pid."""
    counts = Counter(of[one.pid].name for one in there if one.pid in of)
    for one in there:
        task, who = of.get(one.pid), f"TSG {one.tsg} of process {one.pid}"
        if task is None:
            text = f"{who} has turns on the GPU and is no task's: no bound takes it into account"
            yield Objection(Code.STRANGER, text, "add it to the file, or end it")
        elif counts[task.name] > 1 and not task.best_effort:
            text = f"{task.name} has {counts[task.name]} TSGs, and its bound is for one"
            yield Objection(Code.SHAPES, text, "have its program use one")
        if one.mode == WAITS_FOR_KERNELS:
            text = f"kernels of {who} execute to their end, whatever its slice: its compute preemption is WFI"
            yield Objection(Code.SHAPES, text, "have its program choose CILP")
        elif one.mode == WAITS_FOR_BLOCKS:
            text = f"theta has to contain the longest thread block of {who}: its compute preemption is CTA"
            yield Objection(Code.SHAPES, text, defeats=())
