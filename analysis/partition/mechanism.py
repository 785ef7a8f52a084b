# SPDX-License-Identifier: GPL-2.0
"""Which sizes a mechanism offers that divides a GPU, and what [[partition]] says of each partition under it."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.masks import planner
from analysis.masks.topology import Topology
from analysis.model import Partition
from analysis.taskset.mechanisms import percentage_of
from gpurt._gpurt import lib

#: TPC pairs of SMs are what masks of TPCs switch.
CU_MASK, MPS, TPC, VIRTUAL = "cu-mask", "mps", "tpc", "vgpu"
NAMES = (CU_MASK, MPS, TPC, VIRTUAL)


def sizes(name: str, units: int, topology: Topology | None) -> tuple[int, ...]:
    """The sizes of partitions, ascending.  ``topology``: needed for CU masks.

    MPS takes whole percentages and is taken to round SMs down (unverified on hardware).
    """
    if name == CU_MASK:
        assert topology is not None
        return tuple(size for size in planner.sizes(topology) if size <= units)
    if name == MPS:
        return tuple(sorted({percent * units // 100 for percent in range(1, 101)} - {0}))
    return tuple(range(2, units + 1, 2)) if name == TPC else tuple(range(1, units + 1))


def most(name: str) -> int | None:
    """How many partitions there may be; None: any number."""
    return {CU_MASK: planner.MOST_PARTITIONS, VIRTUAL: int(lib.GPURT_MAX_GPUS)}.get(name)


def realised(
    name: str, units: int, parts: Sequence[tuple[str, int]], topology: Topology | None
) -> tuple[list[Partition], str]:
    """What the file says of partitions of these names and sizes; and why the mechanism has no such ones, if so."""
    made = [Partition(size, name=part) for part, size in parts]
    if name == MPS:
        shares = [percentage_of(size, units) for _, size in parts]
        why = f"as percentages of MPS the partitions need {sum(shares)} %" if sum(shares) > 100 else ""
        return [Partition(size, name=part, mps_percentage=share)
                for (part, size), share in zip(parts, shares, strict=True)], why  # fmt: skip
    if name != CU_MASK or not parts:
        return made, ""
    assert topology is not None
    try:
        found = planner.plan([planner.Want(part, size) for part, size in parts], topology)
    except planner.Impossible as none:
        return made, f"no disjoint masks have these sizes: {none}"
    return [Partition(size, one.mask, part)
            for (part, size), one in zip(parts, found.parts, strict=True)], ""  # fmt: skip
