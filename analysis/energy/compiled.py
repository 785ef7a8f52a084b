# SPDX-License-Identifier: GPL-2.0
"""The compiled simulation: userlib/units/sbeet.c decides, and analysis/native/energy_sim.c supplies virtual time."""

from __future__ import annotations

from analysis.energy.distribute import by_size
from analysis.energy.outcome import Dispatch, EnergyOutcome, EnergyRun, GpuCount, Skip, TaskCount, priced
from analysis.energy.policies import UnitsRule
from analysis.energy.setup import Setup
from analysis.model import Kernel
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: Room for the future jobs of one decision.
WINDOW = 512
_EXECUTION = {
    "worst": lib.GPURT_ENERGY_WORST, "best": lib.GPURT_ENERGY_BEST, "random": lib.GPURT_ENERGY_RANDOM
}  # fmt: skip
_NONE = -(2**63)


class Tables:
    """A setup as C structs, which this object keeps alive.  ``window``: room for the future jobs of a decision."""

    def __init__(self, setup: Setup, window: int = WINDOW) -> None:
        system = setup.system
        self.setup = setup
        self._keep: list[CData] = []
        self._times: dict[int, tuple[CData, CData]] = {}
        self.struct = self._new("struct gpurt_sbeet_tables *")
        self.gpus, self.tasks = len(system.gpus), len(system.tasks)
        kernels = self._new("struct gpurt_sbeet_kernel[]", self.tasks * self.gpus)
        self.best = self._new("u64 *[]", self.tasks * self.gpus)
        for index, task in enumerate(system.tasks):
            for gpu in task.places:
                at, kernel = index * self.gpus + gpu, task.on(gpu)
                times, self.best[at] = self._arrays(kernel.times, system.gpus[gpu].units)
                kernels[at] = (kernel.copy_in, kernel.copy_out, times, kernel.power, setup.best[index][gpu])
        self.struct.kernel = kernels
        self._fill(window)

    def _fill(self, window: int) -> None:
        setup, struct, system, options = self.setup, self.struct, self.setup.system, self.setup.options
        struct.rule, struct.gpus, struct.tasks, struct.room = setup.rule.value, self.gpus, self.tasks, window
        struct.active, struct.hold_job, struct.weigh = options.active, setup.hold_job, options.weigh
        struct.gpu = self._new("struct gpurt_sbeet_gpu[]", [(gpu.units, gpu.static, gpu.idle) for gpu in system.gpus])
        tasks = [(task.period, task.deadline, x) for task, x in zip(system.tasks, setup.assigned, strict=True)]
        struct.task = self._new("struct gpurt_sbeet_task[]", tasks)
        every = range(self.gpus)
        orders = [[*order, *(gpu for gpu in every if gpu not in order)] for order in setup.preferred]
        struct.preferred = self._new("u32[]", [gpu for order in orders for gpu in order])
        struct.by_size = self._new("u32[]", list(by_size(system, setup.rule is UnitsRule.SMALL)))
        if setup.sets:
            struct.conflict = self._new("u8[]", [bool(a & b) for a in setup.sets for b in setup.sets])
            struct.own = self._new("u32[]", [len(own) for own in setup.sets])
        struct.window = self._new("struct gpurt_sbeet_future[]", window)

    def _new(self, kind: str, *value: CData) -> CData:
        made = ffi.new(kind, *value)
        self._keep.append(made)
        return made

    def _arrays(self, kernel: Kernel, units: int) -> tuple[CData, CData]:
        """Worst and best cases with 1 to ``units`` units; tasks that share a kernel share its arrays."""
        if id(kernel) not in self._times:
            spans = [kernel.row(m) for m in range(1, units + 1)]
            worst, best = [span.worst for span in spans], [span.best for span in spans]
            self._times[id(kernel)] = self._new("u64[]", worst), self._new("u64[]", best)
        return self._times[id(kernel)]

    def spatial_gpus(self) -> CData:
        """The GPUs, all idle."""
        made = ffi.new("struct gpurt_sgpu[]", self.gpus)
        for index, gpu in enumerate(self.setup.system.gpus):
            lib.gpurt_sgpu_init(made + index, gpu.whole, gpu.granularity, self.setup.slots(gpu))
        return made


def simulate_compiled(setup: Setup, run: EnergyRun, log: int = 0, tables: Tables | None = None) -> EnergyOutcome:
    """One run, which records the first ``log`` dispatches and skips.  Other threads execute meanwhile.

    Raises MemoryError if there is no memory.
    """
    tables = tables or Tables(setup)
    options = ffi.new("struct gpurt_energy_run *")
    options.horizon, options.seed, options.order = run.horizon, run.seed & (2**64 - 1), setup.policy.order.value
    options.execution, options.sporadic = _EXECUTION[run.execution], run.sporadic
    options.random_offsets, options.run_late = run.random_offsets, setup.options.run_late
    options.complete = run.complete
    tasks = ffi.new("struct gpurt_energy_task[]", [(task.offset,) for task in setup.system.tasks])
    result, gpus = ffi.new("struct gpurt_energy_result *"), tables.gpus
    busy, kernel_time = ffi.new("u64[]", gpus), ffi.new("u64[]", gpus)
    unit_time = ffi.new("u64[]", gpus * tables.tasks + 1)
    result.busy, result.kernel_time, result.unit_time = busy, kernel_time, unit_time
    records = ffi.new("struct gpurt_energy_dispatch[]", log) if log else ffi.NULL
    result.log, result.log_room = records, log
    if lib.gpurt_energy_simulate(tables.struct, tables.spatial_gpus(), tables.best, options, tasks, result):
        raise MemoryError
    used = [[unit_time[task * gpus + gpu] for gpu in range(gpus)] for task in range(tables.tasks)]
    energies = priced(setup.system, result.end, list(busy), used)
    counts = tuple(
        GpuCount(energies[gpu], busy[gpu], kernel_time[gpu], sum(times[gpu] for times in used)) for gpu in range(gpus)
    )
    logged = [records[at] for at in range(min(log, result.logged))]
    dispatches = tuple(_dispatch(one) for one in logged if one.units)
    skips = tuple(Skip(one.task, one.job, one.release, one.at) for one in logged if not one.units)
    counted = tuple(map(_count, tasks))
    return EnergyOutcome(counted, counts, dispatches, skips, result.away, result.overflows, result.end)


def _count(task: CData) -> TaskCount:
    lateness = None if task.lateness == _NONE else task.lateness
    return TaskCount(task.released, task.judged, task.late, task.skipped, lateness)


def _dispatch(one: CData) -> Dispatch:
    return Dispatch(
        one.task, one.job, one.gpu, one.units, one.first, one.release, one.at, one.start, one.end, one.finish
    )
