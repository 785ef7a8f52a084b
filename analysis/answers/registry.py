# SPDX-License-Identifier: GPL-2.0
"""The registry of the tests that answers rest on: one row each, and no other place states facts about a test.

``analysis.rta.test.Test`` says what each field means; docs/adding-an-analysis.md says how to add a row.  The order of
the rows is the order in which commands list the tests.  ``TESTS`` has the tests of a GPU that tasks share; commands
that compare or attack all tests use these.  ``UNITS`` has the tests of tasks that own units of the GPU, which run by
name.  Tests that only repeat a paper, or are compared with one, are in ``analysis.papers.registry``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from runpy import run_path

from analysis.model import Sharing, Task, Waiting
from analysis.rta import boosted, forkjoin, gcaps, kernel_thread, lock, partitioned, tsg_rr
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.system import System
from analysis.rta.test import Test
from analysis.rtgpu.method import RTGPU, RTGPU_TIGHT, STGM
from analysis.rtgpu.verdict import UnitsTest
from analysis.slices import bounds as supply
from gpurt.enums import Form, Policy
from gpurt.text import near

BUSY, SUSPEND = Waiting.BUSY, Waiting.SUSPEND

GCAPS = (
    Test(
        "gcaps-suspend", "GCAPS, self-suspension", "ECRTS'24 lemmas 8, 9, 13-15", "segment", SUSPEND,
        gcaps.suspend, compiled="gcaps-suspend", assignable=True, threads=True, pending=True, latency=True,
        paths=forkjoin.segment, processes=True, yields=True, sound=True,
    ),
    Test(
        "gcaps-busy", "GCAPS, busy waiting", "ECRTS'24 lemmas 8-12", "segment", BUSY,
        gcaps.busy, compiled="gcaps-busy", assignable=True, pending=True, latency=True, yields=True, sound=True,
    ),
    Test(
        "gcaps-mixed", "GCAPS, each task in its own waiting mode", "readings: GCAPS, each task in its own mode",
        "segment", None, gcaps.mixed, assignable=True, yields=True, sound=True,
    ),
)  # fmt: skip

BOOSTED = (
    Test(
        "boosted-suspend", "boosted owners, self-suspension", "readings: boosted, owners inside segments", "boosted",
        SUSPEND, boosted.SUSPEND.demands, ends=boosted.SUSPEND.ends, instead=boosted.SUSPEND.short,
        compiled="boosted-suspend", forms=(Form.SELF, Form.OWNER), any_order=True, assignable=True, threads=True,
        pending=True, latency=True, resources=True, paths=forkjoin.boosted, sound=True,
    ),
    Test(
        "boosted-busy", "boosted owners, busy waiting", "readings: boosted", "boosted", BUSY,
        boosted.BUSY.demands, ends=boosted.BUSY.ends, compiled="boosted-busy", forms=(Form.OWNER,), assignable=True,
        sound=True,
    ),
    Test(
        "boosted-busy-fence", "boosted owners, busy waiting, not raised during their own G^e", "readings: boosted",
        "boosted", BUSY, boosted.FENCE.demands, ends=boosted.FENCE.ends, compiled="boosted-busy-fence",
        forms=(Form.FENCE,), assignable=True, sound=True,
    ),
    Test(
        "boosted-mixed", "boosted owners, each task in its own waiting mode", "readings: boosted", "boosted", None,
        boosted.MIXED.demands, ends=boosted.MIXED.ends, compiled="boosted-mixed", forms=(None, Form.OWNER),
        assignable=True, sound=True,
    ),
)  # fmt: skip

ROUND_ROBIN = (
    Test(
        "tsg-rr-suspend", "default driver, self-suspension", "ECRTS'24 lemmas 1-3, 6, 7", "timesliced", SUSPEND,
        tsg_rr.suspend, sound=True,
    ),
    Test(
        "tsg-rr-busy", "default driver, busy waiting", "ECRTS'24 lemmas 1-5", "timesliced", BUSY,
        tsg_rr.busy, sound=True,
    ),
)  # fmt: skip

TIME_PARTITIONS = (
    Test(
        "supply-fp", "slices and levels, TSGs shared by priority, self-suspension", "readings: time partitions",
        "timesliced", SUSPEND, supply.demands(Sharing.PRIORITY), sharing=Sharing.PRIORITY, sound=True,
    ),
    Test(
        "supply-edf", "slices and levels, TSGs shared by deadline, self-suspension", "readings: time partitions",
        "timesliced", SUSPEND, supply.demands(Sharing.DEADLINE), sharing=Sharing.DEADLINE, sound=True,
    ),
    Test(
        "supply-fp-busy", "slices and levels, TSGs shared by priority, busy waiting", "readings: time partitions",
        "timesliced", BUSY, supply.demands(Sharing.PRIORITY, waiting=BUSY), sharing=Sharing.PRIORITY, sound=True,
    ),
    Test(
        "supply-fp-mixed", "slices and levels, TSGs shared by priority, each task in its own waiting mode",
        "readings: time partitions", "timesliced", None, supply.demands(Sharing.PRIORITY, waiting=None),
        sharing=Sharing.PRIORITY, sound=True,
    ),
)  # fmt: skip

# Tasks of several partitions that share CPUs; each partition has an owner and an update lock of its own.
PARTITIONS = (
    Test(
        "partitioned-suspend", "GCAPS in each partition, shared CPUs, self-suspension",
        "readings: GCAPS inside partitions", "segment", SUSPEND, partitioned.suspend, partitions=True, sound=True,
    ),
    Test(
        "partitioned-busy", "GCAPS in each partition, shared CPUs, busy waiting", "readings: GCAPS inside partitions",
        "segment", BUSY, partitioned.busy, partitions=True, sound=True,
    ),
)  # fmt: skip

# Without boosting, as policies lock-priority and lock-fifo ship.
LOCKS = (
    Test(
        "lock-priority-suspend", "priority-ordered lock, self-suspension", "readings: locks without boosting",
        "lock-priority", SUSPEND, lock.priority_suspend, sound=True,
    ),
    Test(
        "lock-priority-busy", "priority-ordered lock, busy waiting", "readings: locks without boosting",
        "lock-priority", BUSY, lock.priority_busy, sound=True,
    ),
    Test(
        "lock-fifo-suspend", "first-come lock, self-suspension", "readings: locks without boosting",
        "lock-fifo", SUSPEND, lock.fifo_suspend, sound=True,
    ),
    Test(
        "lock-fifo-busy", "first-come lock, busy waiting", "readings: locks without boosting",
        "lock-fifo", BUSY, lock.fifo_busy, sound=True,
    ),
)  # fmt: skip

KERNEL_THREAD = (
    Test(
        "thesis-kthread-busy", "kernel thread that looks every ms, busy waiting", "thesis lemmas 12, 13", "job", BUSY,
        kernel_thread.busy, poll=kernel_thread.POLL, assignable=True, sound=True,
    ),
)  # fmt: skip


def no_demands(task: Task, system: System) -> list[Demand | Shared]:
    """The demands of a test that has an ``analysis`` instead of demands."""
    raise TypeError("this test has no sum of demands")


# Each task owns SMs or CUs, and copies share one bus.  No host ships the policy.  tests/attacks/own_units.py attacks
# these tests, since the simulator of policies that share the GPU in time models neither units nor the bus.
FEDERATED_ROWS = (
    Test(
        "rtgpu", "own units of the GPU, whole jobs on the bus", "RTGPU; readings: RTGPU, holistic bounds", "federated",
        SUSPEND, no_demands, analysis=UnitsTest(RTGPU), sound=True,
    ),
    Test(
        "rtgpu-tight", "own units of the GPU, responses in the place of deadlines", "readings: RTGPU, tight",
        "federated", SUSPEND, no_demands, analysis=UnitsTest(RTGPU_TIGHT), sound=True,
    ),
    Test(
        "stgm", "own units of the GPU, busy waiting", "readings: STGM", "federated", BUSY, no_demands,
        analysis=UnitsTest(STGM), sound=True,
    ),
)  # fmt: skip

#: All rows of tests for a GPU that tasks share.
ROWS = (*GCAPS, *BOOSTED, *ROUND_ROBIN, *TIME_PARTITIONS, *PARTITIONS, *LOCKS, *KERNEL_THREAD)


def by_name(rows: Iterable[Test]) -> dict[str, Test]:
    """Every row by name; after each assignable row comes its ``+gpu-priority`` form."""
    tests: dict[str, Test] = {}
    for row in rows:
        for test in (row, row.with_assignment()) if row.assignable else (row,):
            if test.name in tests:
                raise ValueError(f"two rows are called {test.name!r}")
            tests[test.name] = test
    return tests


#: Every test for a GPU that tasks share, by name.
TESTS = by_name(ROWS)
#: Every test for tasks that own units of the GPU, by name.
UNITS = by_name(FEDERATED_ROWS)


_run = cache(run_path)


@dataclass(frozen=True)
class OwnFormula:
    """A formula in a user's file, which worker processes load again."""

    path: str
    function: str

    def __call__(self, task: Task, system: System) -> Sequence[Demand | Shared]:
        """The demands that the user's function returns."""
        demands: Sequence[Demand | Shared] = _run(self.path)[self.function](task, system)
        return demands


