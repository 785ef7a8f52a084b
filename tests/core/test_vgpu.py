"""The virtual GPU against a naive model that steps through time one unit at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from native_build import LONG

from gpurt._gpurt import ffi, lib

EXEC, COPY = lib.GPURT_ENGINE_EXEC, lib.GPURT_ENGINE_COPY


class Gpu:
    """The compiled virtual GPU with TSGs, one context each unless given."""

    def __init__(self, contexts: list[int], slice_: int, theta: int, alpha: int, copy: bool) -> None:
        self.done: list[tuple[int, int, int]] = []
        self._done = ffi.callback(
            "void(struct gpurt_vgpu *, struct gpurt_vgpu_tsg *, struct gpurt_vgpu_work *, u64)", self.on_done
        )
        self.ops = ffi.new("struct gpurt_vgpu_ops *", {"done": self._done, "run": ffi.NULL})
        self.vgpu = ffi.new("struct gpurt_vgpu *")
        lib.gpurt_vgpu_init(self.vgpu, self.ops, ffi.NULL, slice_, theta, alpha, copy, 0)
        self.contexts = [ffi.new("struct gpurt_vgpu_ctx *") for _ in range(max(contexts) + 1)]
        for context in self.contexts:
            lib.gpurt_vgpu_ctx_init(context)
        self.tsgs = [ffi.new("struct gpurt_vgpu_tsg *") for _ in contexts]
        for tsg, context in zip(self.tsgs, contexts, strict=True):
            lib.gpurt_vgpu_tsg_open(tsg, self.contexts[context])
        self.works: list[Any] = []

    def on_done(self, _vgpu: Any, tsg: Any, work: Any, when: int) -> None:
        self.done.append((self.tsgs.index(tsg), work.number, when))

    def submit(self, tsg: int, engine: int, fence: bool, duration: int, now: int) -> None:
        self.works.append(ffi.new("struct gpurt_vgpu_work *"))
        lib.gpurt_vgpu_submit(self.vgpu, self.tsgs[tsg], self.works[-1], engine, fence, duration, now)

    def commit(self, only: int | None, now: int) -> None:
        lib.gpurt_vgpu_commit(self.vgpu, ffi.NULL if only is None else self.contexts[only], now)


@dataclass
class Item:
    number: int
    engine: int
    fence: bool
    left: int


@dataclass
class Naive:
    """A model of the virtual GPU that steps through time one unit at a time.  It has no exempt contexts."""

    contexts: list[int]
    slice_: int
    theta: int
    alpha: int
    copy: bool
    time: int = 0
    only: int | None = None
    ring: list[int] = field(default_factory=list)
    holder: int | None = None
    loaded: int | None = None
    busy_until: int = 0
    used: int = 0
    done: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.items: list[list[Item]] = [[] for _ in self.contexts]
        self.numbers = [0] * len(self.contexts)

    def allowed(self) -> list[int]:
        return [t for t in self.ring if self.only is None or self.contexts[t] == self.only]

    def dispatch(self) -> None:
        if self.holder is None and self.time >= self.busy_until and self.allowed():
            self.holder, self.used = self.allowed()[0], 0
            if self.loaded != self.holder:
                self.loaded = None
                self.busy_until = self.time + self.theta
        if self.holder is not None and self.time >= self.busy_until:
            self.loaded = self.holder

    def submit(self, tsg: int, engine: int, fence: bool, duration: int) -> None:
        self.numbers[tsg] += 1
        self.items[tsg].append(Item(self.numbers[tsg], engine if self.copy else EXEC, fence, duration))
        if tsg not in self.ring:
            self.ring.append(tsg)
        self.settle()

    def commit(self, only: int | None) -> None:
        self.holder, self.only, self.busy_until = None, only, self.time + self.alpha
        self.settle()

    def active(self, tsg: int) -> list[Item]:
        chosen = []
        for engine in (EXEC, COPY):
            mine = [i for i in self.items[tsg] if i.engine == engine]
            if mine and (not mine[0].fence or mine[0].number == min(i.number for i in self.items[tsg])):
                chosen.append(mine[0])
        return chosen

    def settle(self) -> None:
        """Does what is due at this instant: ends the slice if other TSGs wait, and gives the GPU to the next TSG."""
        executing = self.holder is not None and self.loaded == self.holder and self.time >= self.busy_until
        if executing and self.used >= self.slice_ and len(self.allowed()) > 1:
            assert self.holder is not None
            self.ring.remove(self.holder)
            self.ring.append(self.holder)
            self.holder = None
        self.dispatch()

    def step(self) -> None:
        """One unit of time."""
        executing = self.holder is not None and self.loaded == self.holder and self.time >= self.busy_until
        self.time += 1
        if executing:
            assert self.holder is not None
            tsg = self.holder
            self.used = self.used + 1 if self.used < self.slice_ else 1  # a TSG that is alone gets a new slice
            running = self.active(tsg)
            for item in running:
                item.left -= 1
            for item in running:
                if item.left == 0:
                    self.items[tsg].remove(item)
                    self.done.append((tsg, item.number, self.time))
            if not self.items[tsg]:
                self.ring.remove(tsg)
                self.holder = None
        self.settle()


SUBMIT = st.tuples(
    st.just("submit"), st.integers(0, 3), st.sampled_from([EXEC, COPY]), st.booleans(), st.integers(1, 9)
)
COMMIT = st.tuples(st.just("commit"), st.none() | st.integers(0, 3))
#: Pairs of the time that passes first and the action that follows.
ACTIONS = st.lists(st.tuples(st.integers(0, 6), st.one_of(SUBMIT, COMMIT)), max_size=25)


@settings(max_examples=600 if LONG else tries(200))
@given(
    actions=ACTIONS, slice_=st.integers(1, 5), theta=st.integers(0, 3), alpha=st.integers(0, 3), copy=st.booleans()
)
def test_completion_times_are_those_of_the_naive_model(
    actions: list[Any], slice_: int, theta: int, alpha: int, copy: bool
) -> None:
    contexts = [0, 1, 2, 3]
    gpu, naive = Gpu(contexts, slice_, theta, alpha, copy), Naive(contexts, slice_, theta, alpha, copy)
    for wait, action in [*actions, (0, ("commit", None)), (400, ("commit", None))]:
        for _ in range(wait):
            naive.step()
        if action[0] == "submit":
            gpu.submit(*action[1:], naive.time)
            naive.submit(*action[1:])
        else:
            gpu.commit(action[1], naive.time)
            naive.commit(action[1])
    assert sorted(gpu.done) == sorted(naive.done)
    assert len(gpu.done) == len(gpu.works)
    assert [when for *_, when in gpu.done] == sorted(when for *_, when in gpu.done)


@settings(max_examples=tries(200))
@given(
    durations=st.lists(st.integers(1, 40), min_size=2, max_size=6), slice_=st.integers(1, 7), theta=st.integers(0, 3),
    arrivals=st.lists(st.integers(0, 30), min_size=6, max_size=6),
)  # fmt: skip
def test_round_robin_delays_a_slice_by_one_slice_of_each_other(
    durations: list[int], slice_: int, theta: int, arrivals: list[int]
) -> None:
    """The assumption of the tsg-rr analyses: a delay of ceil(G/L) (nu (L + theta) + theta), and work is conserved."""
    gpu = Gpu(list(range(len(durations))), slice_, theta, 0, True)
    for tsg, duration in sorted(enumerate(durations), key=lambda pair: arrivals[pair[0]]):
        gpu.submit(tsg, EXEC, False, duration, arrivals[tsg])
    lib.gpurt_vgpu_advance(gpu.vgpu, 10**6)
    finished = {tsg: when for tsg, _, when in gpu.done}
    others = len(durations) - 1
    for tsg, duration in enumerate(durations):
        slices = -(-duration // slice_)
        bound = duration + slices * (others * (slice_ + theta) + theta)
        assert finished[tsg] - arrivals[tsg] <= bound
    assert max(finished.values()) >= sum(durations)


def test_an_exempt_context_runs_beside_the_only_one() -> None:
    gpu = Gpu([0, 1, 2], 2, 0, 0, True)
    lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[1], True, 0)
    gpu.commit(0, 0)
    for tsg in range(3):
        gpu.submit(tsg, EXEC, False, 4, 0)
    lib.gpurt_vgpu_advance(gpu.vgpu, 100)
    # the only one and the exempt one take turns of 2; the third is off the runlist
    assert sorted(gpu.done) == [(0, 1, 6), (1, 1, 8)]


def test_dropping_work_gives_the_gpu_to_the_next() -> None:
    gpu = Gpu([0, 1], 100, 0, 0, True)
    gpu.submit(0, EXEC, False, 50, 0)
    gpu.submit(1, EXEC, False, 5, 0)
    assert lib.gpurt_vgpu_drop(gpu.vgpu, gpu.tsgs[0], 10) == gpu.works[0]
    assert lib.gpurt_vgpu_drop(gpu.vgpu, gpu.tsgs[0], 10) == ffi.NULL
    lib.gpurt_vgpu_tsg_close(gpu.vgpu, gpu.tsgs[0], 10)
    lib.gpurt_vgpu_advance(gpu.vgpu, 100)
    assert gpu.done == [(1, 1, 15)]
    assert lib.gpurt_vgpu_next(gpu.vgpu) == 2**64 - 1


def test_copies_run_beside_kernels_of_the_same_tsg_only() -> None:
    for copy, expected in ((True, [(0, 2, 6), (0, 1, 10), (0, 3, 13)]), (False, [(0, 1, 10), (0, 2, 16), (0, 3, 19)])):
        gpu = Gpu([0], 100, 0, 0, copy)
        gpu.submit(0, EXEC, False, 10, 0)
        gpu.submit(0, COPY, False, 6, 0)
        gpu.submit(0, COPY, True, 3, 0)
        lib.gpurt_vgpu_advance(gpu.vgpu, 100)
        assert gpu.done == expected


@pytest.mark.parametrize("most", [1, 2, 7])
def test_what_is_due_may_happen_in_steps(most: int) -> None:
    """However much is due, a step has at most ``most`` things happen, and in the end nothing differs."""
    slow, quick = (Gpu([0, 1, 2], 3, 1, 0, True) for _ in range(2))
    for gpu in (slow, quick):
        for number in range(60):
            gpu.submit(number % 3, EXEC if number % 2 else COPY, number % 5 == 0, 1 + number % 4, 0)
    lib.gpurt_vgpu_advance(quick.vgpu, 1000)
    steps = 0
    while True:
        before = len(slow.done)
        if lib.gpurt_vgpu_catch_up(slow.vgpu, 1000, most):
            break
        assert len(slow.done) - before <= 2 * most  # both engines may complete at once
        assert slow.vgpu.now < 1000
        steps += 1
    assert steps >= 60 // (2 * most)
    assert slow.done == quick.done
    assert len(slow.done) == 60


def test_a_gpu_that_stood_still_goes_on_where_it_was() -> None:
    gpu = Gpu([0, 1], 10, 2, 0, True)
    gpu.submit(0, EXEC, False, 14, 0)
    gpu.submit(1, EXEC, False, 5, 0)
    assert lib.gpurt_vgpu_catch_up(gpu.vgpu, 7, 100)  # the switch took until 2, the slice lasts until 12
    lib.gpurt_vgpu_stand_still(gpu.vgpu, 107)
    lib.gpurt_vgpu_advance(gpu.vgpu, 1000)
    assert gpu.done == [(1, 1, 119), (0, 1, 125)]


def test_a_gpu_that_stood_still_in_a_switch_goes_on_with_it() -> None:
    gpu = Gpu([0], 10, 8, 0, True)
    gpu.submit(0, EXEC, False, 5, 0)
    assert lib.gpurt_vgpu_catch_up(gpu.vgpu, 6, 100)
    lib.gpurt_vgpu_stand_still(gpu.vgpu, 206)
    lib.gpurt_vgpu_advance(gpu.vgpu, 1000)
    assert gpu.done == [(0, 1, 213)]
