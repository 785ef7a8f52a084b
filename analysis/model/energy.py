# SPDX-License-Identifier: GPL-2.0
"""GPUs whose units (SMs, CUs) are shared in space, and the tasks on them (sBEET, sections 2.2 and 3.3).

Times are integer nanoseconds, powers integer microwatts, energies integer femtojoules (uW ns).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from analysis.model import Kernel

#: Femtojoules in a joule and in a millijoule.
J = 10**15
MJ = 10**12
#: The longest period, deadline, offset, copy and kernel, ns (13 days): sums of them fit into 64 bits.
MAX_ENERGY_TIME_NS = 2**50
#: The largest power, uW (1 MW).
STRONGEST = 10**12
MAX_UNITS = 4096
MAX_SLOTS = 2


@dataclass(frozen=True)
class SpatialGpu:
    """A GPU with ``units`` (M); jobs may use ``limit`` (L), in multiples of ``granularity``.

    ``static``: the power at all times; ``idle``: power of one idle unit while the GPU is active; uW.  ``slots``: how
    many kernels may execute at a time.  ``kind``: the name by which profiles refer to it.
    """

    name: str
    units: int
    limit: int
    static: int
    idle: int
    granularity: int = 1
    slots: int = MAX_SLOTS
    kind: str = ""

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The numbers of units that a job may get, least first."""
        return tuple(range(self.granularity, self.limit + 1, self.granularity))

    @property
    def whole(self) -> int:
        """The largest number of units that a job may get."""
        return self.counts[-1]

    def allowed(self, units: int) -> int:
        """The largest allowed count of at most ``units``; 0 if there is none."""
        return units // self.granularity * self.granularity


@dataclass(frozen=True)
class PoweredKernel:
    """A task's job on one type of GPU: its copies, its kernel by number of units, and its power.

    ``times``: a table.  ``power``: of one active unit, uW.  ``measured``: energy of the kernel alone on 1 to M units,
    without the static energy, fJ; empty if it was not measured.
    """

    times: Kernel
    power: int
    copy_in: int = 0
    copy_out: int = 0
    measured: tuple[int, ...] = ()

    def time(self, units: int) -> int:
        """e(m), the worst-case kernel time, ns."""
        return self.times.row(units).worst

    def whole_job(self, units: int) -> int:
        """G(m) = copy in + e(m) + copy out, ns (section 3.3.2)."""
        return self.copy_in + self.time(units) + self.copy_out


@dataclass(frozen=True)
class Profile:
    """A kernel as measured on some types of GPU, by the type's name."""

    name: str
    on: Mapping[str, PoweredKernel]


@dataclass(frozen=True)
class SpatialTask:
    """A periodic or sporadic task: each job is a copy in, one kernel and a copy out.

    ``kernels``: by GPU; None on a GPU that cannot run it.  ``profile``: the name of the profile that it executes.
    """

    name: str
    period: int
    deadline: int
    kernels: tuple[PoweredKernel | None, ...]
    offset: int = 0
    profile: str = ""

    def on(self, gpu: int) -> PoweredKernel:
        """Its kernel on a GPU that can run it."""
        kernel = self.kernels[gpu]
        assert kernel is not None, f"{self.name} cannot run on GPU {gpu}"
        return kernel

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The GPUs that can run it."""
        return tuple(gpu for gpu, kernel in enumerate(self.kernels) if kernel is not None)


@dataclass(frozen=True)
class SpatialSystem:
    """The GPUs and the tasks, in the order of the file."""

    gpus: tuple[SpatialGpu, ...]
    tasks: tuple[SpatialTask, ...]

    @cached_property
    def rate_order(self) -> tuple[int, ...]:
        """The tasks by period, ties in file order."""
        return tuple(sorted(range(len(self.tasks)), key=lambda i: self.tasks[i].period))
