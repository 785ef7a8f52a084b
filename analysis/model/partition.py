# SPDX-License-Identifier: GPL-2.0
"""Parts of the GPU, in space or in time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Sharing(str, Enum):
    """The order in which a TSG executes the work of the tasks that share it."""

    PRIORITY = "priority"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the GPU, in space or in time.

    ``compute_units``: how many SMs or CUs; ``cu_mask``: which CUs, bit i for CU i.  None: no such limit.
    ``name``: the name of a partition that tasks share; None: one task's own.  A named partition may have its own
    ``policy``, ``slice`` (ns) and ``interleave`` of its TSGs, and update costs ``alpha`` and ``theta`` (ns).  None: the
    platform's value; but beside an alpha of its own, theta is unknown.
    NVIDIA's GPUs are divided in four ways.  ``mps_percentage``: a share of the SMs; ``mps_partition``: the name of a
    partition that MPS's daemon has made.  ``green_context``: a number; ``mig``: the name of an instance.
    ``shared``: the partition's tasks are threads of one process and have one common TSG, which executes their work in
    that order.  None: each task has a TSG.
    """

    compute_units: int | None = None
    cu_mask: int | None = None
    name: str | None = None
    policy: str | None = None
    slice: int | None = None
    interleave: str | None = None
    alpha: int | None = None
    theta: int | None = None
    mps_percentage: int | None = None
    mps_partition: str | None = None
    green_context: int | None = None
    mig: str | None = None
    shared: Sharing | None = None

    @property
    def in_time(self) -> bool:
        """Whether it states how its TSGs share the GPU in time."""
        return any(value is not None for value in (self.slice, self.interleave, self.shared))

    @property
    def own_costs(self) -> bool:
        """Whether its updates have costs of their own, rather than the platform's."""
        return self.alpha is not None or self.theta is not None

    @property
    def own_gpu(self) -> bool:
        """Whether it is scheduled as a GPU of its own; otherwise its TSGs share the GPU in time with all others."""
        return self.name is not None and (self.size is not None or not self.in_time)

    @property
    def at_once(self) -> bool:
        """Whether kernels of its programs execute at the same time; otherwise its TSGs take turns.

        They do under MPS, also in green contexts, which execute beside those of other processes only under MPS.
        """
        return any(value is not None for value in (self.mps_percentage, self.mps_partition, self.green_context))

    @property
    def size(self) -> int | None:
        """The number of its units; None if neither a number nor a mask states it."""
        if self.compute_units is None and self.cu_mask is not None:
            return self.cu_mask.bit_count()
        return self.compute_units
