# SPDX-License-Identifier: GPL-2.0
"""The compiled tests: the same verdicts and bounds as the readable ones, for many tasksets at once, without the GIL.

They compute with 64-bit integers.  A taskset whose sums could exceed that is recognised before its analysis, and the
readable implementation decides it.  docs/readings.md has the proofs; tests hold both implementations equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import rta
from analysis.batch import Batch, from_tasksets, pointer
from analysis.model import CpuSegment, Taskset, Waiting
from analysis.rta.audsley import Assignment
from analysis.rta.order import Equals
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Verdict
from analysis.rta.system import System
from analysis.rta.threads import verdict_of
from gpurt._gpurt import ffi, lib
from gpurt.errors import TooLargeError

#: The classic recurrence for CPUs alone, which the benchmarks measure against.  It has a formula in C and is not a test
#: of the registry.
FIXED_PRIORITY = "fixed-priority"

#: Above, the sets of tasks that each bound rests on would take more memory than the analysis is worth.
MOST_TASKS = 30_000
#: Above, the readable analyses take minutes.
MOST_READABLE = 1000

_EQUALS = {
    Equals.BOUNDED: lib.GPURT_RTA_BOUNDED,
    Equals.CONTENDED: lib.GPURT_RTA_CONTENDED,
    Equals.UNBOUNDED: lib.GPURT_RTA_UNBOUNDED,
}

_BUSY = {Waiting.SUSPEND: lib.GPURT_RTA_NONE, Waiting.BUSY: lib.GPURT_RTA_ALL, None: lib.GPURT_RTA_SOME}


def _formulas() -> dict[str, int]:
    """The compiled formulas by name, as C lists them, and the place of each."""
    names: dict[str, int] = {}
    while (name := lib.gpurt_rta_formula(len(names))) != ffi.NULL:
        names[ffi.string(name).decode()] = len(names)
    return names


#: The place of every compiled formula by its name (analysis/native/rta_formulas.h).
FORMULAS: dict[str, int] = _formulas()


def has(name: str) -> bool:
    """Whether the test of that name has a compiled formula."""
    return name == FIXED_PRIORITY or (name in rta.TESTS and rta.TESTS[name].compiled is not None)


def takes(name: str) -> bool:
    """Whether ``verdicts`` takes the test: it has a compiled formula, or reduces a test that has one."""
    return has(name) or (name in rta.TESTS and rta.TESTS[name].reduces is not None)


def _facts(name: str) -> Any:
    """The C struct of a test: its formula and the facts of its row.  Raises ValueError if it has no formula."""
    facts = ffi.new("struct gpurt_rta_test *")
    if name == FIXED_PRIORITY:
        facts.formula = FORMULAS[name]
        return facts
    test = rta.TESTS.get(name)
    if test is None or test.compiled is None:
        raise ValueError(f"no compiled test is called {name!r}")
    facts.formula, facts.poll = FORMULAS[test.compiled], test.poll
    facts.busy, facts.ordered, facts.any_order = _BUSY[test.waiting], test.ordered, test.any_order
    facts.equals = _EQUALS[test.equals(spins=test.waiting is Waiting.BUSY)]
    return facts


def verdicts(batch: Batch, name: str, threads: int = 1, integers: bool = False) -> NDArray[np.bool_]:
    """Whether each taskset of a batch is schedulable under the test of that name.

    ``integers``: without shortcuts, the recurrences as they are written; to compare with.
    Raises ValueError for a test that is not compiled, and if more tasks of a taskset use the GPU than there are
    priorities to assign.
    """
    if name in rta.TESTS and rta.TESTS[name].reduces:
        return _reduced(batch, rta.TESTS[name], threads)
    answers = np.empty(len(batch), np.uint8)
    facts, view, out = _facts(name), batch.view(), pointer("u8", answers)
    flags = lib.GPURT_RTA_ASSIGN * name.endswith(rta.SUFFIX) | lib.GPURT_RTA_INTEGERS * integers

    def part(bounds: tuple[int, int]) -> int:
        return int(lib.gpurt_rta_verdicts(view, facts, flags, *bounds, out))

    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            statuses = list(pool.map(part, _parts(len(batch), 8 * threads)))
    else:
        statuses = [part((0, len(batch)))]
    if any(statuses):
        _raise(min(statuses))
    if (answers == lib.GPURT_RTA_TOO_MANY).any():
        raise ValueError("more tasks use the GPU than there are GPU priorities")
    schedulable: NDArray[np.bool_] = answers == lib.GPURT_RTA_YES
    return _readable(batch, name, schedulable, np.flatnonzero(answers == lib.GPURT_RTA_REFUSED))


def _readable(batch: Batch, name: str, answers: NDArray[np.bool_], which: Iterable[Any]) -> NDArray[np.bool_]:
    """The answers, with those of some tasksets replaced by what the readable implementation says."""
    for index in which:
        answers[index] = rta.find(name).run(batch.taskset(int(index))).schedulable
    return answers


def _reduced(batch: Batch, test: rta.Test, threads: int) -> NDArray[np.bool_]:
    """A test with reduced pessimism: the test that it reduces, where overlaps cannot make a difference.

    Overlaps are subtracted for segments of at least three periods of another task, and only ever help tasks whose
    GPU priorities are given; the readable implementation decides the rest.
    """
    assert test.reduces is not None
    given = verdicts(batch, test.reduces, threads)
    overlapping = np.array([_overlaps(batch, index) for index in range(len(batch))], np.bool_)
    answers = verdicts(batch, test.reduces + rta.SUFFIX, threads) if test.assigns else given
    return _readable(batch, test.name, answers | given, np.flatnonzero(overlapping & ~given))


def _overlaps(batch: Batch, index: int) -> bool:
    """Whether a segment is as long as three of the taskset's shortest periods."""
    begin, end = batch.first[index], batch.first[index + 1]
    if batch.pieces is None or not batch.drawn or begin == end:
        return True
    longest = batch.pieces.longest(int(batch.pieces.first[begin]), int(batch.pieces.first[end]))
    return bool(longest >= 3 * batch.times["period"][begin:end].min())


