# SPDX-License-Identifier: GPL-2.0
"""The registry of schedulability tests: every analysis by name, with its source and whether it is sound."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from analysis.model import Taskset, Waiting
from analysis.rta import gcaps, printed, tsg_rr
from analysis.rta.audsley import Assignment, assign
from analysis.rta.result import BestEffort, Bound, Failure, Kind, Reason, Result, Term
from analysis.rta.system import Demands, analyse, gpu_disorder

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
    "find",
]

SUFFIX = "+gpu-priority"


@dataclass(frozen=True)
class Test:
    """A named schedulability test.  ``sound`` is what proof and attack say today; ``note`` says why not."""

    name: str
    title: str
    source: str
    policy: str
    waiting: Waiting
    demands: Demands
    sound: bool = True
    note: str = ""
    assigns: bool = False

    def run(self, taskset: Taskset) -> Result:
        """Verdicts of every task.

        A ``+gpu-priority`` test keeps the file's priorities where they pass and assigns others where not.
        """
        result = self._ordered(taskset) or analyse(self.name, self.demands, taskset)
        if self.assigns and not result.schedulable:
            assignment = self.assign(taskset)
            if assignment.priorities is not None:
                changed = taskset.with_gpu_priorities(assignment.priorities)
                result = analyse(self.name, self.demands, changed, assume_deadlines=True)
        return result

    def _ordered(self, taskset: Taskset) -> Result | None:
        """Failures all over where GPU priorities contradict CPU priorities: tasks can then deadlock."""
        disorder = gpu_disorder(taskset) if self.policy == "segment" else None
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

    def assign(self, taskset: Taskset) -> Assignment:
        """GPU priorities by Audsley's method (ECRTS'24, sections 5.3 and 6.4) under this test."""
        return assign(self.demands, self.waiting, taskset)


def _family(
    name: str, title: str, source: str, policy: str, waiting: Waiting, demands: Demands, literal: Demands, note: str
) -> list[Test]:
    tests = [Test(name, title, source, policy, waiting, demands)]
    if policy == "segment":
        titled = f"{title}, GPU priorities assigned"
        tests.append(Test(name + SUFFIX, titled, source, policy, waiting, demands, assigns=True))
    tests.append(Test(f"{name}-printed", f"{title}, as printed", source, policy, waiting, literal, False, note))
    return tests


_OWNED = "charges a remote task only G^e + 2 epsilon, but it owns the GPU from begin to end, on its CPU too"
_INDIRECT = _OWNED + "; loses a same-core task's busy waiting where the task itself is CPU-only"
_SWITCH = "leaves out the context switch back to the task after each round"

TESTS: dict[str, Test] = {
    test.name: test
    for test in [
        *_family(
            "gcaps-suspend", "GCAPS, self-suspension", "ECRTS'24 lemmas 8, 9, 13-15", "segment",
            Waiting.SUSPEND, gcaps.suspend, printed.gcaps_suspend, _OWNED,
        ),
        *_family(
            "gcaps-busy", "GCAPS, busy waiting", "ECRTS'24 lemmas 8-12", "segment",
            Waiting.BUSY, gcaps.busy, printed.gcaps_busy, _INDIRECT,
        ),
        *_family(
            "tsg-rr-suspend", "default driver, self-suspension", "ECRTS'24 lemmas 1-3, 6, 7", "timesliced",
            Waiting.SUSPEND, tsg_rr.suspend, printed.tsg_rr_suspend, _SWITCH,
        ),
        *_family(
            "tsg-rr-busy", "default driver, busy waiting", "ECRTS'24 lemmas 1-5", "timesliced",
            Waiting.BUSY, tsg_rr.busy, printed.tsg_rr_busy, _SWITCH,
        ),
    ]
}  # fmt: skip


def find(name: str) -> Test:
    """The test of that name.  Raises ValueError that names the nearest ones."""
    try:
        return TESTS[name]
    except KeyError:
        near = difflib.get_close_matches(name, TESTS, n=3) or sorted(TESTS)
        raise ValueError(f"no test is called {name!r}; did you mean {', '.join(near)}?") from None
