# SPDX-License-Identifier: GPL-2.0
"""The sizes that a mechanism for dividing a GPU offers, and the keys of each partition's [[partition]] under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.masks import planner
from analysis.masks.topology import Topology
from analysis.model import Partition
from analysis.taskset.mechanisms import guaranteed, percentage_of
from gpurt._gpurt import lib

#: TPC: masks switch TPCs, which are pairs of SMs.
CU_MASK, MPS, STATIC, TPC, VIRTUAL = "cu-mask", "mps", "mps-static", "tpc", "vgpu"
GREEN = "green-context"
MECHANISM_NAMES = (CU_MASK, MPS, STATIC, TPC, VIRTUAL, GREEN)
#: SMs of whole chunks of MPS's static partitions; a chunk has 2 on Tegra, 4 on cards before Hopper, 8 since.
CHUNKS = 8


@dataclass(frozen=True)
class Grain:
    """The SMs of the smallest partition, and the step between sizes."""

    least: int
    step: int

    def sizes(self, units: int) -> tuple[int, ...]:
        """The sizes of partitions of a GPU with ``units`` SMs, ascending."""
        return tuple(range(self.least, units + 1, self.step))


#: By the major number of the compute capability, as NVIDIA documents it for cuDevSmResourceSplitByCount() in CUDA 12.
#: CUDA 13 allows smaller sizes on some parts (2 on 8.x and Tegra), and everything that these rows allow.
GRAINS = {6: Grain(1, 1), 7: Grain(2, 2), 8: Grain(4, 2), **dict.fromkeys((9, 10, 11, 12), Grain(8, 8))}
#: The known facts about the GPU: for CU masks and for green contexts; else None.
Hardware = Topology | Grain | None
#: In [[partition]], green_context is 0 to 255.
MOST_CONTEXTS = 256


def sizes(name: str, units: int, hardware: Hardware) -> tuple[int, ...]:
    """The sizes of partitions, ascending.  ``hardware``: needed for CU masks and green contexts.

    MPS takes whole percentages and gives whole pairs of SMs, rounded down (docs/hardware).
    """
    if name == CU_MASK:
        assert isinstance(hardware, Topology)
        return tuple(size for size in planner.mask_sizes(hardware) if size <= units)
    if name == GREEN:
        assert isinstance(hardware, Grain)
        return hardware.sizes(units)
    if name == MPS:
        return tuple(sorted({guaranteed(percent, units) for percent in range(1, 101)} - {0}))
    if name == STATIC:
        return tuple(range(CHUNKS, units + 1, CHUNKS))
    return tuple(range(2, units + 1, 2)) if name == TPC else tuple(range(1, units + 1))


def most(name: str) -> int | None:
    """The most partitions that there may be; None: any number."""
    limits = {CU_MASK: planner.MOST_PARTITIONS, VIRTUAL: int(lib.GPURT_MAX_GPUS), GREEN: MOST_CONTEXTS}
    return limits.get(name)


def realised(
    name: str, units: int, parts: Sequence[tuple[str, int]], hardware: Hardware
) -> tuple[list[Partition], str]:
    """The file's partitions with these names and sizes; and why the mechanism cannot have them, if it cannot."""
    made = [Partition(size, name=part) for part, size in parts]
    if name == MPS:
        shares = [percentage_of(size, units) for _, size in parts]
        why = f"as percentages of MPS the partitions need {sum(shares)} %" if sum(shares) > 100 else ""
        return [Partition(size, name=part, mps_percentage=share)
                for (part, size), share in zip(parts, shares, strict=True)], why  # fmt: skip
    if name == GREEN:
        return [Partition(size, name=part, green_context=at) for at, (part, size) in enumerate(parts)], ""
    if name != CU_MASK or not parts:
        return made, ""
    assert isinstance(hardware, Topology)
    try:
        found = planner.plan_masks([planner.Want(part, size) for part, size in parts], hardware)
    except planner.Impossible as none:
        return made, f"no disjoint masks have these sizes: {none}"
    return [Partition(size, one.mask, part)
            for (part, size), one in zip(parts, found.parts, strict=True)], ""  # fmt: skip
