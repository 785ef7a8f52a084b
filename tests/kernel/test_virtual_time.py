# SPDX-License-Identifier: GPL-2.0
"""The real module against the simulator, to the nanosecond: real processes in user-mode Linux, whose time is virtual.

One process a task (virtual_time/runner.c) sleeps until its releases, executes, begins, submits, waits and ends through
/dev/gpurt.  In virtual time execution takes no time by itself, so processes execute by asking a helper module for it
(virtual_time/burn), which can be preempted every microsecond; hence all times here are multiples of that.  User-mode
Linux has one CPU, hence all tasksets as well; and there must be no second best-effort task, for Linux shares the CPU
fairly between those while the simulator serves them in order.  What happens at the same instant has no defined order:
random tasksets in which it would matter are drawn again (Case.is_stable).

What the timers cost: nothing; they go off in the nanosecond they are set for.  Without high-resolution timers
(highres=off) everything waits for the next tick; the last test here measures that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "virtual_time"))

from guest import Guest
from tasksets import Case, cpu, differences, gpu, random_case

from analysis.model import MS, US, Platform, Task, Taskset, Waiting
from analysis.simulate import Options

POLICIES = ["timesliced", "segment", "lock-priority", "lock-fifo"]
COSTS = [(0, 0), (200 * US, 0), (0, 150 * US), (300 * US, 100 * US)]
SEEDS = range(5)
EXACT = [random_case(seed, policy, *costs) for policy in POLICIES for costs in COSTS for seed in SEEDS]
JOBS = [random_case(seed, "job", *costs, notify) for notify in (False, True) for costs in COSTS for seed in SEEDS]


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    return Guest.build(tmp_path_factory.mktemp("guest"))


def check(guest: Guest, cases: Sequence[Case]) -> None:
    """All of them in one machine; every job of each completes when the simulator says."""
    seen = guest.run(cases)
    wrong = {case.name: list(differences(case, seen[case.name], case.predicted())) for case in cases}
    report = [f"{name}:\n  " + "\n  ".join(lines) for name, lines in wrong.items() if lines]
    assert not report, f"{len(report)} of {len(cases)} differ\n" + "\n".join(report)


@pytest.mark.parametrize("policy", POLICIES)
def test_random_tasksets_take_exactly_what_is_predicted(guest: Guest, policy: str) -> None:
    check(guest, [case for case in EXACT if case.options.policy == policy])


@pytest.mark.parametrize("notice", ["poll", "notify"])
def test_jobs_take_exactly_what_is_predicted(guest: Guest, notice: str) -> None:
    check(guest, [case for case in JOBS if ("notify" in case.hook) == (notice == "notify")])
