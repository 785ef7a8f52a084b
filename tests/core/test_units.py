# SPDX-License-Identifier: GPL-2.0
"""The run time of sBEET in virtual time: it dispatches what the simulation dispatches, and frees what dies."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from effort import tries
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from analysis.energy import compiled
from analysis.energy.file import load_system
from analysis.energy.outcome import Dispatch, EnergyRun, Skip
from analysis.energy.policies import POLICIES, Order, Readings, UnitsPolicy, UnitsRule
from analysis.energy.runtime import NEVER_NS, UnitsRuntime
from analysis.energy.setup import Setup, prepare_tables
from analysis.model import Kernel
from analysis.model.energy import MAX_SLOTS, PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask
from gpurt._gpurt import ffi, lib

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/energy"
LONG = os.environ.get("GPURT_LONG") == "1"
RUNNABLE = [policy for policy in POLICIES.values() if policy.rule is not UnitsRule.STATIC]


MS = 1_000_000


def some_system(rng: random.Random, single: bool) -> SpatialSystem:
    """Times are odd enough that no two things happen at once: the run time hears of them one after the other."""
    gpus = []
    for index in range(1 if single else rng.randint(1, 3)):
        units = rng.randint(1, 10)
        step = rng.choice([1, 1, 2]) if units > 1 else 1
        gpus.append(SpatialGpu(f"g{index}", units, rng.randint(step, units), 5, 1, step, rng.choice([1, 2, 2])))

    def time(low: int, high: int) -> int:
        return rng.randint(low * MS, high * MS)

    tasks = []
    for index in range(rng.randint(1, 5)):
        kernels = []
        for gpu in gpus:
            work = time(1, 50)
            worst = tuple(work // m + time(0, 2) for m in range(1, gpu.units + 1))
            best = tuple(rng.randint(1, one) for one in worst)
            kernels.append(PoweredKernel(Kernel.table(worst, best), rng.randint(1, 20), time(0, 3), time(1, 3)))
        period = time(20, 120)
        deadline = rng.randint(period // 2, period - 1)
        tasks.append(SpatialTask(f"t{index}", period, deadline, tuple(kernels), rng.randint(1, period)))
    return SpatialSystem(tuple(gpus), tuple(tasks))


class Players:
    """A client for each task: announces each job at its release, and reports what the simulated kernels do."""

    def __init__(self, setup: Setup, run: EnergyRun) -> None:
        self.setup, self.units, self.horizon = setup, UnitsRuntime(setup), run.horizon
        self.reference = compiled.simulate_compiled(setup, run, log=10_000)
        self.lengths = {(one.task, one.job): one.end - one.start for one in self.reference.dispatches}
        self.count = [0] * len(setup.system.tasks)  # jobs announced
        self.waiting: dict[int, tuple[int, int, int]] = {}  # by number: task, number of the task's own, release
        self.events: list[tuple[int, str, int, int]] = []  # of clients: time, what, task, number
        self.dispatches: list[Dispatch] = []
        self.skips: list[Skip] = []
        for offset, task in sorted(((one.offset, task) for task, one in enumerate(setup.system.tasks)), reverse=True):
            self.announce(task, offset, 0)  # ahead, because the simulation knows first releases

    def announce(self, task: int, release: int, now: int) -> None:
        number = self.units.ready(task, now, release)
        assert number > 0
        self.waiting[number] = task, self.count[task], release
        self.count[task] += 1
        self.events.append((release + self.setup.system.tasks[task].period, "release", task, 0))
        self.look(now)

    def go(self) -> Players:
        while (now := min([self.units.next(), *(at for at, *_ in self.events)])) < self.horizon:
            for event in sorted(event for event in self.events if event[0] == now):
                self.events.remove(event)
                _, what, task, number = event
                if what == "release":
                    self.announce(task, now, now)
                elif what == "end":
                    assert self.units.kernel_done(task, number, now) == 0
                else:
                    assert self.units.done(task, number, now) == 0
            self.units.tick(now)
            self.look(now)
        return self

    def look(self, now: int) -> None:
        """Looks at the jobs that waited: each is granted, skipped or still pending."""
        for number, (task, job, release) in list(self.waiting.items()):
            grant = self.units.grant(task, number)
            if grant:
                kernel = self.setup.kernel(task, grant.gpu)
                start = now + kernel.copy_in
                end = start + self.lengths[task, job]
                finish = end + kernel.copy_out
                assert (grant.granted, grant.kernel) == (now, kernel.time(grant.units))
                self.events += [(end, "end", task, number), (finish, "finish", task, number)]
                where = grant.gpu, grant.units, grant.first
                self.dispatches.append(Dispatch(task, job, *where, release, now, start, end, finish))
            elif self.units.skipped(task, number):
                self.skips.append(Skip(task, job, release, now))
            else:
                assert self.units.pending(task, number)
                continue
            del self.waiting[number]


def by_time(dispatches: Iterable[Dispatch]) -> list[Dispatch]:
    """In order; of those at one time the run time does not tell which was first."""
    return sorted(dispatches, key=lambda one: (one.at, one.task))


@pytest.mark.parametrize("policy", RUNNABLE, ids=[policy.name for policy in RUNNABLE])
def test_the_run_time_dispatches_what_the_simulation_dispatches(policy: UnitsPolicy) -> None:
    for seed in range(2000 if LONG else 12):
        rng = random.Random(f"{policy.name} {seed}")
        flags = {name: rng.random() < 0.3 for name in ("active", "hold_job", "weigh", "copies")}
        setup = prepare_tables(some_system(rng, policy.single), policy, Readings(**flags))
        seen = Players(setup, EnergyRun(800 * MS, rng.choice(["worst", "random"]), seed=seed)).go()
        assert by_time(seen.dispatches) == by_time(seen.reference.dispatches), seed
        assert tuple(seen.skips) == seen.reference.skips, seed


def test_example_5() -> None:
    """Section 2.4, example 5: 3 units for t1 at 0, 1 for t2 at 1 ms, 1 for t3 at 6 ms (figure 2.3b)."""
    setup = prepare_tables(load_system(EXAMPLES / "example5.toml").system, POLICIES["sbeet"])
    seen = Players(setup, EnergyRun(8 * MS)).go().dispatches
    found = [(one.task, one.at, one.units, one.first) for one in seen]
    assert found == [(0, 0, 3, 0), (1, MS, 1, 3), (2, 6 * MS, 1, 3)]


def units_of(*, late: bool = False, rules: str = "sbeet") -> UnitsRuntime:
    """Two tasks that take 8 ms on 4 units and 32 ms on one, with copies of 1 ms; their periods are 100 and 110 ms."""
    gpu = SpatialGpu("g", 4, 4, 1_000_000, 250_000)
    kernel = PoweredKernel(Kernel.table([32 * MS // m for m in range(1, 5)]), 1_000_000, MS, MS)
    tasks = tuple(SpatialTask(f"t{i}", (100 + 10 * i) * MS, (50 + 10 * i) * MS, (kernel,)) for i in range(2))
    return UnitsRuntime(prepare_tables(SpatialSystem((gpu,), tasks), POLICIES[rules], Readings(run_late=late)))


def test_a_job_that_comes_early_waits_until_a_period_has_passed() -> None:
    units = units_of()
    first = units.ready(0, 5 * MS)
    assert units.kernel_done(0, first, 20 * MS) == 0
    assert units.done(0, first, 21 * MS) == 0
    second = units.ready(0, 30 * MS)
    assert (units.grant(0, second), units.next()) == (None, 105 * MS)
    units.tick(105 * MS)
    found = units.grant(0, second)
    assert found
    assert (found.release, found.deadline, found.granted) == (105 * MS, 155 * MS, 105 * MS)


def test_a_release_in_the_past_counts_and_one_far_ahead_is_refused() -> None:
    units = units_of()
    job = units.ready(0, 40 * MS, release=10 * MS)
    found = units.grant(0, job)
    assert found
    assert (found.release, found.deadline, found.granted) == (10 * MS, 60 * MS, 40 * MS)
    late = units.ready(1, 100 * MS, release=20 * MS)  # its deadline was at 80 ms
    assert units.skipped(1, late)
    assert units.deadline(1, late) == 80 * MS
    assert units.ready(1, 100 * MS, release=100 * MS + 3600 * 10**9 + 1) == -errno.EINVAL
    assert units.ready(1, 100 * MS, release=100 * MS + 3600 * 10**9) > 0


def test_a_pending_job_is_skipped_at_its_deadline_unless_late_ones_run() -> None:
    for late in (False, True):
        units = units_of(late=late, rules="rm")
        running, waiting = units.ready(0, 0), units.ready(1, 0)
        assert units.grant(0, running)
        assert units.next() == (NEVER_NS if late else 60 * MS)
        units.tick(60 * MS)
        assert units.skipped(1, waiting) is not late
        assert units.kernel_done(0, running, 61 * MS) == 0
        assert units.grant(1, waiting) is None, "one job at a time holds the GPU until its copy out is done"
        assert units.done(0, running, 62 * MS) == 0
        assert (units.grant(1, waiting) is not None) is late
        assert (units.tasks[0].jobs, units.tasks[0].late, units.tasks[0].longest) == (1, 1, 62 * MS)
        assert units.tasks[1].skips == (not late)


def test_calls_in_the_wrong_order() -> None:
    units = units_of()
    assert units.kernel_done(0, 1, 0) == units.done(0, 1, 0) == units.begin(0, 1, 0) == -errno.ENOENT
    job = units.ready(0, 0)
    other = units.ready(0, 0)  # while the first one runs, the next one may be pending
    assert (job, other) == (1, 2)
    assert units.ready(0, 0) == -errno.EBUSY
    assert units.done(0, job, 1 * MS) == -errno.EBUSY
    for wrong in (0, other, 99):
        assert units.kernel_done(0, wrong, MS) == units.done(0, wrong, MS) == -errno.ENOENT
    assert units.kernel_done(1, job, MS) == -errno.ENOENT
    assert units.kernel_done(0, job, 2 * MS) == 0
    assert units.kernel_done(0, job, 2 * MS) == units.begin(0, job, 2 * MS) == -errno.ENOENT
    assert units.done(0, job, 3 * MS) == 0
    assert units.done(0, job, 3 * MS) == -errno.ENOENT


def test_a_kernel_that_runs_longer_than_planned_is_expected_to_end_at_any_time() -> None:
    """Algorithm 2 compares a job beside it with waiting for its end: were that in the past, the job would wait."""
    gpu = SpatialGpu("g", 4, 4, 1_000_000, 250_000)
    kernel = PoweredKernel(Kernel.table([8 * MS] * 4), 1_000_000, MS, MS)  # on one unit as fast as on four
    tasks = tuple(SpatialTask(f"t{i}", 100 * MS, 100 * MS, (kernel,)) for i in range(2))
    units = UnitsRuntime(prepare_tables(SpatialSystem((gpu,), tasks), POLICIES["sbeet"]))
    assert units.ready(0, 0) == 1
    assert units.jobs_on(0) == [(0, 0, 1)]
    other = units.ready(1, 50 * MS)  # the kernel was to end at 9 ms
    assert units.grant(1, other)
    assert units.jobs_on(0) == [(0, 0, 1), (1, 3, 1)]


def test_others_run_beside_a_kernel_that_hangs() -> None:
    """It holds 1 of 4 units, and algorithm 2 would have the other one wait: it would be done sooner."""
    gpu = SpatialGpu("g", 4, 4, 1_000_000, 250_000)
    flat, linear = ([8 * MS] * 4, [32 * MS // m for m in range(1, 5)])
    tasks = tuple(
        SpatialTask(f"t{i}", 100 * MS, 100 * MS, (PoweredKernel(Kernel.table(times), 1_000_000, MS, MS),))
        for i, times in enumerate((flat, linear))
    )
    units = UnitsRuntime(prepare_tables(SpatialSystem((gpu,), tasks), POLICIES["sbeet"]))
    hangs = units.ready(0, 0)  # copy in until 1 ms, kernel until 9 ms
    waiting = units.ready(1, 10 * MS)
    assert units.pending(1, waiting), "the kernel is expected to end at any time"
    assert (units.overdue(0, 9 * MS), units.overdue(0, 10 * MS)) == (0, 1)
    assert units.next() == 17 * MS, "late by its own length"
    units.tick(17 * MS)
    assert units.jobs_on(0) == [(0, 0, 1), (1, 1, 3)]
    assert units.next() == NEVER_NS, "nobody waits"
    assert units.kernel_done(0, hangs, 19 * MS) == units.done(0, hangs, 120 * MS) == 0, "it did end"
    assert (units.tasks[0].late, units.tasks[0].lost, units.held(0)) == (1, 0, 3)


def test_what_waits_for_a_kernel_that_hangs_is_decided_on_again_seldom() -> None:
    """All units are held: each time the kernel is late by twice as much as before, and never twice at one time."""
    units = units_of(late=True)
    assert units.ready(0, 0) == 1
    assert units.ready(1, 0) == 2
    seen = [units.next()]
    while seen[-1] < 3600_000 * MS:
        units.tick(seen[-1])
        seen.append(units.next())
    assert all(after > before for before, after in pairwise(seen))
    assert len(seen) < 25
    units.gone(0, seen[-1])
    assert units.grant(1, 2)
    assert [one.lost for one in units.tasks[0:2]] == [1, 0]


def passed(order: Order, rng: random.Random) -> tuple[list[int], list[int]]:
    """The tasks that get units in a pass, and those that should.  What follows an array's end would come first."""
    count, gpus, enough = rng.randint(0, 5), rng.randint(1, 2), rng.randint(1, 5)
    gpu = ffi.new("struct gpurt_sgpu[]", [{"whole": 4, "granularity": 1, "slots": 1} for _ in range(gpus + 1)])
    task = ffi.new("struct gpurt_sbeet_task[]", [*({"period": rng.randint(1, 3)} for _ in range(count)), {}])
    future = [(rng.choice([1, 2, 3, NEVER_NS]), rng.randint(1, 3), one) for one in range(count)]
    ready = ffi.new("struct gpurt_sbeet_future[]", [*future, (0, 0, count)])
    finish = ffi.new("u64[]", [*(rng.choice([1, NEVER_NS, NEVER_NS]) for _ in range(count)), NEVER_NS])
    room = ffi.new("u32[]", [count] * (count + 1))
    started: list[int] = []

    @ffi.callback("void(void *, u32, struct gpurt_sbeet_decision)")
    def start(host: object, one: int, decision: Any) -> None:
        started.append(one if (decision.gpu, decision.units) == (0, 4) else -1)
        for full in gpu[0 : gpus - (len(started) < enough)]:
            full.slots = 0

    tables = ffi.new("struct gpurt_sbeet_tables *", {"gpus": gpus, "tasks": count, "task": task})
    state = ffi.new("struct gpurt_sbeet_state *", {"gpu": gpu, "ready": ready})
    asked = {"order": order.value, "finish": finish, "room": room, "start": start}
    lib.gpurt_sbeet_pass(tables, state, ffi.new("struct gpurt_sbeet_pass *", asked), 0)
    keys = {
        one: ({Order.EDF: deadline, Order.RM: task[one].period, Order.FIFO: release}[order], release, one)
        for release, deadline, one in future if release != NEVER_NS
    }  # fmt: skip
    return started, [one for one in sorted(keys, key=keys.__getitem__) if finish[one] == NEVER_NS][:enough]


