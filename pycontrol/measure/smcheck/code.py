# SPDX-License-Identifier: GPL-2.0
"""A kernel's instructions, as far as it matters where they lead."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.  ``targets``: indices of instructions to which it jumps; ``falls``: the next one may follow.

    ``reads``: the SM's number.  ``always``: it depends on no predicate.  ``waits``: it is a barrier of the block.
    ``takes``: a logical block.  ``stores`` and ``counts``: it changes memory that other blocks see, the latter by an
    atomic addition.
    """

    reads: bool
    targets: tuple[int, ...]
    falls: bool
    always: bool = True
    waits: bool = False
    takes: bool = False
    stores: bool = False
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """The facts that a kernel's code tells.

    ``uses_header``: it has the marks of gpurt_sm_run().  ``unclear``: why its paths are not known, empty if they are.
    ``most_threads``: threads of a block that it was compiled for, None if it does not say.
    ``adds_shared``: whether it may use shared memory whose size the launch says.
    """

    kernel: str
    uses_header: bool
    steps: tuple[Instruction, ...]
    unclear: str = ""
    most_threads: int | None = None
    adds_shared: bool = False

    @property
    def why_not(self) -> str:
        """Why a block may read the number of its SM never or more than once; empty if it does so once at most."""
        if self.unclear:
            return self.unclear
        if not self.uses_header:
            return "is no kernel of gpurt_sm.h"
        if not any(step.reads for step in self.steps):
            return "never reads the SM's number, so that it runs on any SM"
        if reads_again(self.steps):
            return "reads the SM's number more than once on some path"
        return ""

    @property
    def strays(self) -> str:
        """Where blocks may store that do not stay on their SM; empty if only those store that do."""
        if stores_before(self.steps):
            return "stores into memory before gpurt_sm_run() or beside it, where any block of any SM does"
        if stores_after(self.steps):
            return "stores into memory after gpurt_sm_run(), where any block of any SM does"
        return ""


def after_reads(steps: Sequence[Instruction]) -> set[int]:
    """The instructions that may be executed after the SM's number was read."""
    return reachable(steps, [at for place, step in enumerate(steps) if step.reads for at in following(steps, place)])


def reads_again(steps: Sequence[Instruction]) -> bool:
    """Whether a path leads from an instruction that reads the SM's number to one that does, itself included."""
    return any(steps[place].reads for place in after_reads(steps))


def stores_before(steps: Sequence[Instruction]) -> bool:
    """Whether a thread may store before its block knows its SM: the leader reads its number, the others wait for that.

    Additions do not count: the header itself uses them to count blocks.
    """
    reads = {place for place, step in enumerate(steps) if step.reads}
    waits = {place for place in after_reads(steps) if steps[place].waits}
    knows = {place for place in reads | waits if steps[place].always}
    return any(steps[place].stores for place in reachable(steps, [0], knows))


def stores_after(steps: Sequence[Instruction]) -> bool:
    """Whether a store stands where no logical block is taken any more.  The header's work goes back to taking one."""
    return any(
        (step.stores or step.counts)
        and not any(steps[place].takes for place in reachable(steps, following(steps, at)))
        for at, step in enumerate(steps)
    )


def reachable(steps: Sequence[Instruction], begins: Sequence[int], ends: AbstractSet[int] = frozenset()) -> set[int]:
    """The instructions that may be executed from ``begins`` on, those of ``ends`` included, and nothing after these."""
    seen = set[int]()
    left = [at for at in begins if at < len(steps)]
    while left:
        place = left.pop()
        if place not in seen:
            seen.add(place)
            left += [] if place in ends else following(steps, place)
    return seen


def following(steps: Sequence[Instruction], place: int) -> list[int]:
    """The instructions that may come next.  A jump behind the last one ends the kernel."""
    step = steps[place]
    after = [*step.targets, *([place + 1] if step.falls else [])]
    return [at for at in after if at < len(steps)]
