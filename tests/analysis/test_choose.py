# SPDX-License-Identifier: GPL-2.0
"""The choice of policy and waiting modes, and the test for tasks that wait in different ones."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from builders import cpu, gpu, ms, task, taskset
from effort import tries
from random_tasksets import random_taskset, with_random_modes

from analysis import rta
from analysis.answers import registry
from analysis.answers.choose import COMPARED, Choice, choice_steps, choices, slack, with_modes
from analysis.answers.verdict import stated, thread_moves
from analysis.model import MS, Partition, Sharing, Task, Taskset, Waiting
from analysis.simulation.simulate import Options, simulate

BUSY, SUSPEND = Waiting.BUSY, Waiting.SUSPEND


def choose(taskset: Taskset) -> Choice | None:
    """The best way to run the taskset; None if no test passes."""
    best = next(iter(choices(taskset)), None)
    return best if best is not None and best.schedulable else None


def spins(changed: Task) -> Task:
    return replace(changed, waiting=BUSY)


def in_mode(system: Taskset, mode: Waiting) -> Taskset:
    return with_modes(system, {t.name: mode for t in system})


def test_where_all_wait_alike_the_mixed_test_is_that_modes_test() -> None:
    rng, bounded = random.Random(1), 0
    for _ in range(tries(300)):
        system = random_taskset(rng)
        for mode, name in ((SUSPEND, "gcaps-suspend"), (BUSY, "gcaps-busy")):
            plain, mixed = (
                registry.find_test(name).run(system),
                registry.find_test("gcaps-mixed").run(in_mode(system, mode)),
            )
            if any(f.reason is rta.Reason.GPU_ORDER for f in mixed.failures):
                continue
            assert [mixed.wcrt(t.name) for t in system] == [plain.wcrt(t.name) for t in system]
            bounded += plain.schedulable
    assert bounded > tries(300) / 3


def test_a_mixed_bound_by_hand() -> None:
    """Without update costs, low waits for all of high and of mid, which spins, and for far, which mid waits for."""
    system = taskset(
        task("high", 0, 4, 100, cpu(1), gpu(0, 2)),
        spins(task("mid", 0, 3, 100, cpu(1), gpu(0, 3))),
        task("low", 0, 1, 100, cpu(1)),
        task("far", 1, 5, 100, gpu(0, 7)),
    )
    result = registry.find_test("gcaps-mixed").run(system)
    assert result.wcrt("low") == ms(1 + (1 + 2) + (1 + 3) + 7)
    # if mid sleeps, low has the CPU meanwhile
    sleeping = registry.find_test("gcaps-mixed").run(in_mode(system, SUSPEND))
    assert sleeping.wcrt("low") == ms(1 + 1 + 1)


def test_equals_that_spin_for_one_that_sleeps_have_no_bound() -> None:
    """They wait for each other for ever."""
    equals = taskset(task("sleeps", 0, 1, 20, gpu(0, 1)), spins(task("spins", 0, 1, 20, gpu(0, 2))))
    seen = simulate(equals, Options(horizon=ms(60)), (0, ms(0.5)))
    assert seen.tasks["sleeps"].worst > ms(40)
    (failure, _) = registry.find_test("gcaps-mixed").run(equals).failures
    assert failure.reason is rta.Reason.GPU_ORDER


@pytest.mark.parametrize("seed", range(3))
def test_no_other_way_is_better_than_the_choice(seed: int) -> None:
    rng, chosen = random.Random(seed), 0
    for _ in range(tries(40)):
        system = random_taskset(rng)
        best = choose(system)
        ways = [t for t in registry.TESTS.values() if stated(t) and t.policy in COMPARED and t.usual
                and not t.partitions and not thread_moves(t, system)]  # fmt: skip
        slacks = [slack(t.run(system)) for t in ways if t.waiting is not None]
        mixed = (with_random_modes(system, rng) for _ in range(5))
        slacks += [slack(registry.find_test("gcaps-mixed").run(other)) for other in mixed]
        assert (best is None) == (max((s for s in slacks if s is not None), default=None) is None)
        if best is not None:
            assert best.slack == max(s for s in (*slacks, best.slack) if s is not None)
            chosen += 1
    assert chosen > tries(40) / 4


def test_the_choice_can_be_run_again_from_what_it_says() -> None:
    rng, again = random.Random(9), 0
    for _ in range(tries(60, 20)):
        system = random_taskset(rng)
        for choice in choices(system):
            if choice.priorities or not choice.schedulable:
                continue
            same = registry.find_test(choice.test).run(with_modes(system, choice.modes))
            assert slack(same) == choice.slack
            again += 1
    assert again > tries(60, 20) * 5 // 6


def spinners(count: int, waiting: Waiting) -> Taskset:
    """Short GPU users on one CPU."""
    users = (task(f"t{i}", 0, count - i, 100 + i, cpu(1), gpu(0, 2)) for i in range(count))
    return in_mode(taskset(*users), waiting)


def test_one_mode_for_some_and_another_for_others() -> None:
    """`beside` has no time for a task that spins above it; `late` has none for the jitter of a task that sleeps."""
    system = taskset(
        task("first", 1, 4, 20, cpu(4), gpu(0, 0.5)),
        task("beside", 1, 3, 10, cpu(6)),
        task("often", 0, 2, 10, cpu(2), gpu(0, 6)),
        task("late", 0, 1, 30, cpu(0.5), gpu(0, 0.5)),
    )
    mixed = registry.find_test("gcaps-mixed")
    assert [mixed.run(in_mode(system, mode)).schedulable for mode in Waiting] == [False, False]
    best = next(choice for choice in choices(system) if choice.policy == "segment")
    assert (best.test, best.schedulable) == ("gcaps-mixed", True)
    assert best.modes["first"] is SUSPEND
    assert best.modes["often"] is BUSY


def test_many_tasks_are_not_tried_in_every_combination() -> None:
    system = spinners(12, SUSPEND)
    best = choose(system)
    assert best is not None
    uniform = [slack(registry.find_test("gcaps-mixed").run(in_mode(system, mode))) for mode in Waiting]
    assert best.slack == max(s for s in (*uniform, best.slack) if s is not None)
    assert set(best.modes) == {t.name for t in system}


def test_each_step_is_told() -> None:
    steps: list[int] = []
    choices(random_taskset(random.Random(3)), steps.append)
    assert sum(steps) == choice_steps() == len(steps)


def test_choice_takes_the_most_slack() -> None:
    """No other task may share the GPU with h, and l may use the CPU while h's long GPU segment executes."""
    h, low = task("h", 0, 9, 100, cpu(1), gpu(1, 40)), task("l", 0, 1, 60, cpu(30))
    system = taskset(h, low, task("be", 1, 0, 100, gpu(1, 40)), epsilon=0.1)
    best = choose(system)
    assert best is not None
    assert (best.test, best.policy, best.modes) == ("boosted-suspend", "boosted", {"h": Waiting.SUSPEND})
    ranked = [c.slack for c in choices(system) if c.slack is not None]
    assert ranked == sorted(ranked, reverse=True)
    # l: 30, h's 2 and updates 0.2
    assert best.slack == ranked[0] == Fraction(600 - 322, 600)
    assert {c.policy for c in choices(system)} <= set(COMPARED)


