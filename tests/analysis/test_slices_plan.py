"""The plan of slices and levels: what it finds passes the test, and what it calls impossible no slices pass."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

from builders import cpu, gpu, ms, task, taskset
from random_tasksets import random_taskset

from analysis.answers.slices import homes, least_slices, plan_slices, slices_verdict
from analysis.model import MS, Taskset, Waiting
from analysis.model.driver import settable
from analysis.papers import registry
from analysis.slices.runlist import Level, Runlist, runlist


def passes(system: Taskset) -> bool:
    return registry.find("supply-fp").run(system).schedulable


def with_slices(system: Taskset, planned: Runlist) -> Taskset:
    """The taskset with the partitions that a file gets."""
    made, names = homes(system, planned)
    by_name = {one.name: one for one in made}
    tasks = tuple(replace(one, partition=by_name.get(names.get(one.name), one.partition)) for one in system)
    return replace(system, tasks=tasks, partitions=tuple(made))


def example() -> Taskset:
    """The specification's example T3: 4 ms in 20 and 10 ms in 40, a switch takes 0.2 ms."""
    tasks = task("a", 0, 2, 20, gpu(0, 4)), task("b", 1, 1, 40, gpu(0, 10))
    return taskset(*tasks, theta=0.2, epsilon=0.2)


def test_light_tasks_have_the_shortest_slices() -> None:
    """a: 4 turns with 1.4 ms between them are 9.6 ms; b: 10 are 24 ms."""
    found = plan_slices(example())
    assert found is not None
    assert [(entry.slice, entry.level) for entry in found.entries] == [(MS, Level.LOW)] * 2
    result = registry.find("supply-fp").run(with_slices(example(), found))
    assert (result.wcrt("a"), result.wcrt("b")) == (ms(9.6), ms(24))


def test_a_slice_grows_as_far_as_its_task_needs() -> None:
    """5 ms within 9, gaps of 1.4: three turns take 9.2, so two are needed, of 2.5 ms; the driver keeps 2.512."""
    system = taskset(task("a", 0, 2, 20, gpu(0, 5), deadline=9), task("b", 1, 1, 90, gpu(0, 2)), theta=0.2, epsilon=0.2)
    found = plan_slices(system)
    assert found is not None
    assert [entry.slice for entry in found.entries] == [ms(2.512), MS]
    assert passes(with_slices(system, found))


def test_a_level_is_raised_where_no_slices_do() -> None:
    """u needs the GPU within 3 ms, but each of three others has it for at least 1 ms: only level high waits for one."""
    others = [task(f"o{i}", i + 1, 5 - i, 100, gpu(0, 9)) for i in range(3)]
    system = taskset(task("u", 0, 9, 50, gpu(0, 1), deadline=3), *others)
    found = plan_slices(system)
    assert found is not None
    assert [entry.level for entry in found.entries][1:] == [Level.LOW] * 3
    assert found.entries[0].level is not Level.LOW
    assert passes(with_slices(system, found))


def test_what_cannot_be_is_none() -> None:
    assert plan_slices(taskset(task("a", 0, 2, 20, gpu(0, 15)), task("b", 1, 1, 20, gpu(0, 15)))) is None


def test_least_slices_are_least() -> None:
    """Against all pairs from a coarse grid: none passes that is not at least as long in both."""
    system = taskset(task("a", 0, 2, 30, gpu(0, 11), deadline=24), task("b", 1, 1, 40, cpu(3), gpu(1, 8), deadline=30),
                     theta=0.3, epsilon=0.3)  # fmt: skip
    start = runlist(system)
    found = least_slices(system, start, [Level.LOW] * 2, [0, 1])
    assert found is not None
    least = [entry.slice for entry in found.entries]
    grid = [slice_ for slice_ in settable() if slice_ <= 12 * MS][::16]
    for pair in product(grid, repeat=2):
        entries = [replace(e, slice=s, kept=s) for e, s in zip(start.entries, pair, strict=True)]
        if passes(with_slices(system, replace(start, entries=tuple(entries)))):
            assert all(one >= two for one, two in zip(pair, least, strict=True))


def test_every_plan_passes_the_test() -> None:
    rng, planned = random.Random(5), 0
    for _ in range(60):
        system = random_taskset(rng)
        cpu_only = [t for t in system.real_time if not t.uses_gpu]
        found = plan_slices(system)
        if found is None:
            continue
        result = registry.find("supply-fp").run(with_slices(system, found))
        if all(result.wcrt(t.name) is not None for t in cpu_only):
            planned += 1
            assert result.schedulable
    assert planned > 10


def test_the_verdict_is_by_the_test_for_how_tasks_wait() -> None:
    names = {}
    for modes in product(Waiting, repeat=2):
        tasks = (replace(one, waiting=mode) for one, mode in zip(example(), modes, strict=True))
        system = replace(example(), tasks=tuple(tasks))
        found = plan_slices(system)
        assert found is not None
        names[modes] = slices_verdict(system, found).test
    busy, suspend = Waiting.BUSY, Waiting.SUSPEND
    assert (names[busy, busy], names[suspend, suspend]) == ("supply-fp-busy", "supply-fp")
    assert names[busy, suspend] == names[suspend, busy] == "supply-fp-mixed"