@pytest.mark.parametrize("order", Order)
def test_a_pass_takes_the_pending_jobs_in_order_until_all_gpus_are_full(order: Order) -> None:
    rng = random.Random(order.name)
    for _ in range(60):
        seen, right = passed(order, rng)
        assert seen == right


@pytest.mark.parametrize("state", ["early", "pending", "kernel", "copy", "kernel and pending"])
def test_what_a_client_that_is_gone_held_goes_on(state: str) -> None:
    units = units_of(rules="rm")
    running = units.ready(0, 0, release=0 if "kernel" in state or state == "copy" else 5 * MS)
    if state == "pending":
        blocker = units.ready(1, 0)
        units.tick(5 * MS)
        assert units.grant(1, blocker)
        assert units.pending(0, running)
        units.gone(0, 6 * MS)
        assert units.grant(1, blocker)
        assert not units.pending(0, running)
        return
    if state == "copy":
        assert units.kernel_done(0, running, MS) == 0
    if state == "kernel and pending":
        assert units.ready(0, 0) > 0
    other = units.ready(1, 2 * MS)
    assert (units.grant(1, other) is None) is ("kernel" in state or state == "copy")
    units.gone(0, 3 * MS)
    assert units.grant(0, running) is None
    assert units.grant(1, other)
    assert units.jobs_on(0) == [(1, 0, 4)]
    assert units.ready(0, 4 * MS) > 0  # another client may come; it waits, for t1 holds the GPU
    assert units.kernel_done(0, running, 4 * MS) == -errno.ENOENT, "a number of the client before"