def test_boosted_leaves_more_slack_than_segment() -> None:
    """Under `boosted` i does not wait for h, which preempts the owner o on its CPU."""
    owner, other = task("o", 0, 2, 100, gpu(1, 4)), task("i", 1, 1, 100, gpu(1, 4), deadline=60)
    system = taskset(task("h", 0, 3, 100, cpu(40)), owner, other, epsilon=0.1)
    found = choices(system)
    assert found[0].policy == "boosted"
    slacks = {policy: [c.slack or 0 for c in found if c.policy == policy] for policy in ("boosted", "segment")}
    assert max(slacks["boosted"]) > max(slacks["segment"])
    assert not any(registry.find_test(c.test).periodic or not registry.find_test(c.test).sound for c in choices(system))


def test_of_equal_least_slacks_the_next_one_counts() -> None:
    """The example of docs/boosted.md: of 1,000 i takes 103 under `segment` and 3 under `boosted`, where o takes 103."""
    owner, other = task("o", 0, 2, 1000, gpu(1, 1)), task("i", 1, 1, 1000, gpu(0, 1))
    found = choices(taskset(task("h", 0, 3, 1000, cpu(100)), owner, other))
    assert (found[0].test, found[0].slack) == ("boosted-suspend", Fraction(897, 1000))
    assert Fraction(897, 1000) in {choice.slack for choice in found if choice.policy == "segment"}


