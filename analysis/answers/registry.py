# SPDX-License-Identifier: GPL-2.0
"""The registry of schedulability tests: one row a test, and nothing about a test is stated anywhere else.

``analysis.rta.test.Test`` says what each field means; docs/adding-an-analysis.md says how to add a row.  The order of
the rows is the order in which commands list the tests.  Tests of a GPU that tasks share are in ``TESTS``; commands that
compare or attack all tests take those.  Tests of tasks that own units of the GPU are in ``UNITS`` and run by name.
"""

from __future__ import annotations

from collections.abc import Callable

from analysis.model import Sharing, Task, Taskset, Waiting
from analysis.rta import (
    boosted,
    ecrts24_printed,
    fmlp,
    forkjoin,
    gcaps,
    lock,
    locks_published,
    mpcp,
    partitioned,
    thesis,
    thesis_printed,
    tsg_rr,
)
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import Result
from analysis.rta.system import System
from analysis.rta.test import Test
from analysis.slices import bounds as supply
from gpurt.enums import Form
from gpurt.text import near

BUSY, SUSPEND = Waiting.BUSY, Waiting.SUSPEND

# Where several tests are unsound for the same reason.
_OWNED = "charges a remote task only G^e + 2 epsilon, but it owns the GPU from begin to end, on its CPU too"
_INDIRECT = _OWNED + "; loses a same-core task's busy waiting where the task itself is CPU-only"
_SWITCH = "leaves out the context switch back to the task after each round"
_OVERLAPS = "subtracts overlaps that need not happen, from lemmas that do not hold"
_NO_SWITCH = "leaves out context switches"