@cache
def _own(name: str) -> Test:
    """A user's own test: FILE.py:FUNCTION.  It is a draft, so no answer rests on it.  Raises ValueError."""
    path, _, function = name.rpartition(":")
    try:
        found = _run(path)
        known, policy, waiting = found[function], found["POLICY"], found["WAITING"]
        mode = None if waiting is None else Waiting(waiting)
    except KeyError as error:
        raise ValueError(f"{path} has no {error.args[0]}; a formula's file also says POLICY and WAITING") from None
    except Exception as error:  # the user's code can raise anything
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from None
    if policy not in Policy.words() or not callable(known):
        raise ValueError(f"{path}: POLICY is one of {', '.join(Policy.words())}, and {function} is to be a function")
    return Test(name, "a formula of the user's own", path, policy, mode, OwnFormula(path, function), sound=True)


def find_test(name: str, among: Mapping[str, Test] | None = None) -> Test:
    """The test of that name in ``among``, by default in this registry; or FILE.py:FUNCTION, a user's formula.

    Raises ValueError, which names the most similar names.
    """
    if ".py:" in name:
        return _own(name)
    every = {**TESTS, **UNITS} if among is None else among
    try:
        return every[name]
    except KeyError:
        meant = near(name, every, 3)
        hint = f"did you mean {', '.join(meant)}?" if meant else f"there are {', '.join(sorted(every))}"
        raise ValueError(f"no test is called {name!r}; {hint}") from None