def test_choice_assigns_gpu_priorities_only_where_they_are_needed() -> None:
    fine = taskset(task("a", 0, 2, 100, gpu(0, 5)), task("b", 1, 1, 100, gpu(0, 5)))
    assert not any(c.priorities for c in choices(fine))
    tight = taskset(task("a", 0, 2, 100, gpu(0, 50)), task("b", 1, 1, 120, gpu(0, 5), deadline=20))
    best = choose(tight)
    assert best is not None
    assert best.test.endswith("+gpu-priority")
    assert best.priorities["b"] > best.priorities["a"]
    assert best.result.schedulable


def test_bounds_of_assigned_priorities_are_those_of_the_file_that_is_written() -> None:
    """b at 20 needs the GPU before a.  c waits for both: their responses are in its jitter, not their deadlines."""
    tight = taskset(
        task("a", 0, 3, 100, gpu(0, 50)), task("b", 1, 2, 120, gpu(0, 5), deadline=20), task("c", 2, 1, 310, gpu(0, 9))
    )
    best = choose(tight)
    assert best is not None
    assert best.test.endswith("+gpu-priority")
    assigning = registry.find_test(best.test).run(tight)
    plain = registry.find_test(registry.find_test(best.test).base).run(tight.with_gpu_priorities(dict(best.priorities)))
    assert [best.result.wcrt(name) for name in "abc"] == [plain.wcrt(name) for name in "abc"]
    assert (plain.wcrt("c") or 0) < (assigning.wcrt("c") or 0)


def test_no_choice_for_what_cannot_be() -> None:
    assert choose(taskset(task("a", 0, 5, 10, cpu(12)))) is None
    only_best_effort = choose(taskset(task("be", 0, 0, 10, gpu(1, 1))))
    assert only_best_effort is not None
    assert only_best_effort.slack == 1


def test_what_is_chosen_covers_slices_levels_and_shared_tsgs() -> None:
    """Turns of 20 ms delay a for 60; the bound of tsg-rr-suspend for turns of 1 ms is 6."""
    homes = Partition(name="p", slice=MS), Partition(name="q", slice=20 * MS, interleave="high")
    pair = task("a", 0, 9, 90, gpu(0, 3)), task("b", 1, 8, 200, gpu(0, 60))
    tasks = tuple(replace(one, partition=home) for one, home in zip(pair, homes, strict=True))
    sliced = replace(taskset(*tasks), tasks=tasks, partitions=homes)
    sliced = replace(sliced, platform=replace(sliced.platform, time_slice=MS))
    turned = [one for one in choices(sliced) if one.policy == "timesliced"]
    assert {one.test for one in turned} == {"supply-fp", "supply-edf", "supply-fp-busy"}
    assert all((one.result.wcrt("a") or 90 * MS) >= ms(62) for one in turned)
    together = replace(homes[0], shared=Sharing.PRIORITY)
    shared = replace(sliced, tasks=tuple(replace(one, partition=together) for one in tasks), partitions=(together,))
    assert {one.test for one in choices(shared)} == {"supply-fp", "supply-fp-busy"}
