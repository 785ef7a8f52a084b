# SPDX-License-Identifier: GPL-2.0
"""A kernel's instructions, as far as it matters where they lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction.  ``targets``: indices of instructions to which it jumps; ``falls``: the next one may follow."""

    reads: bool
    targets: tuple[int, ...]
    falls: bool


@dataclass(frozen=True, slots=True)
class Code:
    """What a kernel's code says.

    ``uses_header``: it has the marks of gpurt_sm_run().  ``unclear``: why its paths are not known, empty if they are.
    ``most_threads``: threads of a block that it was compiled for, None if it does not say.
    ``adds_shared``: whether it may use shared memory whose size the launch says.
    """

    kernel: str
    uses_header: bool
    steps: tuple[Step, ...]
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


def reads_again(steps: Sequence[Step]) -> bool:
    """Whether a path leads from an instruction that reads the SM's number to one that does, itself included."""
    seen = set[int]()
    left = [at for place, step in enumerate(steps) if step.reads for at in following(steps, place)]
    while left:
        place = left.pop()
        if place in seen:
            continue
        seen.add(place)
        if steps[place].reads:
            return True
        left += following(steps, place)
    return False


def following(steps: Sequence[Step], place: int) -> list[int]:
    """The instructions that may come next.  A jump behind the last one ends the kernel."""
    step = steps[place]
    after = [*step.targets, *([place + 1] if step.falls else [])]
    return [at for at in after if at < len(steps)]
