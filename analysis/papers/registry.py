# SPDX-License-Identifier: GPL-2.0
"""The registry of all tests: those that answers rest on, and those that repeat a paper or are compared with one.

No answer rests on the latter tests.  `gpurt experiment` bounds, attacks and draws them.
"""

from __future__ import annotations

from functools import partial

from analysis.answers import registry
from analysis.answers.registry import BUSY, SUSPEND, by_name, no_demands
from analysis.papers import ecrts24_printed, fmlp, locks_published, mpcp, thesis, thesis_printed
from analysis.rta import gcaps
from analysis.rta.kernel_thread import POLL
from analysis.rta.test import Test
from analysis.rtgpu.bounds import PRINTED
from analysis.rtgpu.method import Method
from analysis.rtgpu.verdict import UnitsTest

# The reason that several unsound tests share.
_OWNED = "charges a remote task only G^e + 2 epsilon, but it owns the GPU from begin to end, on its CPU too"
_INDIRECT = _OWNED + "; loses a same-core task's busy waiting where the task itself is CPU-only"
_SWITCH = "leaves out the context switch back to the task after each round"
_OVERLAPS = "subtracts overlaps that need not happen, from lemmas that do not hold"
_NO_SWITCH = "leaves out context switches"

# The lemmas of GCAPS and of the default driver to the letter.
AS_PRINTED = (
    Test(
        "gcaps-suspend-printed", "GCAPS, self-suspension, as printed", "ECRTS'24 lemmas 8, 9, 13-15",
        "segment", SUSPEND,
        ecrts24_printed.gcaps_suspend, sound=False, note=_OWNED,
    ),
    Test(
        "gcaps-busy-printed", "GCAPS, busy waiting, as printed", "ECRTS'24 lemmas 8-12", "segment", BUSY,
        ecrts24_printed.gcaps_busy, sound=False, note=_INDIRECT,
    ),
    Test(
        "gcaps-busy-evaluated", "GCAPS, busy waiting, as evaluated", "ECRTS'24 lemmas 8-12", "segment", BUSY,
        ecrts24_printed.gcaps_busy_evaluated, sound=False, note=_OWNED,
    ),
    Test(
        "tsg-rr-suspend-printed", "default driver, self-suspension, as printed", "ECRTS'24 lemmas 1-3, 6, 7",
        "timesliced", SUSPEND,
        ecrts24_printed.tsg_rr_suspend, sound=False, note=_SWITCH,
    ),
    Test(
        "tsg-rr-busy-printed", "default driver, busy waiting, as printed", "ECRTS'24 lemmas 1-5", "timesliced", BUSY,
        ecrts24_printed.tsg_rr_busy, sound=False, note=_SWITCH,
    ),
)  # fmt: skip

# The published lock protocols, which boost the holder; no host ships their policies.
BOOSTED_LOCKS = (
    Test(
        "mpcp-suspend", "MPCP, boosted, self-suspension", "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", SUSPEND,
        mpcp.suspend, free=True, sound=True,
    ),
    Test(
        "mpcp-suspend-published", "MPCP, boosted, self-suspension, as evaluated with GCAPS",
        "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", SUSPEND, partial(locks_published.mpcp, waiting=SUSPEND),
        sound=False, note=_NO_SWITCH, free=True,
    ),
    Test(
        "fmlp-suspend", "FMLP+, boosted, self-suspension", "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", SUSPEND,
        fmlp.suspend, free=True, sound=True,
    ),
    Test(
        "fmlp-suspend-published", "FMLP+, boosted, self-suspension, as evaluated with GCAPS",
        "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", SUSPEND, partial(locks_published.fmlp, waiting=SUSPEND),
        sound=False, free=True,
        note="leaves out context switches, and G^e of local higher tasks ahead in the queue",
    ),
    Test(
        "mpcp-busy", "MPCP, boosted, busy waiting", "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", BUSY,
        mpcp.busy, free=True, sound=True,
    ),
    Test(
        "mpcp-busy-published", "MPCP, boosted, busy waiting, as evaluated with GCAPS",
        "Patel et al., RTAS'18 (readings: MPCP)", "mpcp", BUSY, partial(locks_published.mpcp, waiting=BUSY),
        sound=False, free=True,
        note="leaves out context switches, and G^e of lower tasks that spin above every priority of the CPU",
    ),
    Test(
        "fmlp-busy", "FMLP+, boosted, busy waiting", "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", BUSY,
        fmlp.busy, free=True, sound=True,
    ),
    Test(
        "fmlp-busy-published", "FMLP+, boosted, busy waiting, as evaluated with GCAPS",
        "Brandenburg, ECRTS'14 (readings: FMLP+)", "fmlp", BUSY, partial(locks_published.fmlp, waiting=BUSY),
        sound=False, note=_NO_SWITCH, free=True,
    ),
)  # fmt: skip

