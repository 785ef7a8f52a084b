# SPDX-License-Identifier: GPL-2.0
"""A divided virtual GPU against a naive model, and pieces of time that do not matter."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from divided import COMPUTE, MEMORY, NONE, Divided, Part
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from native_build import LONG

from gpurt._gpurt import ffi, lib

CLIENTS = 3


class Compiled:
    """The compiled partitions of a GPU, each with as many clients, which have a TSG each."""

    def __init__(self, shapes: list[tuple[int, int, int]], cross: int, whole: bool = True) -> None:
        self.done: list[tuple[int, int, int, int]] = []
        both = "struct gpurt_vgpu *, struct gpurt_vgpu_tsg *"
        self._done = ffi.callback(f"void({both}, struct gpurt_vgpu_work *, u64)", self.on_done)
        self.ops = ffi.new("struct gpurt_vgpu_ops *", {"done": self._done, "run": ffi.NULL})
        self.whole = ffi.new("struct gpurt_whole *")
        lib.gpurt_whole_init(self.whole, cross)
        self.parts = [ffi.new("struct gpurt_vgpu *") for _ in shapes]
        self.contexts: list[list[Any]] = []
        self.tsgs: list[list[Any]] = []
        self.works: list[Any] = []
        for part, (slice_, theta, alpha) in zip(self.parts, shapes, strict=True):
            lib.gpurt_vgpu_init(part, self.ops, ffi.NULL, slice_, theta, alpha, True, 0)
            if whole:
                lib.gpurt_whole_add(self.whole, part)
            self.contexts.append([ffi.new("struct gpurt_vgpu_ctx *") for _ in range(CLIENTS)])
            self.tsgs.append([ffi.new("struct gpurt_vgpu_tsg *") for _ in range(CLIENTS)])
            for context, tsg in zip(self.contexts[-1], self.tsgs[-1], strict=True):
                lib.gpurt_vgpu_ctx_init(context)
                lib.gpurt_vgpu_tsg_open(tsg, context)

    def on_done(self, vgpu: Any, tsg: Any, work: Any, when: int) -> None:
        part = self.parts.index(vgpu)
        self.done.append((part, self.tsgs[part].index(tsg), work.number, when))

    def submit(self, part: int, client: int, duration: int, intensity: int, conflict: int, now: int) -> None:
        self.works.append(ffi.new("struct gpurt_vgpu_work *"))
        demand = ffi.new("struct gpurt_vgpu_demand *", {
            "duration": duration, "engine": lib.GPURT_ENGINE_EXEC, "intensity": intensity, "conflict": conflict,
        })  # fmt: skip
        lib.gpurt_vgpu_submit_as(self.parts[part], self.tsgs[part][client], self.works[-1], demand, now)

    def commit(self, part: int, only: int | None, now: int) -> None:
        lib.gpurt_vgpu_commit(self.parts[part], ffi.NULL if only is None else self.contexts[part][only], now)


FACTOR = st.sampled_from([1000, 1001, 1500, 2000, 2300, 3000, 7919, 64000]) | st.integers(1000, 4000)
SUBMIT = st.tuples(
    st.just("submit"), st.integers(0, 2), st.integers(0, CLIENTS - 1), st.integers(1, 12),
    st.sampled_from([NONE, COMPUTE, MEMORY, MEMORY]), FACTOR,
)  # fmt: skip
COMMIT = st.tuples(st.just("commit"), st.integers(0, 2), st.none() | st.integers(0, CLIENTS - 1))
ACTIONS = st.lists(st.tuples(st.integers(0, 9), st.one_of(SUBMIT, SUBMIT, COMMIT)), min_size=1, max_size=20)
SHAPES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=3)


def both(actions: list[Any], shapes: list[Any], cross: int, pieces: int = 0) -> tuple[Compiled, Divided]:
    """The same happens on the compiled GPU and in the model; time passes on the former in further `pieces`."""
    gpu, model = Compiled(shapes, cross), Divided([Part(*shape) for shape in shapes], cross)
    end = [(0, ("commit", part, None)) for part in range(3)]
    for wait, action in [*actions, *end]:
        for _ in range(wait):
            model.step()
            if pieces and model.now % pieces == 0:
                lib.gpurt_vgpu_advance(gpu.parts[model.now % 3], model.now)
        if action[0] == "submit":
            gpu.submit(*action[1:], now=model.now)
            model.submit(*action[1:])
        else:
            gpu.commit(*action[1:], now=model.now)
            model.commit(*action[1:])
    while len(model.done) < len(gpu.works):
        model.step()
    lib.gpurt_vgpu_advance(gpu.parts[0], model.now)
    return gpu, model


@settings(max_examples=1500 if LONG else tries(60), deadline=None)
@given(actions=ACTIONS, shapes=SHAPES, cross=FACTOR, pieces=st.integers(0, 3))
def test_completion_times_are_those_of_the_naive_model(
    actions: list[Any], shapes: list[Any], cross: int, pieces: int
) -> None:
    gpu, model = both(actions, shapes, cross, pieces)
    assert sorted(gpu.done) == sorted(model.done)
    assert [when for *_, when in gpu.done] == sorted(when for *_, when in gpu.done)
    assert lib.gpurt_whole_next(gpu.whole) == 2**64 - 1
    assert [list(part.users) for part in gpu.parts] == [[0, 0, 0]] * 3


@settings(max_examples=tries(100), deadline=None)
@given(actions=ACTIONS, shapes=SHAPES, classes=st.booleans())
def test_without_factors_a_partition_is_a_gpu_of_its_own(
    actions: list[Any], shapes: list[Any], classes: bool
) -> None:
    """Factors of 1, or no intensity: as three GPUs that know nothing of each other, to the ns."""
    runs = []
    for whole in (True, False):
        gpu, now = Compiled(shapes, 1000 if classes else 64000, whole), 0
        for wait, action in actions:
            now += wait
            if action[0] == "submit":
                _, part, client, duration, intensity, _ = action
                gpu.submit(part, client, duration, intensity if classes else NONE, 1000, now)
            else:
                gpu.commit(*action[1:], now=now)
        for part in range(3):
            lib.gpurt_vgpu_commit(gpu.parts[part], ffi.NULL, now)
        for part in range(3):
            lib.gpurt_vgpu_advance(gpu.parts[part], now + 10**4)
        runs.append(sorted(gpu.done))
    assert runs[0] == runs[1]
    assert len(runs[0]) == len(gpu.works)


@given(
    work=st.integers(1, 2**62), one=FACTOR, other=FACTOR, cuts=st.lists(st.integers(1, 10**6), max_size=8),
)  # fmt: skip
def test_nothing_is_lost_however_often_time_passes(work: int, one: int, other: int, cuts: list[int]) -> None:
    """At one pace, the work takes ceil(work pace / 10^6) ns in any pieces; or so long that it does not matter."""
    pace, slow = ffi.new("struct gpurt_pace *"), lib.gpurt_pace_of(one, other)
    lib.gpurt_pace_init(pace, work)
    exact = -(-work * slow // 10**6)
    if exact > lib.GPURT_PACE_NEVER:
        assert lib.gpurt_pace_time(pace, slow) == lib.GPURT_PACE_NEVER
        return
    passed = 0
    for cut in cuts:
        if passed + cut < exact:
            lib.gpurt_pace_pass(pace, slow, cut)
            passed += cut
        left = lib.gpurt_pace_time(pace, slow)
        assert left == exact - passed or (left == lib.GPURT_PACE_NEVER and exact > 2**61)
    if exact <= 2**61:
        lib.gpurt_pace_pass(pace, slow, exact - passed)
        assert pace.left == 0


#: Paces at the ends of their range and between, and what may be done of a ns at each.
PACES = [10**6, 10**6 + 1000, 1_500_000, 2_300_000, 64_000_000, 2300 * 2300, 63_999 * 64_000, 64_000 * 64_000]
WORK = [1, 2, 999_999, 10**6, 10**6 + 1, 3_600_000_000_000, 2**52, 2**62, 2**64 - 1]


def test_nothing_overflows_at_the_ends_of_the_ranges() -> None:
    """Every pace after every other, with some or nothing done of the first ns: as with numbers of any size."""
    checked = 0
    for work, before, slow in itertools.product(WORK, PACES, PACES):
        for done in (0, 1, before // 3, before - 1):
            pace = ffi.new("struct gpurt_pace *", {"left": work, "slow": before, "done": done})
            kept = done if slow == before else done * slow // before
            exact = -(-(work * slow - kept) // 10**6)
            time = lib.gpurt_pace_time(pace, slow)
            if time == lib.GPURT_PACE_NEVER:
                assert exact > 2**61
                continue
            assert time == exact
            for passed in {exact - 1, exact // 2, exact}:
                again = ffi.new("struct gpurt_pace *", {"left": work, "slow": before, "done": done})
                lib.gpurt_pace_pass(again, slow, passed)
                if passed == exact:
                    assert again.left == 0
                else:
                    made = passed * 10**6 + kept
                    assert (again.left, again.done) == (work - made // slow, made % slow)
                checked += 1
    assert checked > 3000


@given(
    work=st.integers(1, 10**13),
    turns=st.lists(st.tuples(FACTOR, FACTOR, st.integers(1, 10**9)), min_size=1, max_size=30),
)  # fmt: skip
def test_a_change_of_pace_forgets_less_than_a_millionth_of_a_ns(work: int, turns: list[tuple[int, int, int]]) -> None:
    pace, exact = ffi.new("struct gpurt_pace *"), Fraction(work)
    lib.gpurt_pace_init(pace, work)
    for changes, (one, other, ns) in enumerate(turns):
        slow = lib.gpurt_pace_of(one, other)
        if lib.gpurt_pace_time(pace, slow) <= ns:
            break
        lib.gpurt_pace_pass(pace, slow, ns)
        exact -= Fraction(ns * 10**6, slow)
        left = pace.left - Fraction(pace.done, pace.slow)
        assert pace.done < pace.slow
        assert exact <= left < exact + (changes + 1) * Fraction(1, 10**6)


def test_a_whole_gpu_may_do_what_is_due_in_steps() -> None:
    slow, quick = (Compiled([(3, 1, 0)] * 3, 1500) for _ in range(2))
    for gpu in (slow, quick):
        for number in range(60):
            gpu.submit(number % 3, number // 3 % 3, 1 + number % 5, 1 + number % 2, 1700, 0)
    lib.gpurt_vgpu_advance(quick.parts[2], 5000)
    while True:
        before = len(slow.done)
        if lib.gpurt_vgpu_catch_up(slow.parts[0], 5000, 2):
            break
        assert len(slow.done) - before <= 2
        assert len({part.now for part in slow.parts}) == 1
    assert slow.done == quick.done
    assert len(slow.done) == 60


def test_a_whole_gpu_that_stood_still_goes_on_where_it_was() -> None:
    gpu = Compiled([(100, 0, 0)] * 2, 2000)
    gpu.submit(0, 0, 10, MEMORY, 1000, 0)
    gpu.submit(1, 0, 10, MEMORY, 1000, 0)
    assert lib.gpurt_vgpu_catch_up(gpu.parts[0], 7, 100)
    lib.gpurt_vgpu_stand_still(gpu.parts[1], 107)  # and so do all
    assert {part.now for part in gpu.parts} == {107}
    assert {lib.gpurt_vgpu_next_of_all(part) for part in gpu.parts} == {lib.gpurt_whole_next(gpu.whole)} == {120}
    lib.gpurt_vgpu_advance(gpu.parts[1], 1000)
    assert sorted(gpu.done) == [(0, 0, 1, 120), (1, 0, 1, 120)]


def test_work_that_is_done_is_over_whatever_pace_begins_then() -> None:
    """At 3 part 1 has done 2 2/3 ns of 2, and part 0 begins to slow it down by 64."""
    gpu = Compiled([(100, 3, 0), (100, 0, 0)], 64000)
    gpu.submit(1, 0, 2, MEMORY, 1500, 0)
    gpu.submit(1, 1, 9, MEMORY, 1000, 0)
    gpu.submit(0, 0, 9, MEMORY, 1000, 0)
    assert lib.gpurt_vgpu_drop(gpu.parts[1], gpu.tsgs[1][1], 1) == gpu.works[1]
    lib.gpurt_vgpu_advance(gpu.parts[0], 1000)
    assert gpu.done == [(1, 0, 1, 3), (0, 0, 1, 12)]


def test_a_partition_that_goes_slows_nothing_down() -> None:
    gpu = Compiled([(100, 0, 0)] * 2, 2000)
    gpu.submit(0, 0, 10, MEMORY, 1000, 0)
    gpu.submit(1, 0, 90, MEMORY, 1000, 0)
    assert lib.gpurt_vgpu_drop(gpu.parts[1], gpu.tsgs[1][0], 8) == gpu.works[1]
    lib.gpurt_whole_remove(gpu.parts[1])
    lib.gpurt_vgpu_advance(gpu.parts[0], 100)
    assert gpu.done == [(0, 0, 1, 14)]  # four of ten by 8
    gpu.submit(1, 1, 5, MEMORY, 3000, 50)  # a GPU of its own now
    lib.gpurt_vgpu_advance(gpu.parts[1], 100)
    assert gpu.done[1:] == [(1, 1, 1, 55)]


@pytest.mark.parametrize(("duration", "units", "time"), [(12, 4, 3), (13, 4, 4), (1, 68, 1), (2**64 - 1, 1, 2**64 - 1)])
def test_units_divide_parallel_work_rounded_up(duration: int, units: int, time: int) -> None:
    gpu = Compiled([(100, 0, 0)], 1000)
    gpu.parts[0].units = units
    parallel = ffi.new("struct gpurt_vgpu_demand *", {"duration": duration, "parallel": True})
    serial = ffi.new("struct gpurt_vgpu_demand *", {"duration": duration, "parallel": False})
    assert lib.gpurt_vgpu_time(gpu.parts[0], parallel) == time
    assert lib.gpurt_vgpu_time(gpu.parts[0], serial) == duration
