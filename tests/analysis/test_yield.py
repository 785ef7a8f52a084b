# SPDX-License-Identifier: GPL-2.0
"""Begin by yield (docs/readings/yield.md): its bounds by hand, under attack, and where a fact is left out."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from attack_search import Effort, attack, bounds_of, ways
from effort import tries
from kinds import Drawing, in_turns
from tiny import tiny_for, yielding

from analysis.answers import registry
from analysis.answers.verdict import answer, covering
from analysis.attack.exact import TooManyStatesError, explore
from analysis.model import MS, US, Taskset, Waiting
from analysis.model.platform import TURNS, Yield
from analysis.rta import Bound
from analysis.rta.regions import switching
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import parse
from gpurt.errors import TasksetError

HEAD = """\
[platform]
cpus = 2
policy = "segment"
begin = "yield"
epsilon = "1.6ms"
theta = "0.25ms"
yield = { slice = "0.5ms", groups = GROUPS, decision = "0.05ms", stall = "0us" }
"""
CAMERA = """
[[task]]
name = "camera"
cpu = 0
priority = 20
period = "20ms"
segments = [{ cpu = "1ms" }, { misc = "0.5ms", gpu = "4ms", ready = 2 }, { misc = "0.5ms", gpu = "2ms" }]
"""
DETECTOR = """
[[task]]
name = "detector"
cpu = 1
priority = 10
period = "100ms"
segments = [{ cpu = "2ms" }, { misc = "1ms", gpu = "10ms", ready = 1 }]
"""
TRAINER = """
[[task]]
name = "trainer"
cpu = 1
priority = 0
period = "50ms"
segments = [{ misc = "0ms", gpu = "45ms" }]
"""


def taskset_of(*tasks: str, groups: int = 1, **changes: str) -> Taskset:
    """The taskset of these tables; ``changes``: times of 0 us and what takes their place."""
    head = HEAD.replace("GROUPS", str(groups))
    for old, new in changes.items():
        head = head.replace(f'{old} = "0us"', new)
    return parse(Path("set.toml"), head + "".join(tasks)).taskset


def wcrt(taskset: Taskset, name: str) -> int:
    """The bound of a task under the test that answers for the file."""
    found = answer(taskset).result
    assert found is not None
    verdict = found.verdicts[name]
    assert isinstance(verdict, Bound), verdict
    return verdict.wcrt


def test_bounds_by_hand() -> None:
    """Delta is .25 + .5 + .25 ms, and .75 once.  Alone W is 1 + 2 x .05 + 1.6 ms; k counts for the first segment."""
    alone = taskset_of(CAMERA.replace("ready = 2", "ready = 1"), TRAINER)
    assert [test.name for test in covering(alone)] == ["gcaps-suspend"]
    assert wcrt(alone, "camera") == 8 * MS + 1_750 * US + 2_700 * US
    # With another real-time task updates are charged as where begins are isolated.  Delta has one more group.
    both = taskset_of(CAMERA.replace('"20ms"', '"100ms"'), DETECTOR, TRAINER)
    apart = replace(both, platform=replace(both.platform, begin="isolated", yields=None))
    assert wcrt(both, "camera") == wcrt(apart, "camera") + 2 * 1_100 * US
    assert wcrt(both, "detector") == wcrt(apart, "detector") + 2 * 1_100 * US


@pytest.mark.parametrize("kind", ["yields", "turns"])
@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy", "gcaps-mixed"])
def test_no_schedule_exceeds_a_bound(name: str, kind: str) -> None:
    """Nor does best effort stop."""
    found = attack(registry.TESTS[name], tries(60, 20), seed=5, effort=Effort(2, 4), draw=Drawing((kind,)))
    assert found.schedulable > tries(60, 20) // 6
    assert not found.violations, found.smallest


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy", "gcaps-mixed"])
def test_no_schedule_of_tiny_systems_exceeds_a_bound(name: str, turns: bool) -> None:
    """Each schedule, where times of the host are nothing or the longest."""
    rng, test, looked = random.Random(3), registry.TESTS[name], 0
    for _ in range(tries(150, 60)):
        taskset = tiny_for(test, rng, 12)
        taskset = in_turns(yielding(demoted(taskset), rng), rng) if turns else yielding(taskset, rng)
        result = test.run(taskset)
        bounds = bounds_of(taskset, result)
        if not result.schedulable or not any(task.uses_gpu for task in taskset.real_time):
            continue
        for options in list(ways(test, taskset, rng))[:1]:
            try:
                found = explore(taskset, options, None, 20_000)
            except TooManyStatesError:
                continue
            looked += 1
            assert all(found.worst[task] <= bound for task, bound in bounds.items()), (taskset, found.worst, bounds)
    assert looked >= tries(150, 60) * 2 // 15


def demoted(taskset: Taskset) -> Taskset:
    """All tasks but one are best effort."""
    first, *others = sorted(taskset, key=lambda task: -task.priority)
    return replace(taskset, tasks=(first, *(replace(task, priority=0, gpu_priority=None) for task in others)))


def exceeded(said: Taskset, true: Taskset, less: int = 0) -> bool:
    """Whether a job of ``true`` takes longer than the bound of ``said``; ``less``: what is known not to happen."""
    bound, rng = wcrt(said, "camera") - less, random.Random(1)
    for seed in range(60):
        offsets = [rng.randrange(task.period) for task in true]
        seen = simulate(true, Options(execution="worst", horizon=800 * MS, seed=seed), offsets)
        if seen.tasks["camera"].worst > bound:
            return True
    return False


def with_yield(taskset: Taskset, **changes: int) -> Taskset:
    """The taskset with other values of the platform's yield."""
    assert isinstance(taskset.platform.yields, Yield)
    return replace(taskset, platform=replace(taskset.platform, yields=replace(taskset.platform.yields, **changes)))


