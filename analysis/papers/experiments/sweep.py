# SPDX-License-Identifier: GPL-2.0
"""The compiled tests over many tasksets at once, without the GIL: verdicts, no bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import rta
from analysis.answers import compiled
from analysis.papers import registry
from analysis.rta.batch import Batch, pointer
from gpurt._gpurt import lib


def takes(test: rta.Test) -> bool:
    """Whether ``verdicts`` takes the test: it has a compiled formula, or reduces a test that has one."""
    return test.compiled is not None or test.base in registry.REDUCES


def verdicts(batch: Batch, name: str) -> NDArray[np.bool_]:
    """Whether each taskset of a batch is schedulable under the test of that name.

    Raises ValueError for a test that is not compiled, or not for threads that serve several tasks where there are some.
    Raises ValueError as well if more tasks of a taskset use the GPU than there are priorities to assign.
    """
    test = registry.find(name)
    if np.any(batch.numbers["thread"]) and not compiled.serves(test):
        raise ValueError(f"{test.name} has no compiled form for threads that serve several tasks")
    if test.base in registry.REDUCES:
        return _reduced(batch, test)
    answers = np.empty(len(batch), np.uint8)
    facts, view, out = compiled.facts(test), batch.view(), pointer("u8", answers)
    flags = lib.GPURT_RTA_ASSIGN * test.assigns
    if status := lib.gpurt_rta_verdicts(view, facts, flags, 0, len(batch), out):
        compiled.raise_status(status)
    if (answers == lib.GPURT_RTA_TOO_MANY).any():
        raise ValueError("more tasks use the GPU than there are GPU priorities")
    schedulable: NDArray[np.bool_] = answers == lib.GPURT_RTA_YES
    return _readable(batch, test, schedulable, np.flatnonzero(answers == lib.GPURT_RTA_REFUSED))


def _readable(batch: Batch, test: rta.Test, answers: NDArray[np.bool_], which: Iterable[Any]) -> NDArray[np.bool_]:
    """The answers, with those of some tasksets replaced by what the readable implementation says."""
    for index in which:
        answers[index] = test.run(batch.taskset(int(index))).schedulable
    return answers


def _reduced(batch: Batch, test: rta.Test) -> NDArray[np.bool_]:
    """A test with reduced pessimism: the test that it reduces, where overlaps cannot make a difference.

    Overlaps are subtracted for segments of at least three periods of another task, and only ever help tasks whose
    GPU priorities are given.  The readable implementation decides the rest.
    """
    reduced = registry.find(registry.REDUCES[test.base])
    given = verdicts(batch, reduced.name)
    overlapping = np.array([_overlaps(batch, index) for index in range(len(batch))], np.bool_)
    answers = verdicts(batch, reduced.name + rta.SUFFIX) if test.assigns else given
    return _readable(batch, test, answers | given, np.flatnonzero(overlapping & ~given))


def _overlaps(batch: Batch, index: int) -> bool:
    """Whether a segment is as long as three of the taskset's shortest periods."""
    begin, end = batch.first[index], batch.first[index + 1]
    if batch.pieces is None or not batch.drawn or begin == end:
        return True
    longest = batch.pieces.longest(int(batch.pieces.first[begin]), int(batch.pieces.first[end]))
    return bool(longest >= 3 * min(batch.times["period"][begin:end]))
