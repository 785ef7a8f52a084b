# SPDX-License-Identifier: GPL-2.0
"""The real module against the simulator, to the nanosecond: real processes in user-mode Linux, whose time is virtual.

One process a task (virtual_time/runner.c) sleeps until its releases, executes, begins, submits, waits and ends through
/dev/gpurt.  Execution takes no time by itself in virtual time, so processes ask a helper module for it
(virtual_time/burn).  The helper can be preempted every microsecond; hence all times here are multiples of that.
User-mode Linux has one CPU, hence all tasksets as well.  There must be no second best-effort task, for Linux shares the
CPU fairly between those while the simulator serves them in order.  Events at the same instant have no defined order:
random tasksets in which their order would matter are drawn again (Case.is_stable).

The timers cost nothing: they go off in the nanosecond they are set for.  Without high-resolution timers
(highres=off) whatever is timed waits for the next tick, 10 ms apart here; the last test shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "virtual_time"))

from tasksets import Case, Completions, cpu, differences, gpu, random_case
from uml import Guest

from analysis.model import MS, US, Platform, Task, Taskset, Waiting
from analysis.simulation.simulate import Options

pytestmark = [pytest.mark.slow(0.1), pytest.mark.timeout(14_400)]
#: Policies, by the machine that is booted for them.
POLICIES = [["timesliced"], ["segment", "boosted"], ["lock-priority"], ["lock-fifo"]]
COSTS = [(0, 0), (200 * US, 0), (0, 150 * US), (300 * US, 100 * US)]
SEEDS = range(5)


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    return Guest.build(tmp_path_factory.mktemp("guest"))


def check(guest: Guest, cases: Sequence[Case]) -> None:
    """All of them in one machine; every job of each completes when the simulator says."""
    seen = guest.run(cases)
    wrong = {case.name: list(differences(case, seen[case.name], case.predicted())) for case in cases}
    report = [f"{name}:\n  " + "\n  ".join(lines) for name, lines in wrong.items() if lines]
    assert not report, f"{len(report)} of {len(cases)} differ\n" + "\n".join(report)


@pytest.mark.parametrize("policies", POLICIES, ids="-".join)
def test_random_tasksets_take_exactly_what_is_predicted(guest: Guest, policies: list[str]) -> None:
    check(guest, [random_case(seed, policy, *costs) for policy in policies for costs in COSTS for seed in SEEDS])


@pytest.mark.parametrize("notify", [False, True], ids=["poll", "notify"])
def test_jobs_take_exactly_what_is_predicted(guest: Guest, notify: bool) -> None:
    check(guest, [random_case(seed, "job", *costs, notify) for costs in COSTS for seed in SEEDS])


def reaction_case(name: str, poll: int, alpha: int = 0) -> Case:
    """A short urgent job comes at all phases of the polling period while another one owns the GPU."""
    tasks = (
        Task("long", 0, 10, 500 * MS, 500 * MS, (gpu(0, 300 * MS), cpu(US)), Waiting.BUSY),
        Task("short", 0, 20, 10_137 * US, 10_137 * US, (gpu(0, MS), cpu(US)), Waiting.BUSY),
    )
    options = Options(policy="job", poll=poll, horizon=300 * MS)
    return Case(name, Taskset(Platform(1, alpha=alpha), tasks), options, (0, 10_500 * US))


def reactions(case: Case, seen: Completions) -> list[int]:
    """How much longer than its demand each job of `short` took."""
    period, demand = 10_137 * US, MS + US
    return [end - (case.offsets[1] + job * period) - demand for job, end in enumerate(seen["short"])]


def test_polling_reacts_within_a_period_and_notify_at_once(guest: Guest) -> None:
    cases = [reaction_case("poll", MS), reaction_case("notify", 0), reaction_case("notify-alpha", 0, 200 * US)]
    seen = guest.run(cases)
    polled = reactions(cases[0], seen["poll"])
    assert len(polled) > 20
    # to the next multiple of the period, counted from the instant at which the policy was set
    releases = [10_500 * US + job * 10_137 * US for job in range(len(polled))]
    assert polled == [-release % MS for release in releases]
    assert min(polled) < MS // 10
    assert max(polled) > MS * 9 // 10
    assert set(reactions(cases[1], seen["notify"])) == {0}
    assert set(reactions(cases[2], seen["notify-alpha"])) == {200 * US}


def budget_case(name: str, action: str, alpha: int = 0) -> Case:
    """The urgent task's segment takes 10 ms, its budget is 4 ms; the other's of 3 ms begins 1 ms later."""
    tasks = (
        Task("high", 0, 20, 100 * MS, 100 * MS, (gpu(0, 10 * MS), cpu(US))),
        Task("low", 0, 10, 100 * MS, 100 * MS, (gpu(0, 3 * MS), cpu(US))),
    )
    taskset = Taskset(Platform(1, alpha=alpha), tasks)
    return Case(name, taskset, Options(horizon=100 * MS), (0, MS), {"high": (4 * MS, action)})


def test_budgets_end_in_the_nanosecond(guest: Guest) -> None:
    cases = [
        budget_case("report", "report"),
        budget_case("demote", "demote"),
        budget_case("demote-alpha", "demote", 100 * US),
    ]
    seen = guest.run(cases)
    assert seen["report"] == {"high": [10 * MS + US], "low": [13 * MS + US]}
    # high has had 4 ms when its budget ends, low gets its 3 ms, then high its other 6 ms as a best-effort client
    assert seen["demote"] == {"high": [13 * MS + US], "low": [7 * MS + US]}
    # three updates: to high at 0, to low at 3.9 ms, to everyone when low ends; low's process pays the last itself.  The
    # first one counts as ownership, which begins at 0, and is charged to the budget as an update
    assert seen["demote-alpha"] == {"high": [13 * MS + 300 * US + US], "low": [7 * MS + 100 * US + US]}


def test_a_run_repeats_to_the_bit(guest: Guest) -> None:
    cases = [random_case(0, "timesliced"), random_case(0, "segment", *COSTS[-1]), random_case(0, "job", notify=True)]
    first = guest.output(cases)
    assert first.count("base ") == len(cases)
    assert guest.output(cases) == first
    assert guest.output(cases) == first


def test_a_wrong_prediction_is_noticed(guest: Guest) -> None:
    case = random_case(0, "segment")
    seen = guest.run([case])[case.name]
    name = case.taskset.tasks[0].name
    wrong = {**case.predicted(), name: [time + 1 for time in case.predicted()[name]]}
    assert len(list(differences(case, seen, wrong))) == len(seen[name])


def test_without_high_resolution_timers_all_wait_for_the_tick(guest: Guest) -> None:
    tick = 10 * MS
    task = Task("t", 0, 10, 10_137 * US, 10_137 * US, (cpu(US),))
    case = Case("tick", Taskset(Platform(1), (task,)), Options(horizon=600 * MS), (0,))
    ends = guest.run([case], "--append", "highres=off")["tick"]["t"]
    late = [end - job * task.period - US for job, end in enumerate(ends)]
    assert min(late) >= 0
    assert tick // 2 < max(late) <= tick
    exact = guest.run([case])["tick"]["t"]
    assert exact == [job * task.period + US for job in range(len(late))]