GCAPS = (
    Test(
        "gcaps-suspend", "GCAPS, self-suspension", "ECRTS'24 lemmas 8, 9, 13-15", "segment", SUSPEND,
        gcaps.suspend, compiled="gcaps-suspend", assignable=True, threads=True, pending=True, latency=True,
        paths=forkjoin.segment, processes=True, sound=True,
    ),
    Test(
        "gcaps-suspend-printed", "GCAPS, self-suspension, as printed", "ECRTS'24 lemmas 8, 9, 13-15",
        "segment", SUSPEND,
        ecrts24_printed.gcaps_suspend, compiled="gcaps-suspend-printed", sound=False, note=_OWNED,
    ),
    Test(
        "gcaps-busy", "GCAPS, busy waiting", "ECRTS'24 lemmas 8-12", "segment", BUSY,
        gcaps.busy, compiled="gcaps-busy", assignable=True, pending=True, latency=True, sound=True,
    ),
    Test(
        "gcaps-busy-printed", "GCAPS, busy waiting, as printed", "ECRTS'24 lemmas 8-12", "segment", BUSY,
        ecrts24_printed.gcaps_busy, compiled="gcaps-busy-printed", sound=False, note=_INDIRECT,
    ),
    Test(
        "gcaps-mixed", "GCAPS, each task in its own waiting mode", "readings: GCAPS, each task in its own mode",
        "segment", None, gcaps.mixed, assignable=True, sound=True,
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
        tsg_rr.suspend, compiled="tsg-rr-suspend", sound=True,
    ),
    Test(
        "tsg-rr-suspend-printed", "default driver, self-suspension, as printed", "ECRTS'24 lemmas 1-3, 6, 7",
        "timesliced", SUSPEND,
        ecrts24_printed.tsg_rr_suspend, compiled="tsg-rr-suspend-printed", sound=False, note=_SWITCH,
    ),
    Test(
        "tsg-rr-busy", "default driver, busy waiting", "ECRTS'24 lemmas 1-5", "timesliced", BUSY,
        tsg_rr.busy, compiled="tsg-rr-busy", sound=True,
    ),
    Test(
        "tsg-rr-busy-printed", "default driver, busy waiting, as printed", "ECRTS'24 lemmas 1-5", "timesliced", BUSY,
        ecrts24_printed.tsg_rr_busy, compiled="tsg-rr-busy-printed", sound=False, note=_SWITCH,
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

# Tasks of several partitions, each with an owner and an update lock of its own, on CPUs that they share.
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

# The published lock protocols, which boost the holder; no host ships their policies.
BOOSTED_LOCKS = (
    Test(
        "mpcp-suspend", "MPCP, boosted, self-suspension", "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", SUSPEND,
        mpcp.suspend, compiled="mpcp-suspend", free=True, sound=True,
    ),
    Test(
        "mpcp-suspend-published", "MPCP, boosted, self-suspension, as evaluated with GCAPS",
        "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", SUSPEND, locks_published.mpcp(SUSPEND),
        compiled="mpcp-suspend-published", sound=False, note=_NO_SWITCH, free=True,
    ),
    Test(
        "fmlp-suspend", "FMLP+, boosted, self-suspension", "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", SUSPEND,
        fmlp.suspend, compiled="fmlp-suspend", free=True, sound=True,
    ),
    Test(
        "fmlp-suspend-published", "FMLP+, boosted, self-suspension, as evaluated with GCAPS",
        "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", SUSPEND, locks_published.fmlp(SUSPEND),
        compiled="fmlp-suspend-published", sound=False, free=True,
        note="leaves out context switches, and G^e of local higher tasks ahead in the queue",
    ),
    Test(
        "mpcp-busy", "MPCP, boosted, busy waiting", "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", BUSY,
        mpcp.busy, compiled="mpcp-busy", free=True, sound=True,
    ),
    Test(
        "mpcp-busy-published", "MPCP, boosted, busy waiting, as evaluated with GCAPS",
        "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", BUSY, locks_published.mpcp(BUSY),
        compiled="mpcp-busy-published", sound=False, free=True,
        note="leaves out context switches, and G^e of lower tasks that spin above every priority of the CPU",
    ),
    Test(
        "fmlp-busy", "FMLP+, boosted, busy waiting", "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", BUSY,
        fmlp.busy, compiled="fmlp-busy", free=True, sound=True,
    ),
    Test(
        "fmlp-busy-published", "FMLP+, boosted, busy waiting, as evaluated with GCAPS",
        "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", BUSY, locks_published.fmlp(BUSY),
        compiled="fmlp-busy-published", sound=False, note=_NO_SWITCH, free=True,
    ),
)  # fmt: skip

KERNEL_THREAD = (
    Test(
        "thesis-kthread-busy", "kernel thread that looks every ms, busy waiting", "thesis lemmas 12, 13", "job", BUSY,
        thesis.kernel_thread(thesis.POLL), compiled="thesis-kthread-busy", poll=thesis.POLL, assignable=True,
        sound=True,
    ),
    Test(
        "thesis-kthread-busy-printed", "kernel thread that looks every ms, busy waiting, as printed",
        "thesis lemmas 12, 13", "job", BUSY,
        thesis_printed.kernel_thread, compiled="thesis-kthread-busy-printed", poll=thesis.POLL, sound=False,
        note="leaves out the time until the thread looks, its execution for lower tasks, tasks above a remote owner on "
        "its CPU, and what a same-core task that spins waits for",
    ),
    Test(
        "thesis-kthread-notify-busy", "kernel thread that is notified, busy waiting", "thesis lemmas 12, 13",
        "job", BUSY,
        thesis.kernel_thread(0), compiled="thesis-kthread-busy", assignable=True, sound=True,
    ),
)  # fmt: skip

IOCTL = (
    Test(
        "thesis-ioctl-suspend", "ioctl approach, self-suspension", "thesis lemmas 14, 15, as in gcaps-suspend",
        "segment", SUSPEND, gcaps.suspend, compiled="gcaps-suspend", assignable=True, threads=True, sound=True,
    ),
    Test(
        "thesis-ioctl-suspend-printed", "ioctl approach, self-suspension, as printed",
        "thesis lemmas 14, 15, as in gcaps-suspend", "segment", SUSPEND, thesis_printed.ioctl_suspend,
        compiled="thesis-ioctl-suspend-printed", sound=False,
        note="charges one update a segment, not two; " + _OWNED,
    ),
    Test(
        "thesis-ioctl-busy", "ioctl approach, busy waiting", "thesis lemmas 14, 16, as in gcaps-busy",
        "segment", BUSY, gcaps.busy, compiled="gcaps-busy", assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-busy-printed", "ioctl approach, busy waiting, as printed",
        "thesis lemmas 14, 16, as in gcaps-busy", "segment", BUSY, thesis_printed.ioctl_busy,
        compiled="thesis-ioctl-busy-printed", sound=False,
        note="charges one update a segment, not two; " + _INDIRECT,
    ),
    Test(
        "thesis-ioctl-suspend-reduced", "ioctl approach, self-suspension, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 20", "segment", SUSPEND, thesis.reduced_suspend, reduces="thesis-ioctl-suspend",
        periodic=True, assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-suspend-reduced-printed",
        "ioctl approach, self-suspension, overlaps off, strictly periodic releases, as printed",
        "thesis lemmas 19, 20", "segment", SUSPEND, thesis_printed.reduced_suspend, sound=False, note=_OVERLAPS,
    ),
    Test(
        "thesis-ioctl-busy-reduced", "ioctl approach, busy waiting, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 21", "segment", BUSY, thesis.reduced_busy, reduces="thesis-ioctl-busy",
        periodic=True, assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-busy-reduced-printed",
        "ioctl approach, busy waiting, overlaps off, strictly periodic releases, as printed",
        "thesis lemmas 19, 21", "segment", BUSY, thesis_printed.reduced_busy, sound=False, note=_OVERLAPS,
    ),
)  # fmt: skip

def _no_demands(task: Task, system: System) -> list[Demand | Shared]:
    """The demands of a test that has none, but an ``analysis``."""
    raise TypeError("this test has no sum of demands")


def _units(name: str) -> Callable[[Taskset], Result]:
    """A test of tasks that own units.  Its module needs this package, and is imported when the test first runs."""

    def analysis(taskset: Taskset) -> Result:
        from analysis.rtgpu.verdict import run

        return run(name, taskset)

    return analysis


# Each task owns SMs or CUs, and copies share one bus.  No host ships the policy, and analysis/attack/units.py attacks
# them, since the simulator of policies that share the GPU in time knows neither.
FEDERATED = (
    Test(
        "rtgpu-printed", "own units of the GPU, as printed", "RTGPU lemmas 5.1 to 5.6", "federated", SUSPEND,
        _no_demands, analysis=_units("rtgpu-printed"), sound=True,
    ),
    Test(
        "rtgpu", "own units of the GPU, whole jobs on the bus", "RTGPU; readings: RTGPU, holistic bounds", "federated",
        SUSPEND, _no_demands, analysis=_units("rtgpu"), sound=True,
    ),
    Test(
        "rtgpu-tight", "own units of the GPU, responses in the place of deadlines", "readings: RTGPU, tight",
        "federated", SUSPEND, _no_demands, analysis=_units("rtgpu-tight"), sound=True,
    ),
    Test(
        "stgm", "own units of the GPU, busy waiting", "readings: STGM", "federated", BUSY, _no_demands,
        analysis=_units("stgm"), sound=True,
    ),
    Test(
        "stgm-published", "own units of the GPU, busy waiting, as probably evaluated", "readings: STGM", "federated",
        BUSY, _no_demands, analysis=_units("stgm-published"), sound=True,
    ),
    Test(
        "self-suspension", "own units of the GPU, one chain of copies and kernels at a time", "RTGPU lemmas 2.1 to 2.3",
        "federated", SUSPEND, _no_demands, analysis=_units("self-suspension"), sound=True,
    ),
    Test(
        "rtgpu-expected", "own units of the GPU, as evaluated", "RTGPU section 6", "federated", SUSPEND, _no_demands,
        analysis=_units("rtgpu-expected"), sound=False,
        note="takes every segment to last as long as its worst case; a shorter one can delay a lower task more",
    ),
)  # fmt: skip

#: All rows of tests for a GPU that tasks share.
ROWS = (*GCAPS, *BOOSTED, *ROUND_ROBIN, *TIME_PARTITIONS, *PARTITIONS, *LOCKS, *BOOSTED_LOCKS, *KERNEL_THREAD, *IOCTL)


def _tests() -> dict[str, Test]:
    """Every row by name, each that is assignable followed by its ``+gpu-priority`` form."""
    tests: dict[str, Test] = {}
    for row in ROWS:
        for test in (row, row.with_assignment()) if row.assignable else (row,):
            if test.name in tests:
                raise ValueError(f"two rows are called {test.name!r}")
            tests[test.name] = test
    return tests


#: Every test for a GPU that tasks share, by name.
TESTS = _tests()
#: Every test for tasks that own units of the GPU, by name.
UNITS = {row.name: row for row in FEDERATED}


def find(name: str) -> Test:
    """The test of that name.  Raises ValueError that names the nearest ones."""
    every = {**TESTS, **UNITS}
    try:
        return every[name]
    except KeyError:
        meant = near(name, every, 3)
        hint = f"did you mean {', '.join(meant)}?" if meant else f"there are {', '.join(sorted(every))}"
        raise ValueError(f"no test is called {name!r}; {hint}") from None
