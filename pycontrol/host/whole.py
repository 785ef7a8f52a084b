# SPDX-License-Identifier: GPL-2.0
"""Divided GPUs: virtual GPUs that are partitions of one GPU, and slow each other down (`gpurt emulate`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpurt._gpurt import ffi, lib
from gpurt.enums import Policy
from gpurt.errors import UsageError
from gpurt.units import thousandths
from pycontrol.host.virtual import Shape

if TYPE_CHECKING:
    from analysis.model import Taskset


class Whole:
    """A divided GPU; its partitions are the VirtualGpus that were created with it."""

    def __init__(self, number: int, cross: int) -> None:
        """``cross``: the slow-down of memory-intensive work while another partition executes such work, thousandths."""
        self.number = number
        self.raw = ffi.new("struct gpurt_whole *")
        lib.gpurt_whole_init(self.raw, cross)


#: The share of the file's alpha that an update takes, percent: alpha also has the host's time and raising a thread.
SHARE_PERCENT_OF_GPU = 80
#: The least alpha, ns: the rest of a smaller alpha is less than hosts need on ordinary machines.
LEAST_NS = 250_000


@dataclass(frozen=True)
class Layout:
    """The virtual GPUs of a host: how each behaves, its policy, and which of them are partitions of one GPU.

    ``parts``: this many successive virtual GPUs are the partitions of a GPU; 0: each is a GPU of its own.
    """

    shapes: tuple[Shape, ...]
    policies: tuple[int, ...]
    parts: int = 0
    cross: int = lib.GPURT_FACTOR_ONE

    def wholes(self) -> list[Whole | None]:
        """For each virtual GPU, the GPU that it is a partition of."""
        if not self.parts:
            return [None] * len(self.shapes)
        made = [Whole(number, self.cross) for number in range(-(-len(self.shapes) // self.parts))]
        return [made[index // self.parts] for index in range(len(self.shapes))]


def alike(shape: Shape, policy: int, count: int, units: tuple[int, ...] = (), cross: int = 1000) -> Layout:
    """``count`` virtual GPUs of one kind; with ``units``, each len(units) of them are the partitions of a GPU."""
    shapes = tuple(replace(shape, units=units[index % len(units)]) if units else shape for index in range(count))
    return Layout(shapes, (policy,) * count, len(units), cross)


def of_taskset(taskset: Taskset, policy: int) -> Layout:
    """The virtual GPUs of a taskset's tasks, in the order of its partitions.  Updates take less than its alpha.

    ``policy``: for partitions that state no policy.  Raises UsageError for too many partitions, or a factor too large.
    """
    platform, parts = taskset.platform, taskset.parts
    if len(parts) > lib.GPURT_MAX_GPUS:
        raise UsageError(f"--taskset: it has {len(parts)} partitions, and a host {lib.GPURT_MAX_GPUS} GPUs at most")
    shapes = []
    for part in parts:
        (alpha, theta), slice_ = platform.costs(part), part.slice or platform.time_slice
        units = part.size or platform.compute_units or 1
        shapes.append(Shape(alpha * SHARE_PERCENT_OF_GPU // 100, theta, slice_, platform.copy_engine, units))
    policies = tuple(int(Policy.parse(part.policy)) if part.policy else policy for part in parts)
    count = len(parts) if parts[0].own_gpu else 0
    try:
        return Layout(tuple(shapes), policies, count, thousandths(platform.cross_contention))
    except ValueError as error:
        raise UsageError(f"cross_contention {error}") from None