THESIS = (
    Test(
        "thesis-kthread-busy-printed", "kernel thread that looks every ms, busy waiting, as printed",
        "thesis lemmas 12, 13", "job", BUSY,
        thesis_printed.kernel_thread, poll=POLL, sound=False,
        note="leaves out the time until the thread looks, its execution for lower tasks, tasks above a remote owner on "
        "its CPU, and what a same-core task that spins waits for",
    ),
    Test(
        "thesis-kthread-notify-busy", "kernel thread that is notified, busy waiting", "thesis lemmas 12, 13",
        "job", BUSY,
        thesis.notified, assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-suspend", "ioctl approach, self-suspension", "thesis lemmas 14, 15, as in gcaps-suspend",
        "segment", SUSPEND, gcaps.suspend, compiled="gcaps-suspend", assignable=True, threads=True, sound=True,
    ),
    Test(
        "thesis-ioctl-suspend-printed", "ioctl approach, self-suspension, as printed",
        "thesis lemmas 14, 15, as in gcaps-suspend", "segment", SUSPEND, thesis_printed.ioctl_suspend,
        sound=False,
        note="charges one update a segment, not two; " + _OWNED,
    ),
    Test(
        "thesis-ioctl-busy", "ioctl approach, busy waiting", "thesis lemmas 14, 16, as in gcaps-busy",
        "segment", BUSY, gcaps.busy, compiled="gcaps-busy", assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-busy-printed", "ioctl approach, busy waiting, as printed",
        "thesis lemmas 14, 16, as in gcaps-busy", "segment", BUSY, thesis_printed.ioctl_busy,
        sound=False,
        note="charges one update a segment, not two; " + _INDIRECT,
    ),
    Test(
        "thesis-ioctl-suspend-reduced", "ioctl approach, self-suspension, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 20", "segment", SUSPEND, thesis.reduced_suspend, periodic=True, assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-suspend-reduced-printed",
        "ioctl approach, self-suspension, overlaps off, strictly periodic releases, as printed",
        "thesis lemmas 19, 20", "segment", SUSPEND, thesis_printed.reduced_suspend, sound=False, note=_OVERLAPS,
    ),
    Test(
        "thesis-ioctl-busy-reduced", "ioctl approach, busy waiting, overlaps off, strictly periodic releases",
        "thesis lemmas 19, 21", "segment", BUSY, thesis.reduced_busy, periodic=True, assignable=True, sound=True,
    ),
    Test(
        "thesis-ioctl-busy-reduced-printed",
        "ioctl approach, busy waiting, overlaps off, strictly periodic releases, as printed",
        "thesis lemmas 19, 21", "segment", BUSY, thesis_printed.reduced_busy, sound=False, note=_OVERLAPS,
    ),
)  # fmt: skip

RTGPU_PRINTED = Method("rtgpu-printed", PRINTED)
RTGPU_EXPECTED = Method("rtgpu-expected", PRINTED, exact=True)
SELF_SUSPENSION = Method("self-suspension", PRINTED, merges=True, refined=True)
STGM_PUBLISHED = Method("stgm-published", (), published=True)

OWN_UNITS = (
    Test(
        "rtgpu-printed", "own units of the GPU, as printed", "RTGPU lemmas 5.1 to 5.6", "federated", SUSPEND,
        no_demands, analysis=UnitsTest(RTGPU_PRINTED), sound=True,
    ),
    Test(
        "stgm-published", "own units of the GPU, busy waiting, as probably evaluated", "readings: STGM", "federated",
        BUSY, no_demands, analysis=UnitsTest(STGM_PUBLISHED), sound=True,
    ),
    Test(
        "self-suspension", "own units of the GPU, one chain of copies and kernels at a time", "RTGPU lemmas 2.1 to 2.3",
        "federated", SUSPEND, no_demands, analysis=UnitsTest(SELF_SUSPENSION), sound=True,
    ),
    Test(
        "rtgpu-expected", "own units of the GPU, as evaluated", "RTGPU section 6", "federated", SUSPEND, no_demands,
        analysis=UnitsTest(RTGPU_EXPECTED), sound=False,
        note="takes every segment to last as long as its worst case; a shorter one can delay a lower task more",
    ),
)  # fmt: skip

#: By test, the test that it equals if no segment is long enough to overlap with whole jobs of other tasks.
REDUCES = {
    "thesis-ioctl-suspend-reduced": "thesis-ioctl-suspend",
    "thesis-ioctl-busy-reduced": "thesis-ioctl-busy",
}
#: All rows of tests for a GPU that tasks share, and of tests for tasks that own its units.
ALL_ROWS = (*registry.ROWS, *AS_PRINTED, *BOOSTED_LOCKS, *THESIS)
UNITS_ROWS = (*registry.FEDERATED_ROWS, *OWN_UNITS)
#: The tests for a shared GPU and those for own units, by name.
TESTS, UNITS = by_name(ALL_ROWS), by_name(UNITS_ROWS)
_NAMED = {**TESTS, **UNITS}


def find(name: str) -> Test:
    """The test of this name.  Raises ValueError if there is none.  This function can be sent to other processes."""
    return registry.find_test(name, _NAMED)


#: The methods of tests for tasks that own units, by name.
METHODS: dict[str, Method] = {
    row.name: row.analysis.method for row in UNITS_ROWS if isinstance(row.analysis, UnitsTest)
}
