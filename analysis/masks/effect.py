# SPDX-License-Identifier: GPL-2.0
"""The worth of a mask: its effective compute units (section 4.3 of the paper; specification rules R3 to R6).

The dispatcher deals a kernel's blocks to shader engines in turn and waits for a full engine.  So every engine with an
enabled CU gets equally many blocks, and the engine with the fewest CUs limits the speed of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.masks.mapping import LATEST, Release, Unit, enabled
from analysis.masks.topology import Topology


@dataclass(frozen=True, slots=True)
class Effect:
    """``counts[xcc][engine]``: enabled CUs.

    ``effective``: the number of evenly spread CUs that would be as fast.  ``best``: the most that the mask's CUs are
    worth without those of some engines.  Several XCCs count as the slowest XCC, times their number; 0 if one has no CU.
    """

    counts: tuple[tuple[int, ...], ...]
    effective: int
    best: int

    @property
    def units(self) -> int:
        """Enabled CUs."""
        return sum(map(sum, self.counts))

    @property
    def waste(self) -> int:
        """Enabled CUs that speed nothing up."""
        return self.units - self.effective

    @property
    def dominated(self) -> bool:
        """Whether a part of the mask is more than a tenth faster than the whole mask."""
        return 10 * self.best > 11 * self.effective


def effect(mask: int, topology: Topology, release: Release = LATEST) -> Effect:
    """The effect of a mask."""
    return effect_of(enabled(mask, topology, release), topology)


def effect_of(units: Iterable[Unit], topology: Topology) -> Effect:
    """The effect of a set of compute units."""
    counts = [[0] * len(topology.arrays) for _ in range(topology.xccs)]
    for unit in units:
        counts[unit.xcc][unit.engine] += 1
    paces = [_effective(xcc) for xcc in counts]
    bests = [_best(xcc) for xcc in counts]
    return Effect(tuple(map(tuple, counts)), topology.xccs * min(paces), topology.xccs * min(bests))


def _effective(counts: list[int]) -> int:
    used = [count for count in counts if count]
    return len(used) * min(used, default=0)


def _best(counts: list[int]) -> int:
    ordered = sorted(counts, reverse=True)
    return max(number * count for number, count in enumerate(ordered, 1))
