"""Time partitions: the driver's rounding, supply bound functions, and bounds of tasks with slices and levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import cpu, gpu, ms, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answers import compiled
from analysis.answers.verdict import answer, covering
from analysis.model import MS, US, Kernel, Partition, Sharing, Span, Taskset, Waiting
from analysis.model.driver import longest_slice, settled
from analysis.model.fold import parts_apart, whole_gpu
from analysis.papers import registry
from analysis.partition.inside import SporadicTask
from analysis.simulation.simulate import Options, simulate, worst_over_offsets
from analysis.slices.runlist import runlist
from analysis.slices.supply import Supply, edf_supplied, response
from analysis.taskset.file import parse


@pytest.mark.parametrize(
    ("given_us", "kept_us"),
    [(50_000, 49_920), (10_000, 9_984), (5_000, 4_992), (3_000, 2_992), (2_600, 2_592), (1_000, 1_000), (1_024, 1_024),
     (2_000, 2_000), (2_512, 2_512), (2_500, 2_496), (255, 255), (257, 256)],
)  # fmt: skip
def test_slices_are_rounded_as_the_driver_does(given_us: int, kept_us: int) -> None:
    assert settled(given_us * US) == kept_us * US


def test_a_slice_may_last_longer_than_it_says() -> None:
    assert (longest_slice(1_000, True), longest_slice(1_000, False)) == (1_024, 1_000)


@given(slice_=st.integers(1, 9), gap=st.integers(0, 9), work=st.integers(0, 60))
def test_least_is_the_inverse_of_the_supply_bound_function(slice_: int, gap: int, work: int) -> None:
    supply = Supply(slice_, gap)
    assert supply.least(work) == next(t for t in range(10_000) if supply.by(t) >= work)


def sliced(*parts: tuple[str, float], theta: float = 0.2) -> Taskset:
    """One GPU task for each pair of level and slice (ms), with 12 ms of work."""
    homes = [Partition(name=f"p{i}", slice=ms(length), interleave=level) for i, (level, length) in enumerate(parts)]
    tasks = [replace(task(f"t{i}", i, 9 - i, 900, gpu(0, 12)), partition=home) for i, home in enumerate(homes)]
    made = taskset(*tasks, theta=theta, epsilon=theta)
    return replace(made, partitions=tuple(homes))


def test_three_slices_of_level_low() -> None:
    """Example T1: 12 + 3 (3 + 0.4 + 0.2) = 22.8.  The driver makes 4.992 of 5, which needs as many turns."""
    system = sliced(("low", 5), ("low", 2), ("low", 1))
    assert registry.find("supply-fp").run(system).wcrt("t0") == ms(22.8)


def test_levels_by_hand() -> None:
    """High 1 ms, medium 2, low 4, no switches: h waits for 4; m for h, low, h; low for h, m, h."""
    table = runlist(sliced(("high", 1), ("medium", 2), ("low", 4), theta=0))
    assert [table.gap(entry) for entry in table.entries] == [ms(4), ms(6), ms(4)]


@settings(max_examples=tries(60), deadline=None)
@given(system=tasksets())
def test_one_slice_and_level_is_round_robin(system: Taskset) -> None:
    ours = registry.find("supply-fp").run(system)
    theirs = registry.find("tsg-rr-suspend").run(system)
    assert {t.name: ours.wcrt(t.name) for t in system.real_time} == {
        t.name: theirs.wcrt(t.name) for t in system.real_time
    }


@pytest.mark.parametrize("slice_us", [1_023, 1_024, 5_000, 49_999])
@pytest.mark.parametrize("stated", ["platform", "partition"])
def test_a_file_s_slices_are_those_that_a_tegra_keeps_and_as_long_as_they_last_there(
    slice_us: int, stated: str
) -> None:
    """The board has turns of what the driver keeps, in units of 1,024 ns; the file says what the driver is told."""
    own, part = (f'time_slice = "{slice_us}us"', "") if stated == "platform" else ("", f'slice = "{slice_us}us"')
    lines = ["[platform]", "cpus = 3", 'epsilon = "0.1ms"', 'theta = "0.1ms"', 'policy = "timesliced"', own]
    for at in range(3):
        where = ["[[partition]]", f'name = "p{at}"', 'interleave = "low"', part] if part else []
        lines += [*where, "[[task]]", f'name = "t{at}"', f"cpu = {at}", f"priority = {9 - at}", 'period = "1800ms"']
        segment = f'{{ misc = "0ms", gpu = "{9 * slice_us if at else 3 * slice_us}us" }}'
        lines += [f'partition = "p{at}"' if part else "", f"segments = [{segment}]"]
    system = parse(Path("set.toml"), "\n".join(lines)).taskset
    found = [test for test in covering(system) if answer(system).schedulable]
    real = settled(slice_us * US) // US * 1_024
    board = replace(system.with_partitions(lambda one: replace(one, slice=real)),
                    platform=replace(system.platform, time_slice=real))  # fmt: skip
    seen = [simulate(board, Options("timesliced"), [at, 0, 0]).tasks["t0"].worst for at in (0, US, real)]
    assert found
    for test in found:
        bound = test.run(system).wcrt("t0")
        assert bound is not None
        assert max(seen) <= bound, test.name
        assert compiled.run_compiled(test, system).wcrt("t0") == bound


def shared(order: Sharing) -> Taskset:
    """a (2 of 10 ms) and b (3 of 20 ms) share a TSG of 1 ms slices beside one of 1 ms: supply 1 of 2 ms."""
    one = Partition(name="one", slice=MS, shared=order)
    other = Partition(name="other", slice=MS)
    tasks = [
        replace(task("a", 0, 9, 10, gpu(0, 2)), partition=one), replace(task("b", 1, 8, 20, gpu(0, 3)), partition=one),
        replace(task("c", 2, 7, 90, gpu(0, 40)), partition=other),
    ]  # fmt: skip
    return replace(taskset(*tasks), partitions=(one, other))


def test_a_shared_tsg_by_priority() -> None:
    """a: 2 + 2 = 4.  b: 3 + 2 of a, and of a's jitter (2 ms) one job more from 8 ms on: 5 + 5 = 10, then 7 + 7 = 14."""
    result = registry.find("supply-fp").run(shared(Sharing.PRIORITY))
    assert result.wcrt("a") == ms(4)
    assert result.wcrt("b") == ms(14)


