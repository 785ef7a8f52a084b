# SPDX-License-Identifier: GPL-2.0
"""The registry of schedulability tests: every analysis by name, with its source and whether it is sound."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from analysis.model import Taskset, Waiting
from analysis.rta import fmlp, gcaps, lock, mpcp, printed, published, thesis, thesis_printed, tsg_rr
from analysis.rta.audsley import Assignment, assign
from analysis.rta.result import BestEffort, Bound, Failure, Kind, Reason, Result, Term, Verdict
from analysis.rta.system import Demands, analyse, gpu_disorder, gpu_equals

__all__ = [
    "TESTS",
    "Assignment",
    "BestEffort",
    "Bound",
    "Failure",
    "Kind",
    "Reason",
    "Result",
    "Term",
    "Test",
    "Verdict",
    "find",
]

SUFFIX = "+gpu-priority"


@dataclass(frozen=True)
class Test:
    """A named schedulability test.  ``sound`` is what proof and attack say today; ``note`` says why not.

    ``policy``, ``waiting`` (None: each task in its own mode) and ``poll`` (of policy `job`, ns) are what the bound
    speaks of and the simulator runs.
    ``periodic``: it holds for strictly periodic releases only, not for sporadic ones.
    """

    name: str
    title: str
    source: str
    policy: str
    waiting: Waiting | None
    demands: Demands
    sound: bool = True
    note: str = ""
    assigns: bool = False
    poll: int = 0
    periodic: bool = False

    def run(self, taskset: Taskset) -> Result:
        """Verdicts of every task.

        A ``+gpu-priority`` test keeps the file's priorities where they pass and assigns others where not.
        """
        result = self._ordered(taskset) or analyse(self.name, self.demands, taskset)
        if self.assigns and not result.schedulable:
            try:
                assignment = self.assign(taskset)
            except ValueError:  # more users of the GPU than priorities: nothing can be assigned
                return result
            if assignment.priorities is not None:
                changed = taskset.with_gpu_priorities(assignment.priorities)
                ordered = self._ordered(changed)
                result = ordered or analyse(self.name, self.demands, changed, assume_deadlines=True)
        return result

    def _ordered(self, taskset: Taskset) -> Result | None:
        """Failures all over where GPU priorities contradict CPU priorities: tasks can then deadlock."""
        disorder = gpu_disorder(taskset) if self.policy != "timesliced" else None
        if self.policy == "job" or (self.policy == "segment" and self._spins(taskset)):
            disorder = disorder or gpu_equals(taskset, wherever=self.policy == "job" or self.waiting is None)
        if disorder is None:
            return None
        return Result(
            self.name,
            {
                t.name: BestEffort(t.name)
                if t.best_effort
                else Failure(t.name, Reason.GPU_ORDER, t.deadline, culprit=disorder)
                for t in taskset
            },
        )

    def _spins(self, taskset: Taskset) -> bool:
        """Whether any task waits busily."""
        return any((self.waiting or t.waiting) is Waiting.BUSY for t in taskset if t.uses_gpu)

    def assign(self, taskset: Taskset) -> Assignment:
        """GPU priorities by Audsley's method (ECRTS'24, sections 5.3 and 6.4) under this test."""
        return assign(self.demands, self.waiting, taskset)


def _with_priorities(test: Test) -> list[Test]:
    """The test, and the one that also assigns GPU priorities."""
    titled = f"{test.title}, GPU priorities assigned"
    return [test, replace(test, name=test.name + SUFFIX, title=titled, assigns=True)]


def _literal(test: Test, demands: Demands, note: str, suffix: str = "printed", title: str = "as printed") -> Test:
    """The same test as its source has it."""
    name, titled = f"{test.name}-{suffix}", f"{test.title}, {title}"
    return replace(test, name=name, title=titled, demands=demands, sound=False, note=note, periodic=False)


_OWNED = "charges a remote task only G^e + 2 epsilon, but it owns the GPU from begin to end, on its CPU too"
_INDIRECT = _OWNED + "; loses a same-core task's busy waiting where the task itself is CPU-only"
_SWITCH = "leaves out the context switch back to the task after each round"
_ONE_UPDATE = "charges one update a segment, not two; " + _OWNED
_ONE_UPDATE_BUSY = "charges one update a segment, not two; " + _INDIRECT
_THREAD = (
    "leaves out the time until the thread looks, its execution for lower tasks, tasks above a remote owner on its "
    "CPU, and what a same-core task that spins waits for"
)
_OVERLAPS = "subtracts overlaps that need not happen, from lemmas that do not hold"
_NO_SWITCH = "leaves out context switches"
_BOOSTED_SPIN = "leaves out context switches, and G^e of lower tasks that spin above every priority of the CPU"
_LOCAL_QUEUE = "leaves out context switches, and G^e of local higher tasks ahead in the queue"


def _gcaps() -> list[Test]:
    suspend = Test(
        "gcaps-suspend", "GCAPS, self-suspension", "ECRTS'24 lemmas 8, 9, 13-15",
        "segment", Waiting.SUSPEND, gcaps.suspend,
    )  # fmt: skip
    busy = Test(
        "gcaps-busy", "GCAPS, busy waiting", "ECRTS'24 lemmas 8-12",
        "segment", Waiting.BUSY, gcaps.busy,
    )  # fmt: skip
    mixed = Test(
        "gcaps-mixed", "GCAPS, each task in its own waiting mode", "readings: GCAPS, each task in its own mode",
        "segment", None, gcaps.mixed,
    )  # fmt: skip
    return [
        *_with_priorities(suspend), _literal(suspend, printed.gcaps_suspend, _OWNED),
        *_with_priorities(busy), _literal(busy, printed.gcaps_busy, _INDIRECT),
        *_with_priorities(mixed),
    ]  # fmt: skip


def _round_robin() -> list[Test]:
    suspend = Test(
        "tsg-rr-suspend", "default driver, self-suspension", "ECRTS'24 lemmas 1-3, 6, 7",
        "timesliced", Waiting.SUSPEND, tsg_rr.suspend,
    )  # fmt: skip
    busy = Test(
        "tsg-rr-busy", "default driver, busy waiting", "ECRTS'24 lemmas 1-5",
        "timesliced", Waiting.BUSY, tsg_rr.busy,
    )  # fmt: skip
    return [
        suspend, _literal(suspend, printed.tsg_rr_suspend, _SWITCH),
        busy, _literal(busy, printed.tsg_rr_busy, _SWITCH),
    ]  # fmt: skip


def _locks() -> list[Test]:
    """Without boosting, as policies lock-priority and lock-fifo ship; then the published protocols, which boost."""
    source = "readings: locks without boosting"
    tests = [
        Test("lock-priority-suspend", "priority-ordered lock, self-suspension", source,
             "lock-priority", Waiting.SUSPEND, lock.priority_suspend),
        Test("lock-priority-busy", "priority-ordered lock, busy waiting", source,
             "lock-priority", Waiting.BUSY, lock.priority_busy),
        Test("lock-fifo-suspend", "first-come lock, self-suspension", source,
             "lock-fifo", Waiting.SUSPEND, lock.fifo_suspend),
        Test("lock-fifo-busy", "first-come lock, busy waiting", source,
             "lock-fifo", Waiting.BUSY, lock.fifo_busy),
    ]  # fmt: skip
    for waiting, mode in ((Waiting.SUSPEND, "self-suspension"), (Waiting.BUSY, "busy waiting")):
        suspends = waiting is Waiting.SUSPEND
        mpcp_test = Test(
            f"mpcp-{waiting.value}", f"MPCP, boosted, {mode}", "Patel et al., RTAS'18 (readings: MPCP)",
            "mpcp", waiting, mpcp.suspend if suspends else mpcp.busy,
        )  # fmt: skip
        fmlp_test = Test(
            f"fmlp-{waiting.value}", f"FMLP+, boosted, {mode}", "Brandenburg, ECRTS'14 (readings: FMLP+)",
            "fmlp", waiting, fmlp.suspend if suspends else fmlp.busy,
        )  # fmt: skip
        charged = ("published", "as evaluated with GCAPS")
        spin, queue = (_NO_SWITCH, _LOCAL_QUEUE) if suspends else (_BOOSTED_SPIN, _NO_SWITCH)
        tests += [
            mpcp_test, _literal(mpcp_test, published.mpcp(waiting), spin, *charged),
            fmlp_test, _literal(fmlp_test, published.fmlp(waiting), queue, *charged),
        ]  # fmt: skip
    return tests


def _thesis() -> list[Test]:
    thread = Test(
        "thesis-kthread-busy", "kernel thread that looks every ms, busy waiting", "thesis lemmas 12, 13",
        "job", Waiting.BUSY, thesis.kernel_thread(thesis.POLL), poll=thesis.POLL,
    )  # fmt: skip
    notified = replace(
        thread, name="thesis-kthread-notify-busy", title="kernel thread that is notified, busy waiting",
        demands=thesis.kernel_thread(0), poll=0,
    )  # fmt: skip
    suspend = Test(
        "thesis-ioctl-suspend", "ioctl approach, self-suspension", "thesis lemmas 14, 15, as in gcaps-suspend",
        "segment", Waiting.SUSPEND, gcaps.suspend,
    )  # fmt: skip
    busy = Test(
        "thesis-ioctl-busy", "ioctl approach, busy waiting", "thesis lemmas 14, 16, as in gcaps-busy",
        "segment", Waiting.BUSY, gcaps.busy,
    )  # fmt: skip
    less_suspend = Test(
        "thesis-ioctl-suspend-reduced", "ioctl approach, self-suspension, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 20", "segment", Waiting.SUSPEND, thesis.reduced_suspend, periodic=True,
    )  # fmt: skip
    less_busy = Test(
        "thesis-ioctl-busy-reduced", "ioctl approach, busy waiting, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 21", "segment", Waiting.BUSY, thesis.reduced_busy, periodic=True,
    )  # fmt: skip
    return [
        *_with_priorities(thread), _literal(thread, thesis_printed.kernel_thread, _THREAD),
        *_with_priorities(notified),
        *_with_priorities(suspend), _literal(suspend, thesis_printed.ioctl_suspend, _ONE_UPDATE),
        *_with_priorities(busy), _literal(busy, thesis_printed.ioctl_busy, _ONE_UPDATE_BUSY),
        *_with_priorities(less_suspend), _literal(less_suspend, thesis_printed.reduced_suspend, _OVERLAPS),
        *_with_priorities(less_busy), _literal(less_busy, thesis_printed.reduced_busy, _OVERLAPS),
    ]  # fmt: skip


TESTS: dict[str, Test] = {test.name: test for test in [*_gcaps(), *_round_robin(), *_locks(), *_thesis()]}


def find(name: str) -> Test:
    """The test of that name.  Raises ValueError that names the nearest ones."""
    try:
        return TESTS[name]
    except KeyError:
        near = difflib.get_close_matches(name, TESTS, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(sorted(TESTS))}"
        raise ValueError(f"no test is called {name!r}; {hint}") from None
