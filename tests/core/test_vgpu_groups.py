# SPDX-License-Identifier: GPL-2.0
"""Contexts of a group on the virtual GPU: on the runlist together, each its own in all else."""

from __future__ import annotations

from typing import Any

import pytest

from gpurt._gpurt import ffi, lib

US = 1000


class Gpu:
    """A virtual GPU without costs, and in which order its work completes."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.calls = ffi.callback(
            "void(struct gpurt_vgpu *, struct gpurt_vgpu_tsg *, struct gpurt_vgpu_work *, u64)",
            lambda _v, tsg, _w, when: self.done.append((tsg, when)),
        )
        self.ops = ffi.new("struct gpurt_vgpu_ops *", {"done": self.calls})
        self.raw, self.kept = ffi.new("struct gpurt_vgpu *"), list[Any]()
        lib.gpurt_vgpu_init(self.raw, self.ops, ffi.NULL, 100 * US, 0, 0, True, 0)

    def context(self) -> Any:
        made = ffi.new("struct gpurt_vgpu_ctx *")
        lib.gpurt_vgpu_ctx_init(made)
        return made

    def tsg(self, context: Any) -> Any:
        made = ffi.new("struct gpurt_vgpu_tsg *")
        lib.gpurt_vgpu_tsg_open(made, context)
        return made

    def submit(self, tsg: Any, us: int, now: int = 0) -> None:
        self.kept.append(ffi.new("struct gpurt_vgpu_work *"))
        lib.gpurt_vgpu_submit(self.raw, tsg, self.kept[-1], lib.GPURT_ENGINE_EXEC, False, us * US, now)

    def advance(self, us: int) -> list[Any]:
        lib.gpurt_vgpu_advance(self.raw, us * US)
        done, self.done = self.done, []
        return [(tsg, when // US) for tsg, when in done]


@pytest.mark.parametrize("before", [False, True])
def test_the_work_of_all_members_is_executed_in_turns_and_nobody_elses(before: bool) -> None:
    """Whether they have work already when they are united, or get it afterwards."""
    gpu = Gpu()
    group, contexts = gpu.context(), [gpu.context() for _ in range(3)]
    first, second, other = (gpu.tsg(context) for context in contexts)
    lib.gpurt_vgpu_commit(gpu.raw, group, 0)

    def submit() -> None:
        for tsg in (first, second, other):
            gpu.submit(tsg, 150)

    if before:
        submit()
        assert gpu.advance(100) == []
    for context in contexts[:2]:
        lib.gpurt_vgpu_unite(gpu.raw, context, group, 100 * US)
    if not before:
        gpu.advance(100)
        for tsg in (first, second, other):
            gpu.submit(tsg, 150, 100 * US)
    assert gpu.advance(1000) == [(first, 350), (second, 400)]
    lib.gpurt_vgpu_commit(gpu.raw, contexts[2], 1000 * US)
    assert gpu.advance(2000) == [(other, 1150)]


@pytest.mark.parametrize("before", [100, lib.GPURT_VGPU_MERGE + 30])
def test_who_joins_is_compared_with_so_many_at_most(before: int) -> None:
    """The others come last.  The module has interrupts off meanwhile."""
    gpu, all_ = Gpu(), lib.GPURT_VGPU_MERGE + 60
    group, member, joining = (gpu.context() for _ in range(3))
    lib.gpurt_vgpu_unite(gpu.raw, member, group, 0)
    lib.gpurt_vgpu_commit(gpu.raw, group, 0)
    tsgs = [gpu.tsg(member) for _ in range(all_)]
    late = gpu.tsg(joining)
    for tsg in (*tsgs[:before], late, *tsgs[before:]):
        gpu.submit(tsg, 10)
    lib.gpurt_vgpu_unite(gpu.raw, joining, group, 0)
    order = [tsg for tsg, _ in gpu.advance(10 * (all_ + 1))]
    assert order.index(late) == (before if before < lib.GPURT_VGPU_MERGE else all_)


def test_one_member_can_be_exempt_by_itself() -> None:
    gpu = Gpu()
    group, contexts = gpu.context(), [gpu.context() for _ in range(2)]
    exempt, plain = (gpu.tsg(context) for context in contexts)
    for context in contexts:
        lib.gpurt_vgpu_unite(gpu.raw, context, group, 0)
    lib.gpurt_vgpu_exempt(gpu.raw, contexts[0], True, 0)
    lib.gpurt_vgpu_commit(gpu.raw, gpu.context(), 0)
    for tsg in (exempt, plain):
        gpu.submit(tsg, 50)
    assert gpu.advance(500) == [(exempt, 50)]
    lib.gpurt_vgpu_exempt(gpu.raw, contexts[0], False, 500 * US)
    gpu.submit(exempt, 50, 500 * US)
    assert gpu.advance(900) == []
    lib.gpurt_vgpu_commit(gpu.raw, group, 900 * US)
    assert [tsg for tsg, _ in gpu.advance(2000)] == [plain, exempt]