def test_a_shared_tsg_by_deadline() -> None:
    """EDF: dbf(10) = 2 <= 5, dbf(20) = 7 <= 10; load 0.35 of 0.5."""
    jobs = [SporadicTask(ms(2), ms(10), ms(10)), SporadicTask(ms(3), ms(20), ms(20))]
    assert edf_supplied(jobs, Supply(MS, MS))
    assert not edf_supplied([replace(jobs[0], deadline=ms(3)), jobs[1]], Supply(MS, MS))
    assert not edf_supplied([*jobs, SporadicTask(ms(3), ms(20), ms(20))], Supply(MS, MS)), "the whole supply is used"
    assert registry.find("supply-edf").run(shared(Sharing.DEADLINE)).schedulable


def test_the_order_of_a_shared_tsg_is_the_files() -> None:
    """A proof for the other order is none, and round robin at one level proves nothing of slices."""
    for order, name in ((Sharing.PRIORITY, "supply-fp"), (Sharing.DEADLINE, "supply-edf")):
        system = shared(order)
        system = replace(system, platform=replace(system.platform, policy="timesliced"))
        assert [test.name for test in covering(system)] == [name]
        assert answer(system).schedulable
    boosted = shared(Sharing.PRIORITY)
    assert covering(boosted) == []


def test_a_task_whose_mate_has_no_bound_has_none() -> None:
    system = shared(Sharing.PRIORITY)
    late = replace(system.tasks[0], deadline=ms(3))
    result = registry.find("supply-fp").run(replace(system, tasks=(late, *system.tasks[1:])))
    assert result.wcrt("b") is None


def test_the_order_matters_in_the_simulation() -> None:
    """The shorter job of lower priority but earlier deadline goes first by deadline only."""
    home = Partition(name="one", slice=MS, shared=Sharing.PRIORITY)
    seen = {}
    for order in Sharing:
        one = replace(home, shared=order)
        system = taskset(
            replace(task("urgent", 0, 2, 50, gpu(0, 8)), partition=one),
            replace(task("early", 1, 1, 40, gpu(0, 2), deadline=10), partition=one), task("other", 2, 1, 40, cpu(1)),
        )  # fmt: skip
        system = replace(system, partitions=(one,))
        seen[order] = worst_over_offsets(system, Options("timesliced", horizon=ms(50)), 1).tasks
    assert (seen[Sharing.PRIORITY]["urgent"].worst, seen[Sharing.PRIORITY]["early"].worst) == (ms(8), ms(10))
    assert (seen[Sharing.DEADLINE]["urgent"].worst, seen[Sharing.DEADLINE]["early"].worst) == (ms(10), ms(2))


def test_no_work_waits_for_nothing() -> None:
    assert response(Supply(MS, MS), 0, lambda t: t, MS) == 0
    assert response(Supply(MS, MS), MS, lambda t: t, 10 * MS) > 10 * MS


def spinning(waiting: tuple[Waiting, Waiting]) -> Taskset:
    """On one CPU h (1 + 2 on the GPU) above i (2 + 1 on the GPU), each with 1 ms turns beside each other's."""
    tasks = (
        replace(task("h", 0, 9, 50, cpu(1), gpu(0, 2)), waiting=waiting[0]),
        replace(task("i", 0, 8, 60, cpu(2), gpu(0, 1)), waiting=waiting[1]),
    )
    return replace(taskset(*tasks), platform=replace(taskset(*tasks).platform, time_slice=MS))