class AnyOrder(RuleBasedStateMachine):
    """Clients that say anything in any order: no unit has two jobs, no slot is lost, and work is never forgotten."""

    @initialize(seed=st.integers(0, 10**6), policy=st.sampled_from(RUNNABLE))
    def begin(self, seed: int, policy: UnitsPolicy) -> None:
        rng = random.Random(seed)
        self.setup = prepare_tables(some_system(rng, policy.single), policy, Readings(run_late=rng.random() < 0.3))
        self.units = UnitsRuntime(self.setup)
        self.tasks, self.now = len(self.setup.system.tasks), 0
        self.jobs: dict[int, list[int]] = {task: [] for task in range(self.tasks)}

    def any_job(self, data: st.DataObject) -> tuple[int, int]:
        task = data.draw(st.integers(0, self.tasks - 1))
        return task, data.draw(st.sampled_from([*self.jobs[task][-2:], 0, 1]))

    @rule(data=st.data(), ahead=st.integers(-100 * MS, 100 * MS))
    def ready(self, data: st.DataObject, ahead: int) -> None:
        task = data.draw(st.integers(0, self.tasks - 1))
        number = self.units.ready(task, self.now, max(0, self.now + ahead) if ahead % 3 else 0)
        if number > 0:
            self.jobs[task].append(number)

    @rule(data=st.data())
    def kernel_done(self, data: st.DataObject) -> None:
        task, job = self.any_job(data)
        found = self.units.grant(task, job)
        expected = 0 if found and not found.copying else -errno.ENOENT
        assert self.units.kernel_done(task, job, self.now) == expected

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        task, job = self.any_job(data)
        found = self.units.grant(task, job)
        expected = -errno.ENOENT if not found else 0 if found.copying else -errno.EBUSY
        assert self.units.done(task, job, self.now) == expected

    @rule(data=st.data())
    def gone(self, data: st.DataObject) -> None:
        task = data.draw(st.integers(0, self.tasks - 1))
        self.units.gone(task, self.now)
        gpus = range(len(self.setup.system.gpus))
        assert not any(held == task for gpu in gpus for held, *_ in self.units.jobs_on(gpu))

    @rule(step=st.integers(0, 60 * MS))
    def time_passes(self, step: int) -> None:
        self.now += step
        self.units.tick(self.now)

    @precondition(lambda self: hasattr(self, "units"))
    @invariant()
    def units_are_disjoint(self) -> None:
        for index, gpu in enumerate(self.setup.system.gpus):
            jobs = self.units.jobs_on(index)
            assert len(jobs) <= self.setup.slots(gpu) <= MAX_SLOTS
            taken = [unit for _, first, count in jobs for unit in range(first, first + count)]
            assert len(set(taken)) == len(taken) == self.units.held(index)
            assert all(0 <= unit < gpu.whole for unit in taken)
            assert all(count % gpu.granularity == 0 for _, _, count in jobs)

    @precondition(lambda self: hasattr(self, "units"))
    @invariant()
    def somebody_runs_if_somebody_waits(self) -> None:
        """On an idle machine every policy dispatches the first job of the queue."""
        idle = not any(self.units.jobs_on(gpu) for gpu in range(len(self.setup.system.gpus)))
        waits = [task for task in range(self.tasks) if self.units.tasks[task].pending == 2]
        assert not idle or all(self.units.tasks[task].running for task in waits)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=1000 if LONG else tries(40), stateful_step_count=25, deadline=None)
