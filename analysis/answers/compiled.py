# SPDX-License-Identifier: GPL-2.0
"""The compiled tests: the same verdicts and bounds as the readable ones.

The compiled tests compute with 64-bit integers.  The readable implementation decides the tasksets whose sums could
exceed 64 bits, which is recognised before the analysis.  It also decides tasksets with several pending jobs of a task,
and assigns GPU priorities.  The proofs are in docs/readings.md.  Tests compare the verdicts and bounds of both
implementations.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from analysis import rta
from analysis.model import Taskset
from analysis.rta.columns import columns_of, i64, pointer, u32
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Verdict
from analysis.rta.system import System
from analysis.rta.threads import verdict_of_threads
from analysis.rta.wakeups import contended
from gpurt._gpurt import ffi, lib
from gpurt.errors import TooLargeError
from gpurt.types import CData

#: With more tasks, the sets of tasks that each bound rests on would need too much memory.
MAX_TASKS_BOUNDED = 30_000
#: With more tasks, the readable analyses take minutes.
MAX_TASKS_READABLE = 1000


def _formulas() -> dict[str, int]:
    """The index of each compiled formula by its name, in the order in which C lists them."""
    names: dict[str, int] = {}
    while (name := lib.gpurt_rta_formula(len(names))) != ffi.NULL:
        names[ffi.string(name).decode()] = len(names)
    return names


#: The index of every compiled formula by its name (analysis/native/rta_formulas.c).
FORMULAS: dict[str, int] = _formulas()


def _checked(answer: int) -> int:
    """The return value of a compiled test.  Raises MemoryError or ValueError if it is an error."""
    if answer == lib.GPURT_RTA_ENOMEM:
        raise MemoryError
    if answer == lib.GPURT_RTA_EINVAL:
        raise ValueError("the compiled tests refused the taskset: CPU numbers must be below 4096")
    return answer


def run_compiled(test: rta.Test, taskset: Taskset) -> Result:
    """The result of ``test.run``, bound by bound and failure by failure, in less time for large tasksets.

    The readable implementation explains a bound when its terms are read.
    """
    if _unknown(test, taskset):
        if taskset.platform.cpu_latency or taskset.resources:
            check_size(test, taskset)
        return test.run(taskset)
    if systems := test.systems(taskset):
        return test.together(taskset, [run_compiled(test, one) for one in systems])
    if unseen := test.unseen(taskset):
        return unseen
    taskset = test.seen(taskset)
    result = test.refusal(taskset) or _analyse(test, taskset)
    if result is None:
        check_size(test, taskset)
    if result is None or (test.assigns and not result.schedulable):
        return test.run(taskset)
    return result


def _unknown(test: rta.Test, taskset: Taskset) -> bool:
    """Whether compiled formulas refuse such tasks: several pending jobs, own units, and threads that the test refuses.

    They also refuse resources, and wake-ups of threads that wait for the update lock.
    """
    platform = taskset.platform
    woken = (platform.cpu_latency or any(platform.woken)) and (not test.latency or contended(taskset))
    woken = woken or bool(taskset.resources or taskset.triggers or taskset.forks or taskset.processes)
    return (
        test.analysis is not None or bool(woken) or bool(taskset.pending) or bool(taskset.threads and not test.threads)
    )


def check_size(test: rta.Test, taskset: Taskset) -> None:
    """Raises TooLargeError for a taskset that only the readable analysis accepts, and that is too large for it."""
    if len(taskset) > MAX_TASKS_READABLE:
        raise TooLargeError(f"{test.name} takes at most {MAX_TASKS_READABLE} tasks, and the file has {len(taskset)}")


def passes(test: rta.Test, taskset: Taskset) -> bool:
    """Whether ``test.run`` finds every task schedulable; nothing is explained."""
    if _unknown(test, taskset):
        return run_compiled(test, taskset).schedulable
    if test.assigns:
        return passes(replace(test, name=test.base, assigns=False), taskset) or _briefly(test, taskset)
    if systems := test.systems(taskset):
        return all(passes(test, one) for one in systems)
    if unseen := test.unseen(taskset):
        return unseen.schedulable
    taskset = test.seen(taskset)
    if refused := test.refusal(taskset):
        return refused.schedulable
    if test.compiled is None or len(taskset) > MAX_TASKS_BOUNDED:
        return _briefly(test, taskset)
    try:
        columns = columns_of(taskset)
        view = columns.view
    except OverflowError:
        return _briefly(test, taskset)
    answer = _checked(lib.gpurt_rta_verdict(view, FORMULAS[test.compiled]))
    return _briefly(test, taskset) if answer == lib.GPURT_RTA_REFUSED else answer == lib.GPURT_RTA_YES


def _briefly(test: rta.Test, taskset: Taskset) -> bool:
    check_size(test, taskset)
    return test.run(taskset, brief=True).schedulable


def _analyse(test: rta.Test, taskset: Taskset) -> Result | None:
    """The result; None if the test has no compiled formula, or the formula cannot analyse the taskset."""
    if test.compiled is None or len(taskset) > MAX_TASKS_BOUNDED:
        return None
    try:
        columns = columns_of(taskset)
        view = columns.view
    except OverflowError:  # in a time, or in the sum of a cost and of a copy that nothing interrupts
        return None
    found = _Found(len(taskset))
    order = sorted(range(len(taskset)), key=lambda index: taskset.tasks[index].name)
    ranks = u32([0] * max(len(taskset), 1))
    for rank, index in enumerate(order):
        ranks[index] = rank
    status = lib.gpurt_rta_bounds(view, FORMULAS[test.compiled], pointer("u32", ranks), *found.pointers())
    return None if _checked(status) else Result(test.name, _Explained(test, taskset, found).verdicts())


class _Found:
    """The arrays into which the compiled analysis writes its findings about each task."""

    def __init__(self, count: int) -> None:
        room = max(count, 1)
        self.state, self.wcrt, self.end = array("B", bytes(room)), i64([0] * room), i64([0] * room)
        self.culprit = u32([0] * room)

    def pointers(self) -> Sequence[CData]:
        """The arrays as C pointers."""
        times = [pointer("int64_t", self.wcrt), pointer("int64_t", self.end)]
        return [pointer("u8", self.state), *times, pointer("u32", self.culprit)]


class _Explained:
    """Verdicts from the arrays.  The readable analysis computes what the compiled one does not."""

    def __init__(self, test: rta.Test, taskset: Taskset, found: _Found) -> None:
        self.test, self.taskset = test, taskset
        self.states, self.wcrts, self.culprits = found.state.tolist(), found.wcrt.tolist(), found.culprit.tolist()
        self.bounds, self.ends = self._known(self.wcrts), self._known(found.end.tolist())
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
        """The readable implementation's verdict on one task, from the bounds that the compiled one knew for it."""
        task = self.taskset.tasks[index]
        known, ends = (
            {name: time for name, time in times.items() if self._above(name, task.priority)}
            for times in (self.bounds, self.ends)
        )
        system = System(self.taskset, known, ends)
        return verdict_of_threads(task, self.test.demands, system, self.test.instead)[0]

    def _above(self, name: str, priority: int) -> bool:
        return self.taskset.tasks[self.indices[name]].priority > priority