def test_what_a_task_spins_for_is_charged_to_those_below_it() -> None:
    """h: 1 + 2 + 2 waits of 1.  i: 2 + 1 + 1, and all 5 ms of h."""
    result = registry.find("supply-fp-busy").run(spinning((Waiting.BUSY, Waiting.BUSY)))
    assert (result.wcrt("h"), result.wcrt("i")) == (ms(5), ms(9))


def test_in_mixed_modes_only_those_that_spin_hold_the_cpu() -> None:
    """i after a suspending h: 4 + 1 and, of h's jitter (4 ms), the same job only.  After a spinning one: 4 + 5."""
    mixed = registry.find("supply-fp-mixed")
    suspended = mixed.run(spinning((Waiting.SUSPEND, Waiting.BUSY)))
    spun = mixed.run(spinning((Waiting.BUSY, Waiting.SUSPEND)))
    assert (suspended.wcrt("h"), suspended.wcrt("i")) == (ms(5), ms(5))
    assert (spun.wcrt("h"), spun.wcrt("i")) == (ms(5), ms(9))
    assert covering(replace(spinning((Waiting.BUSY, Waiting.SUSPEND)), platform=replace(
        spinning((Waiting.BUSY, Waiting.SUSPEND)).platform, policy="timesliced"))) == [mixed]  # fmt: skip


@settings(max_examples=tries(30), deadline=None)
@given(system=tasksets())
def test_where_all_suspend_mixed_modes_make_no_difference(system: Taskset) -> None:
    one, other = registry.find("supply-fp").run(system), registry.find("supply-fp-mixed")
    whole = replace(system, tasks=tuple(replace(t, waiting=Waiting.SUSPEND) for t in system))
    assert {t.name: one.wcrt(t.name) for t in system.real_time} == {
        t.name: other.run(whole).wcrt(t.name) for t in system.real_time
    }


def test_the_wait_of_a_task_above_without_a_bound_is_no_bound() -> None:
    late = spinning((Waiting.BUSY, Waiting.BUSY))
    late = replace(late, tasks=(replace(late.tasks[0], deadline=ms(4)), late.tasks[1]))
    result = registry.find("supply-fp-busy").run(late)
    assert (result.wcrt("h"), result.wcrt("i")) == (None, None)


def in_a_row(waiting: Waiting, **home: str | Sharing) -> Taskset:
    """a has 4 kernels of 0.1 ms in a row, beside b with turns of 1 ms."""
    short = Kernel(Span.exactly(0), times=(Span.exactly(ms(0.1)),))
    parts = [Partition(name=name, slice=MS, **home) for name in "ab"] if home else [None, None]  # type: ignore[arg-type]
    tasks = (
        replace(task("a", 0, 9, 50, whole_gpu((short,) * 4, 1)), waiting=waiting, partition=parts[0]),
        replace(task("b", 1, 8, 90, gpu(0, 30)), waiting=waiting, partition=parts[1]),
    )
    made = taskset(*tasks)
    return replace(
        made, platform=replace(made.platform, time_slice=MS, policy="timesliced"), partitions=tuple(filter(None, parts))
    )


@pytest.mark.parametrize("waiting", Waiting)
@pytest.mark.parametrize("home", [{}, {"interleave": "low"}, {"shared": Sharing.PRIORITY}])
def test_a_program_that_waits_for_each_kernel_loses_its_turn_each_time(
    waiting: Waiting, home: dict[str, str | Sharing]
) -> None:
    """As one piece of work a would wait once: 1.4 ms.  Each kernel waits for b, which takes 4 (0.1 + 1) ms."""
    system = in_a_row(waiting, **home)
    seen = simulate(parts_apart(system), Options("timesliced", horizon=MS), [US, 0]).tasks["a"].worst
    found = covering(system)
    assert found
    for test in found:
        assert seen <= (test.run(system).wcrt("a") or 0) == ms(4.4)
    assert seen > ms(4.3)


def test_edf_proves_nothing_where_a_task_also_computes_on_its_cpu() -> None:
    """b releases its GPU work late, so that a and c may miss although all of it fits by EDF."""
    home = Partition(name="p", shared=Sharing.DEADLINE, slice=ms(2))
    system = taskset(
        task("a", 0, 3, 40, gpu(0, 5), deadline=12), task("b", 0, 2, 40, cpu(2), gpu(0, 2)),
        task("c", 1, 1, 20, gpu(0, 5), deadline=15), theta=0.2, epsilon=0.2,
    )  # fmt: skip
    system = replace(
        system, platform=replace(system.platform, policy="timesliced"), partitions=(home,),
        tasks=tuple(replace(one, partition=home) for one in system),
    )  # fmt: skip
    result = registry.find("supply-edf").run(system)
    assert [result.wcrt(one.name) for one in system] == [None, None, None]
