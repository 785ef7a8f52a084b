"""Interleave levels of the virtual GPU: the order of the driver's runlist, and the longest wait between two turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from native_build import LONG

from analysis.model import GpuSegment, Partition, Platform, Span, Task, Taskset
from analysis.slices.runlist import Level, runlist
from gpurt._gpurt import ffi, lib

LOW, MEDIUM, HIGH = Level.LOW, Level.MEDIUM, Level.HIGH
WORK = 10**6


def printed(levels: Sequence[Level]) -> list[int]:
    """One cycle of the driver's runlist, written from its source's description: an independent oracle."""
    high = [i for i, level in enumerate(levels) if level is HIGH]
    medium = [i for i, level in enumerate(levels) if level is MEDIUM]
    low = [i for i, level in enumerate(levels) if level is LOW]
    before_low = [tsg for m in medium for tsg in (*high, m)]
    if low:
        return [tsg for one in low for tsg in (*before_low, *high, one)]
    return before_low or high


class Gpu:
    """The compiled virtual GPU with a TSG of each level; notes whose turn begins."""

    def __init__(self, levels: Sequence[Level], slices: Sequence[int], theta: int) -> None:
        self.turns: list[tuple[int, int]] = []
        self.done: dict[int, list[int]] = {}
        both = "struct gpurt_vgpu *, struct gpurt_vgpu_tsg *"
        self._calls = (
            ffi.callback(f"void({both}, struct gpurt_vgpu_work *, u64)", self._done),
            ffi.callback(f"void({both}, u64)", self._run),
        )
        self._ops = ffi.new("struct gpurt_vgpu_ops *", {"done": self._calls[0], "run": self._calls[1]})
        self.vgpu = ffi.new("struct gpurt_vgpu *")
        lib.gpurt_vgpu_init(self.vgpu, self._ops, ffi.NULL, 1, theta, 0, True, 0)
        self._contexts = [ffi.new("struct gpurt_vgpu_ctx *") for _ in levels]
        self.tsgs = [ffi.new("struct gpurt_vgpu_tsg *") for _ in levels]
        for context, tsg, level, slice_ in zip(self._contexts, self.tsgs, levels, slices, strict=True):
            lib.gpurt_vgpu_ctx_init(context)
            lib.gpurt_vgpu_tsg_open(tsg, context)
            lib.gpurt_vgpu_shape(self.vgpu, tsg, slice_, level, 0)
        self._works: list[Any] = []

    def _done(self, _vgpu: Any, tsg: Any, _work: Any, when: int) -> None:
        self.done.setdefault(self.tsgs.index(tsg), []).append(when)

    def _run(self, _vgpu: Any, tsg: Any, when: int) -> None:
        if tsg != ffi.NULL:
            self.turns.append((self.tsgs.index(tsg), when))

    def submit(self, tsg: int, duration: int, now: int) -> None:
        self._works.append(ffi.new("struct gpurt_vgpu_work *"))
        lib.gpurt_vgpu_submit(self.vgpu, self.tsgs[tsg], self._works[-1], 0, False, duration, now)


@given(levels=st.lists(st.sampled_from(list(Level)), min_size=1, max_size=6), theta=st.integers(0, 2))
def test_tsgs_that_always_have_work_have_the_turns_of_the_runlist(levels: list[Level], theta: int) -> None:
    gpu = Gpu(levels, [3] * len(levels), theta)
    for tsg in sorted(range(len(levels)), key=lambda i: -levels[i]):
        gpu.submit(tsg, WORK, 0)
    cycle = printed(levels)
    lib.gpurt_vgpu_advance(gpu.vgpu, 4 * len(cycle) * (3 + theta) - 1)
    seen = [tsg for tsg, _ in gpu.turns]
    if len(levels) == 1:
        assert seen == [0]
        return
    wanted = [cycle[at % len(cycle)] for at in range(len(seen))]
    assert len(seen) >= 3 * len(cycle)
    assert seen[len(cycle):] in [  # the first cycle may begin anywhere
        [cycle[(at + shift) % len(cycle)] for at in range(len(seen) - len(cycle))] for shift in range(len(cycle))
    ], (seen, wanted)


def system(levels: Sequence[Level], slices: Sequence[int], theta: int) -> Taskset:
    segment = GpuSegment(Span.exactly(0), Span.exactly(1))
    tasks = tuple(
        Task(f"t{i}", 0, 1, WORK, WORK, (segment,), partition=Partition(slice=slice_, interleave=level.word))
        for i, (level, slice_) in enumerate(zip(levels, slices, strict=True))
    )
    return Taskset(Platform(1, 0, theta), tasks)


ARRIVALS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(1, 9)), min_size=4, max_size=60)


@settings(max_examples=3000 if LONG else tries(300), deadline=None)
@given(
    levels=st.lists(st.sampled_from(list(Level)), min_size=2, max_size=6),
    slices=st.lists(st.integers(1, 6), min_size=6, max_size=6), theta=st.integers(0, 2), arrivals=ARRIVALS,
)  # fmt: skip
def test_no_work_takes_longer_than_the_supply_bound_says(
    levels: list[Level], slices: list[int], theta: int, arrivals: list[tuple[int, int, int]]
) -> None:
    """Work of random length comes at random times to TSGs without work: done within G + ceil(G / s) gap."""
    gpu, table = Gpu(levels, slices[: len(levels)], theta), runlist(system(levels, slices[: len(levels)], theta))
    now, pending = 0, dict[int, tuple[int, int]]()
    for wait, tsg, length in arrivals:
        now += wait
        lib.gpurt_vgpu_advance(gpu.vgpu, now)
        _check(gpu, table, pending)
        tsg %= len(levels)
        if tsg not in pending:
            pending[tsg] = now, length
            gpu.submit(tsg, length, now)
    lib.gpurt_vgpu_advance(gpu.vgpu, now + 10**5)
    _check(gpu, table, pending)
    assert not pending


def _check(gpu: Gpu, table: Any, pending: dict[int, tuple[int, int]]) -> None:
    for tsg, times in gpu.done.items():
        for when in times:
            since, length = pending.pop(tsg)
            assert when - since <= table.supply(table.entries[tsg]).least(length)
    gpu.done.clear()


def test_the_bound_is_reached() -> None:
    """Low waits for each medium once and each high three times: 2 (mm) + 3 * 3 (h) + 4 (l), and five switches."""
    levels, slices = [LOW, LOW, MEDIUM, MEDIUM, HIGH], [1, 4, 1, 1, 3]
    table = runlist(system(levels, slices, 1))
    gap = table.gap(table.entries[0])
    assert gap == (4 + 1) + 2 * (1 + 1 + 1 + 1) + 2 * 3 * (3 + 1) + 1
    gpu = Gpu(levels, slices, 1)
    for tsg in range(5):
        gpu.submit(tsg, WORK, 0)
    lib.gpurt_vgpu_advance(gpu.vgpu, 10 * gap)
    mine = [when for tsg, when in gpu.turns if tsg == 0]
    assert mine[2] - mine[1] == slices[0] + gap


def test_a_level_that_changes_counts_from_then_on() -> None:
    gpu = Gpu([LOW, LOW, LOW], [2, 2, 2], 0)
    for tsg in range(3):
        gpu.submit(tsg, WORK, 0)
    lib.gpurt_vgpu_shape(gpu.vgpu, gpu.tsgs[2], 1, HIGH, 7)
    lib.gpurt_vgpu_advance(gpu.vgpu, 20)
    later = [tsg for tsg, when in gpu.turns if when >= 8]
    assert later[:6] in ([2, 0, 2, 1, 2, 0], [2, 1, 2, 0, 2, 1])
