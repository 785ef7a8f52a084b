"""Exempt contexts, dropped work and turns on the virtual GPU, compared with the naive model."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from native_build import LONG
from test_vgpu import COPY, EXEC, Gpu, Naive

from gpurt._gpurt import ffi, lib

#: Contexts of the six TSGs.
CONTEXTS = [0, 0, 1, 1, 2, 3]


class Rules(Naive):
    """The naive model with contexts that are on every runlist."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.exempt: set[int] = set()

    def allowed(self) -> list[int]:
        shared = self.only is None
        return [t for t in self.ring if shared or self.contexts[t] in {self.only, *self.exempt}]

    def set_exempt(self, context: int, exempt: bool) -> None:
        (self.exempt.add if exempt else self.exempt.discard)(context)

    def drop(self, tsg: int) -> int:
        """Removes the first item of the first engine that has one and returns its number; 0 if there is none."""
        items = sorted(self.items[tsg], key=lambda i: (i.engine, i.number))
        if not items:
            return 0
        self.items[tsg].remove(items[0])
        if not self.items[tsg]:
            self.ring.remove(tsg)
            if self.holder == tsg:
                self.holder = None
        self.settle()
        return items[0].number


def exempt_both(gpu: Gpu, naive: Rules, context: int, exempt: bool) -> None:
    """Does what the scheduler does: it commits after the exemption if the runlist changes."""
    changes = (context in naive.exempt) != exempt and naive.only not in (None, context)
    lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[context], exempt, naive.time)
    if changes and naive.holder is not None:
        naive.set_exempt(context, exempt)
        naive.settle()  # a slice that ends at this instant ends before the commit
    naive.set_exempt(context, exempt)
    if changes:
        gpu.commit(naive.only, naive.time)
        naive.commit(naive.only)


def drop_both(gpu: Gpu, naive: Rules, tsg: int) -> None:
    work = lib.gpurt_vgpu_drop(gpu.vgpu, gpu.tsgs[tsg], naive.time)
    assert (0 if work == ffi.NULL else work.number) == naive.drop(tsg)


def test_an_exemption_at_the_instant_at_which_an_exempt_ones_work_ends() -> None:
    """The core once linked the exempt context to an entry that had just left the list, and looped for ever."""
    gpu = Gpu(CONTEXTS, 5, 0, 0, True)
    lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[0], True, 0)
    gpu.submit(0, EXEC, False, 7, 0)
    gpu.submit(2, EXEC, False, 20, 0)
    lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[1], True, 12)
    gpu.commit(3, 12)
    lib.gpurt_vgpu_advance(gpu.vgpu, 1000)
    assert {t for t, _, _ in gpu.done} == {0, 2}


TSG, CONTEXT = st.integers(0, len(CONTEXTS) - 1), st.integers(0, max(CONTEXTS))
ACTION = st.one_of(
    st.tuples(st.just("submit"), TSG, st.sampled_from([EXEC, COPY]), st.booleans(), st.integers(1, 9)),
    st.tuples(st.just("commit"), st.none() | CONTEXT),
    st.tuples(st.just("exempt"), CONTEXT, st.booleans()),
    st.tuples(st.just("drop"), TSG),
)
ACTIONS = st.lists(st.tuples(st.integers(0, 9), ACTION), max_size=30)


@settings(max_examples=600 if LONG else tries(200))
@given(actions=ACTIONS, slice_=st.integers(1, 5), theta=st.integers(0, 3), alpha=st.integers(0, 3), copy=st.booleans())
def test_completion_times_are_those_of_the_naive_model(
    actions: list[Any], slice_: int, theta: int, alpha: int, copy: bool
) -> None:
    gpu, naive = Gpu(CONTEXTS, slice_, theta, alpha, copy), Rules(CONTEXTS, slice_, theta, alpha, copy)
    for wait, (what, *arguments) in [*actions, (0, ("commit", None)), (600, ("commit", None))]:
        for _ in range(wait):
            naive.step()
        if what == "submit":
            gpu.submit(*arguments, naive.time)
            naive.submit(*arguments)
        elif what == "commit":
            gpu.commit(*arguments, naive.time)
            naive.commit(*arguments)
        elif what == "exempt":
            exempt_both(gpu, naive, *arguments)
        else:
            drop_both(gpu, naive, *arguments)
        assert lib.gpurt_vgpu_next(gpu.vgpu) >= naive.time
        assert gpu.vgpu.now == naive.time
    assert sorted(gpu.done) == sorted(naive.done)
    assert not any(naive.items)


class Timeline:
    """The intervals in which each TSG executed, as the GPU reports them through its `run` operation."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.spans: list[tuple[int, int, int]] = []
        self.start: tuple[int | None, int] = (None, 0)
        self._run = ffi.callback("void(struct gpurt_vgpu *, struct gpurt_vgpu_tsg *, u64)", self.on_run)
        gpu.ops.run = self._run

    def on_run(self, _vgpu: Any, tsg: Any, when: int) -> None:
        running, since = self.start
        if running is not None and when > since:
            self.spans.append((running, since, when))
        self.start = (None if tsg == ffi.NULL else self.gpu.tsgs.index(tsg), when)


@settings(max_examples=tries(200))
@given(
    work=st.lists(st.tuples(st.integers(0, 40), TSG, st.integers(1, 30)), min_size=1, max_size=15),
    slice_=st.integers(1, 6), theta=st.integers(0, 3),
    only=st.none() | CONTEXT, exempt=st.sets(CONTEXT),
)  # fmt: skip
def test_turns_are_fair_and_work_is_conserved(
    work: list[tuple[int, int, int]], slice_: int, theta: int, only: int | None, exempt: set[int]
) -> None:
    """The premise of tsg-rr: between two slices of a TSG that always has work, each other TSG gets at most one."""
    gpu = Gpu(CONTEXTS, slice_, theta, 0, True)
    line = Timeline(gpu)
    for context in exempt:
        lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[context], True, 0)
    gpu.commit(only, 0)
    due: Counter[int] = Counter()
    for when, tsg, duration in sorted(work):
        gpu.submit(tsg, EXEC, False, duration, when)
        due[tsg] += duration if only is None or CONTEXTS[tsg] in {only, *exempt} else 0
    lib.gpurt_vgpu_advance(gpu.vgpu, 10**6)
    executed: Counter[int] = Counter()
    for tsg, start, end in line.spans:
        executed[tsg] += end - start
    assert executed == +due
    for tsg in due:
        idle = {when for t, _, when in gpu.done if t == tsg}
        mine = [i for i, (t, _, _) in enumerate(line.spans) if t == tsg]
        for first, second in pairwise(mine):
            if line.spans[first][2] not in idle:  # the TSG had work left and waited
                others = Counter(t for t, _, _ in line.spans[first + 1 : second])
                assert max(others.values(), default=0) <= 1
                assert all(end - start <= slice_ for _, start, end in line.spans[first + 1 : second])