#: A task whose bound rests on k.
GAPS = CAMERA.replace(', { misc = "0.5ms", gpu = "2ms" }', "").replace("ready = 2", "ready = 6")


def test_each_fact_is_needed() -> None:
    """Without one of them a bound is exceeded: gaps, groups, slices, calls that stall, updates, a lazy host."""
    second, third = (TRAINER.replace("trainer", name) for name in ("second", "third"))
    true = taskset_of(GAPS, TRAINER, groups=1)
    once = GAPS.replace("ready = 6", "ready = 1")
    assert not exceeded(true, true)
    lazier = with_yield(true, lazy=5 * MS)
    assert exceeded(with_yield(taskset_of(once, TRAINER), lazy=5 * MS), lazier)
    three = taskset_of(once, TRAINER, second, third, groups=3)
    assert not exceeded(three, three)
    assert exceeded(taskset_of(once, TRAINER), three)
    assert exceeded(with_yield(three, slice=1 * US), three)
    two, turns = taskset_of(once, TRAINER, second, groups=2), 1_500 * US  # no order is under way when a job begins
    two = with_yield(two, lazy=2 * MS)
    assert not exceeded(two, two, less=turns)
    assert exceeded(two, with_yield(two, stall=500 * US), less=turns)
    two = taskset_of(GAPS.replace("ready = 6", "ready = 9"), TRAINER, second, groups=2)
    assert exceeded(two, replace(two, platform=replace(two.platform, alpha=9 * MS)))
    lazier = with_yield(two, lazy=5 * MS)
    assert exceeded(two, lazier)
    assert not exceeded(lazier, lazier)


def in_turn(taskset: Taskset, groups: int = 1, **changes: int) -> Taskset:
    """The same processes, where all but ``groups`` - 1 take turns."""
    taskset = with_yield(taskset, groups=groups, **changes)
    return replace(taskset, platform=replace(taskset.platform, begin=TURNS))


def test_turns_by_hand() -> None:
    """Three processes count as one, and a turn that is handed on as one more slice; late news of a begin as W."""
    once = CAMERA.replace("ready = 2", "ready = 1")
    three = taskset_of(once, TRAINER, *(TRAINER.replace("trainer", name) for name in ("second", "third")), groups=3)
    assert wcrt(in_turn(three), "camera") == 8 * MS + (1_000 + 2 * 750) * US + 2_700 * US
    assert wcrt(in_turn(three, decision=1_001 * US), "camera") == 8 * MS + 2 * (1_000 + 2 * 1_001 + 1_600) * US
    none = registry.TESTS["gcaps-suspend"].run(in_turn(three, groups=0))
    assert "groups is below 1" in str(none.failures[0])


def test_without_turns_the_bound_is_exceeded() -> None:
    """Three more processes are on then, and the file counts one."""
    once, others = GAPS.replace("ready = 6", "ready = 1"), ("second", "third", "fourth")
    true = taskset_of(once, TRAINER, *(TRAINER.replace("trainer", name) for name in others), groups=4)
    true = with_yield(true, lazy=20 * MS)
    said = in_turn(true)
    assert not exceeded(said, said)
    assert exceeded(said, true)


#: Two short segments of a job, with less time between them than orders take.
CLOSE = """
[[task]]
name = "camera"
cpu = 0
priority = 20
period = "8ms"
segments = [{ misc = "0ms", gpu = "0.1ms", ready = 1 }, { misc = "0.1ms", gpu = "0.4ms", ready = 1 }]
"""


def test_an_order_under_way_gives_others_one_more_turn() -> None:
    """It is of the segment before: it takes a process off, and puts it on again, while the next segment waits."""
    close = taskset_of(CLOSE, TRAINER, TRAINER.replace("trainer", "second"), groups=2)
    close = with_yield(replace(close, platform=replace(close.platform, alpha=450 * US)), slice=100 * US)
    rng, bound = random.Random(1), wcrt(close, "camera")
    worst = 0
    for seed in range(800):
        offsets = [rng.randrange(task.period) for task in close]
        seen = simulate(close, Options(execution="worst", horizon=80 * MS, seed=seed), offsets)
        worst = max(worst, seen.tasks["camera"].worst)
    assert 600 * US + 2 * 950 * US < worst <= bound