def _parts(count: int, pieces: int) -> list[tuple[int, int]]:
    """Ranges of tasksets, several for each thread because some tasksets take longer than others."""
    return list(pairwise(count * piece // pieces for piece in range(pieces + 1)))


def _raise(status: int) -> None:
    if status == -lib.GPURT_RTA_ENOMEM:
        raise MemoryError
    raise ValueError("the compiled tests refused the batch: CPU numbers must be below 4096")


def run(test: rta.Test, taskset: Taskset) -> Result:
    """The same result as ``test.run``, bound by bound and failure by failure, in less time for large tasksets.

    The readable implementation explains a bound when its terms are read.
    """
    if _unknown(test, taskset):
        return test.run(taskset)
    if systems := test.systems(taskset):
        return test.together(taskset, [run(test, one) for one in systems])
    if unseen := test.unseen(taskset):
        return unseen
    taskset = test.seen(taskset)
    result = test.refusal(taskset) or _analyse(test, taskset, False)
    if result is None:
        check_size(test, taskset)
    if result is None or (test.assigns and not result.schedulable):
        return test.run(taskset)
    return result


def _unknown(test: rta.Test, taskset: Taskset) -> bool:
    """Whether no compiled formula is about such tasks: threads that serve several, several pending jobs, own units."""
    return test.analysis is not None or bool(taskset.threads or taskset.pending)


def check_size(test: rta.Test, taskset: Taskset) -> None:
    """Raises TooLargeError for a taskset that only the readable analysis takes, and that is too large for it."""
    if len(taskset) > MOST_READABLE:
        raise TooLargeError(f"{test.name} takes at most {MOST_READABLE} tasks, and the file has {len(taskset)}")


def passes(test: rta.Test, taskset: Taskset) -> bool:
    """Whether ``test.run`` finds every task schedulable; nothing is explained."""
    if _unknown(test, taskset) or test.assigns:
        return run(test, taskset).schedulable
    if systems := test.systems(taskset):
        return all(passes(test, one) for one in systems)
    if unseen := test.unseen(taskset):
        return unseen.schedulable
    taskset = test.seen(taskset)
    if refused := test.refusal(taskset):
        return refused.schedulable
    name = test.reduces if test.reduces and not _overlapping(taskset) else test.name
    if rta.find(name).compiled is None or len(taskset) > MOST_TASKS:
        return _briefly(test, taskset)
    try:
        view = (batch := from_tasksets([taskset])).view()
    except OverflowError:
        return _briefly(test, taskset)
    answer = np.empty(len(batch), np.uint8)
    if status := lib.gpurt_rta_verdicts(view, _facts(name), 0, 0, 1, pointer("u8", answer)):
        _raise(status)
    if answer[0] == lib.GPURT_RTA_REFUSED:
        return _briefly(test, taskset)
    return bool(answer[0] == lib.GPURT_RTA_YES)


def _briefly(test: rta.Test, taskset: Taskset) -> bool:
    check_size(test, taskset)
    return test.run(taskset, brief=True).schedulable


def priorities(test: rta.Test, taskset: Taskset) -> dict[str, int]:
    """Those of ``test.assign``; empty if there are none, and no word why.  Raises ValueError as that does."""
    levels = _levels(test, taskset)
    if levels is not None and len(levels) < sum(task.uses_gpu for task in taskset.real_time):
        return {}
    return test.assign(taskset, levels or ()).priorities or {}


def assign(test: rta.Test, taskset: Taskset) -> Assignment:
    """The same assignment as ``test.assign``, in less time for large tasksets.

    The readable implementation says why no task can take a level.  Raises ValueError if more tasks use the GPU than
    there are priorities.
    """
    return test.assign(taskset, _levels(test, taskset) or ())


def _levels(test: rta.Test, taskset: Taskset) -> list[str] | None:
    """The tasks that have levels, from the lowest on, as far as tasks can take them; None if that is not known."""
    if _unknown(test, taskset) or rta.find(test.name).compiled is None or test.reduces or len(taskset) > MOST_TASKS:
        return None
    try:
        view = (batch := from_tasksets([test.seen(taskset)])).view()
    except OverflowError:
        return None
    levels, given = np.zeros(max(len(taskset), 1), np.uint32), ffi.new("int *")
    status = lib.gpurt_rta_levels(view, _facts(test.base), 0, pointer("u32", levels), given)
    if status == -lib.GPURT_RTA_ENOMEM:
        raise MemoryError
    if status or given[0] < 0:
        return None
    assert len(batch) == 1
    return [taskset.tasks[int(index)].name for index in np.argsort(levels) if levels[index]]


def _analyse(test: rta.Test, taskset: Taskset, assume: bool) -> Result | None:
    """None if the test has no compiled formula, or the formula cannot take the taskset."""
    name = test.reduces if test.reduces and not _overlapping(taskset) else test.name
    if rta.find(name).compiled is None or len(taskset) > MOST_TASKS:
        return None
    try:
        batch = from_tasksets([taskset])
        view = batch.view()
    except OverflowError:  # of a time, or of a cost with a copy on top that nothing interrupts
        return None
    found = _Found(len(taskset))
    order = sorted(range(len(taskset)), key=lambda index: taskset.tasks[index].name)
    ranks = np.empty(max(len(taskset), 1), np.uint32)
    ranks[order] = range(len(taskset))
    status = lib.gpurt_rta_bounds(
        view, _facts(name), assume, 0,
        pointer("u32", ranks), *found.pointers(),
    )  # fmt: skip
    if status == -lib.GPURT_RTA_ENOMEM:
        raise MemoryError
    return None if status else Result(test.name, _Explained(test, taskset, found, assume).verdicts())


def _overlapping(taskset: Taskset) -> bool:
    """Whether some segment's best case is as long as three of the shortest periods (thesis.py, _whole_jobs)."""
    spans = (s.time if isinstance(s, CpuSegment) else s.pure for task in taskset for s in task.segments)
    shortest = min((task.period for task in taskset), default=1)
    return any(span.best >= 3 * shortest for span in spans)


class _Found:
    """What the compiled analysis writes of each task."""

    def __init__(self, count: int) -> None:
        room = max(count, 1)
        self.state, self.wcrt, self.end = np.zeros(room, np.uint8), np.zeros(room, np.int64), np.zeros(room, np.int64)
        self.culprit = np.zeros(room, np.uint32)

    def pointers(self) -> Sequence[Any]:
        """The arrays as C pointers."""
        times = [pointer("int64_t", self.wcrt), pointer("int64_t", self.end)]
        return [pointer("u8", self.state), *times, pointer("u32", self.culprit)]


class _Explained:
    """Verdicts from what was found.  The readable analysis adds what the compiled one does not compute."""

    def __init__(self, test: rta.Test, taskset: Taskset, found: _Found, assume: bool) -> None:
        self.test, self.taskset = test, taskset
        self.states, self.wcrts, self.culprits = found.state.tolist(), found.wcrt.tolist(), found.culprit.tolist()
        self.assume = assume
        self.bounds = {} if assume else self._known(self.wcrts)
        self.ends = {} if assume else self._known(found.end.tolist())
        self.indices = {task.name: index for index, task in enumerate(taskset)}

    def _known(self, times: Sequence[int]) -> dict[str, int]:
        return {task.name: time for task, time in zip(self.taskset, times, strict=False) if time >= 0}

    def verdicts(self) -> dict[str, Verdict]:
        return {task.name: self._verdict(index) for index, task in enumerate(self.taskset)}

    def _verdict(self, index: int) -> Verdict:
        task, state = self.taskset.tasks[index], self.states[index]
        if state == lib.GPURT_RTA_BEST_EFFORT:
            return BestEffort(task.name)
        if state == lib.GPURT_RTA_BOUND:
            return Bound(task.name, self.wcrts[index], task.deadline, lambda: self._readable(index).terms)
        if state == lib.GPURT_RTA_DEPENDS:
            culprit = self.taskset.tasks[self.culprits[index]].name
            return Failure(task.name, Reason.DEPENDS_ON, task.deadline, culprit=culprit)
        return self._solved(index)

    def _readable(self, index: int) -> Bound:
        verdict = self._solved(index)
        assert isinstance(verdict, Bound)
        assert verdict.wcrt == self.wcrts[index]
        return verdict

    def _solved(self, index: int) -> Verdict:
        """What the readable implementation says of one task, given the bounds that were known to it."""
        task = self.taskset.tasks[index]
        known, ends = (
            {name: time for name, time in times.items() if self._above(name, task.priority)}
            for times in (self.bounds, self.ends)
        )
        system = System(self.taskset, known, ends, assumed=self.assume)
        return verdict_of(task, self.test.demands, system, self.test.instead)[0]

    def _above(self, name: str, priority: int) -> bool:
        return self.taskset.tasks[self.indices[name]].priority > priority
