# SPDX-License-Identifier: GPL-2.0
"""The offer of NVIDIA's green contexts and MIG: least sizes and steps, instances' profiles, and where instances fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grain:
    """SMs of the smallest partition, and the step of sizes above it."""

    least: int
    step: int

    def sizes(self, units: int) -> tuple[int, ...]:
        """Sizes of partitions of a GPU with so many SMs, ascending."""
        return tuple(range(self.least, units + 1, self.step))


#: By the major number of the compute capability, as NVIDIA documents it for cuDevSmResourceSplitByCount() in CUDA 12.
#: CUDA 13 allows less on some parts (2 on 8.x and Tegra): whatever these rows allow, it allows too.
GRAINS = {6: Grain(1, 1), 7: Grain(2, 2), 8: Grain(4, 2), **dict.fromkeys((9, 10, 11, 12), Grain(8, 8))}


@dataclass(frozen=True)
class InstanceProfile:
    """A GPU instance profile: NVML's ``number``, its SMs, GPU slices, how many instances there may be, and where.

    ``places``: first memory slice and number of memory slices of each possible instance.
    """

    number: int
    units: int
    slices: int
    most: int
    places: tuple[tuple[int, int], ...]


def plainest(profiles: Sequence[InstanceProfile]) -> tuple[InstanceProfile, ...]:
    """One profile for each number of SMs, ascending: the profile with the most instances.

    Others of that size have more memory or media engines, and do not fit at more places.
    """
    best: dict[int, InstanceProfile] = {}
    for one in profiles:
        other = best.get(one.units)
        if other is None or (one.most, -one.number) > (other.most, -other.number):
            best[one.units] = one
    return tuple(best[units] for units in sorted(best))


def placed(profiles: Sequence[InstanceProfile], wanted: Sequence[int]) -> list[tuple[InstanceProfile, int]] | None:
    """For each wanted number of SMs its profile and first memory slice, so that no instances overlap; None: impossible.

    ``profiles``: as plainest() has them.  Raises KeyError if no profile has such a size.
    """
    by_size = {one.units: one for one in profiles}
    chosen = [by_size[size] for size in wanted]
    if sum(one.slices for one in chosen) > max((one.slices for one in profiles), default=0):
        return None
    if any(chosen.count(one) > one.most for one in chosen):
        return None
    order = sorted(range(len(chosen)), key=lambda at: (-chosen[at].units, at))
    starts = next(_starts([chosen[at] for at in order], ()), None)
    if starts is None:
        return None
    found = dict(zip(order, starts, strict=True))
    return [(one, found[at]) for at, one in enumerate(chosen)]


def _starts(chosen: Sequence[InstanceProfile], before: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, ...]]:
    """First memory slices of all; equal profiles, which are neighbours, take ascending ones."""
    at = len(before)
    if at == len(chosen):
        yield tuple(start for start, _ in before)
        return
    least = before[-1][0] if at and chosen[at] == chosen[at - 1] else -1
    for start, size in sorted(chosen[at].places):
        if start > least and all(start + size <= other or other + more <= start for other, more in before):
            yield from _starts(chosen, (*before, (start, size)))