def test_the_most_urgent_slice_ends_too() -> None:
    """Where updates take longer than it, others have more turns than k says."""
    gpu = GAPS.replace("ready = 6", "ready = 1").replace("4ms", "130ms").replace('"20ms"', '"400ms"')
    slow = taskset_of(gpu, TRAINER)
    slow = replace(slow, platform=replace(slow.platform, alpha=200 * MS))
    assert wcrt(slow, "camera") == (1_500 + 130_000 + 1_100 + 200_250) * US
    assert not exceeded(slow, slow)
    short = with_yield(slow, long=140 * MS)
    assert wcrt(short, "camera") == (1_500 + 130_000 + 1_750) * US
    assert exceeded(short, slow)
    assert not exceeded(short, short)


@pytest.mark.parametrize("region", [300 * US, 1 * MS])
def test_a_switch_under_way_waits_for_a_region(region: int) -> None:
    """An update that does not outlast it has no bound: simulations exceed the one that forgets the region."""
    found = taskset_of(CAMERA, TRAINER, groups=2)
    fast = replace(found, platform=replace(found.platform, alpha=300 * US, region=region))
    failures = registry.TESTS["gcaps-suspend"].run(fast).failures
    assert {str(one).partition("because ")[2] for one in failures} == {
        "alpha is below theta and the region, although updates wait for switches under way"
    }
    slow = replace(found, platform=replace(found.platform, alpha=found.platform.theta + region, region=region))
    assert not exceeded(slow, switching(slow))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stall": 'stall = "1us"'}, "stall is not 0"),
        ({"same": ""}, "have the same GPU priority"),
        ({"groups": ""}, "groups is below 1"),
        ({"copy": ""}, "segments with copies begin otherwise"),
        ({"partition": ""}, "no bound is known for partitions"),
        ({"process": ""}, "processes of several threads"),
    ],
)  # fmt: skip
def test_what_has_no_bound_says_why(changed: dict[str, str], why: str) -> None:
    """No bound by silence."""
    (what,) = changed
    if what == "stall":
        found = taskset_of(CAMERA, TRAINER, **changed)
    elif what == "groups":
        found = taskset_of(CAMERA, TRAINER, groups=0)
    elif what == "same":
        found = taskset_of(CAMERA, DETECTOR.replace("priority = 10", "priority = 20"))
    elif what == "copy":
        found = taskset_of(CAMERA.replace('{ cpu = "1ms" }', '{ cpu = "1ms" }, { copy = "1ms" }'), TRAINER)
    elif what == "partition":
        found = taskset_of(CAMERA + 'partition = "one"\n', '\n[[partition]]\nname = "one"\nslice = "2ms"\n')
    else:
        found = taskset_of(CAMERA + 'process = "one"\n', DETECTOR + 'process = "one"\ngpu_priority = 20\n')
    test = registry.TESTS["gcaps-suspend"]
    assert {str(one) for one in test.run(found).failures if why in str(one)}, test.run(found).failures
    assert not answer(found).schedulable


def test_other_tests_say_nothing_of_yield() -> None:
    """A test that is named says so."""
    found = taskset_of(CAMERA, TRAINER)
    for name in ("boosted-suspend", "tsg-rr-suspend", "gcaps-suspend+gpu-priority"):
        assert all('is for begin = "isolated"' in str(one) for one in registry.TESTS[name].run(found).failures), name


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('policy = "segment"', 'policy = "boosted"', "yield goes with policy"),
        ('begin = "yield"', 'begin = "isolated"', 'yield: goes with begin = "yield"'),
        ('decision = "0.05ms", ', "", '"decision" is missing'),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, why: str) -> None:
    """Each is reported with its line."""
    with pytest.raises(TasksetError, match=why):
        parse(Path("set.toml"), HEAD.replace("GROUPS", "1").replace(old, new) + CAMERA)


def test_without_the_measured_values_there_is_no_bound() -> None:
    """The file is right, and lacks what bounds need."""
    head = HEAD.replace("GROUPS", "1")
    lines = [line for line in head.splitlines() if not line.startswith(("yield", "theta"))]
    file = parse(Path("set.toml"), "\n".join(lines) + CAMERA)
    assert [one.message for one in file.lacks] == [
        "platform: theta is missing, which bounds of begin by yield need",
        "platform: yield is missing, which bounds of begin by yield need",
    ]  # fmt: skip
    assert not answer(file.taskset).schedulable
    assert Waiting.SUSPEND is file.taskset.tasks[0].waiting
