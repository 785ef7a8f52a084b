# SPDX-License-Identifier: GPL-2.0
"""The compiled planner: the same allocations as the readable one, for sweeps and large tasksets.

A workload whose times do not fit 63 bits in every sum is recognised before, and the readable planner decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analysis.partition import exact as readable_exact
from analysis.partition import variants
from analysis.partition.inside import TESTS
from analysis.partition.merge import Infeasible, Merger, Part
from analysis.partition.variants import HEURISTICS, LIST_ORDERS, Allocation
from analysis.partition.workload import SHIFT, Item, Workload
from analysis.rta.batch import pointer
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: An array of TASKs, of RESULTs, or of what the C code writes.
Structs: TypeAlias = NDArray[Any]
#: A variant and its order.
Way: TypeAlias = tuple[str, str]

#: struct gpurt_partition_task (analysis/native/partition.h).
TASK = np.dtype([
    ("period", "i8"), ("deadline", "i8"), ("parallel", "i8"), ("serial", "i8"), ("fixed", "i8"),
    ("numerator", "u4", 2), ("denominator", "u4", 2),
    ("memory", "u4"), ("smallest", "u4"), ("priority", "u4"), ("table", "u4"),
], align=True)  # fmt: skip
#: struct gpurt_partition_result.
RESULT = np.dtype([("status", "u4"), ("task", "u4"), ("units", "u4"), ("parts", "u4"), ("load", "u8")], align=True)

_TEST = {name: getattr(lib, f"GPURT_PARTITION_{name.upper().replace('-', '_')}") for name in TESTS}
_RULE = {name: getattr(lib, f"GPURT_PARTITION_{name.upper()}") for name in (*variants.RULES, "exact")}
#: Tasks that compiled dynamic programming takes.
MOST_EXACT = int(lib.GPURT_PARTITION_MOST_EXACT)
#: Largest factor's numerator and denominator, and priority.
_U32 = 2**32 - 1


def run_fast(workload: Workload, variant: str, order: str = LIST_ORDERS[0]) -> Allocation | Infeasible:
    """The same as variants.run, without the steps."""
    return _run(workload, [(variant, order)], lambda: variants.run_variant(workload, variant, order))


def best_fast(workload: Workload) -> Allocation | Infeasible:
    """The same as variants.best, without the steps."""
    ways = [(variant, order) for variant in HEURISTICS for order in LIST_ORDERS]
    return _run(workload, ways, lambda: variants.best(workload))


def exact_fast(workload: Workload) -> Allocation | Infeasible:
    """An allocation with as few units and partitions as exact.exact.

    Raises ValueError for more than MOST_EXACT tasks.
    """
    if (count := len(workload.items)) > MOST_EXACT:
        raise ValueError(f"exact takes at most {MOST_EXACT} tasks, not {count}; best gives an upper bound")
    return _run(workload, [(readable_exact.EXACT, "")], lambda: readable_exact.exact(workload))


def _run(
    workload: Workload, ways: Sequence[Way], readable: Callable[[], Allocation | Infeasible]
) -> Allocation | Infeasible:  # fmt: skip
    try:
        view = _View(workload)
    except OverflowError:
        return readable()
    results, part, size = view.run(ways)
    states = {int(state) for state in results["status"]}
    if lib.GPURT_PARTITION_ENOMEM in states:
        raise MemoryError
    if lib.GPURT_PARTITION_REFUSED in states:
        return readable()
    if states & {lib.GPURT_PARTITION_LEMMA1, lib.GPURT_PARTITION_LEMMA2}:
        found = Merger(workload).singles()
        assert isinstance(found, Infeasible)
        return found
    found_by = [
        _allocation(workload, way, part[index], size[index])
        for index, way in enumerate(ways)
        if results["status"][index] != lib.GPURT_PARTITION_NONE
    ]
    return min(found_by, key=variants.rank) if found_by else readable()


def _allocation(workload: Workload, way: Way, part: Structs, size: Structs) -> Allocation:
    sets: dict[int, list[int]] = {}
    for task, at in enumerate(part.tolist()):
        sets.setdefault(at, []).append(task)
    parts = tuple(
        Part(at, tuple(tasks), int(size[at]), workload.utilization(tasks, int(size[at])))
        for at, tasks in sorted(sets.items())
    )
    return Allocation(workload, parts, way[0], LIST_ORDERS[0] if way[0] == variants.ONE else way[1])


class _View:
    """A workload as C sees it.  Raises OverflowError for numbers that its types do not hold."""

    def __init__(self, workload: Workload) -> None:
        self.tasks = np.zeros(max(len(workload.items), 1), TASK)
        self.count = len(workload.items)
        tables: list[int] = []
        for index, item in enumerate(workload.items):
            self._fill(index, item, workload, tables)
        self.tables = np.array(tables or [0], np.int64)
        self.sizes = np.array(workload.allowed, np.uint32)
        self.set = struct(self.tasks, self.count, workload.units, workload.inside, self.sizes, workload.most)
        self.set.tables = pointer("int64_t", self.tables)

    def _fill(self, index: int, item: Item, workload: Workload, tables: list[int]) -> None:
        row = self.tasks[index]
        row["period"], row["deadline"], row["memory"] = item.period, item.deadline, item.memory
        row["smallest"], row["priority"] = item.smallest, item.priority
        factors = (item.always, item.always * item.factor)
        numbers = [n for factor in factors for n in (factor.numerator, factor.denominator)]
        linear = item.curves[0].semi_linear if len(item.curves) == 1 else None
        if linear and max(numbers) <= _U32:
            row["parallel"], row["serial"] = linear
            row["fixed"] = item.fixed
            row["numerator"], row["denominator"] = numbers[::2], numbers[1::2]
            return
        counts = range(1, workload.units + 1)
        times = [item.time(m, c) if m >= item.smallest else -1 for c in (False, True) for m in counts]
        if max(times) << SHIFT >= item.period << 62:
            raise OverflowError
        row["table"] = len(tables) // (2 * workload.units) + 1
        tables.extend(times)

    def run(self, ways: Sequence[Way]) -> tuple[Structs, Structs, Structs]:
        """Results, and for each way the partition of each task and the sizes of partitions."""
        results = np.zeros(len(ways), RESULT)
        part, size = (np.zeros((len(ways), max(self.count, 1)), np.uint32) for _ in range(2))
        lib.gpurt_partition_run(
            self.set, structs(ways), len(ways), ffi.from_buffer("struct gpurt_partition_result[]", results),
            pointer("u32", part), pointer("u32", size),
        )  # fmt: skip
        return results, part[:, : self.count], size


def struct(
    tasks: Structs, count: int, units: int, inside: str, sizes: NDArray[np.uint32], most: int | None = None
) -> CData:
    """The C struct of a taskset over these arrays, which must outlive it."""
    made = ffi.new("struct gpurt_partition_set *")
    made.tasks = ffi.from_buffer("struct gpurt_partition_task[]", tasks)
    made.count, made.units, made.test, made.most = count, units, _TEST[inside], most or 0
    made.sizes, made.size_count = pointer("u32", sizes), len(sizes)
    return made


def structs(ways: Sequence[Way]) -> CData:
    """The C structs of variants."""
    made = ffi.new("struct gpurt_partition_variant[]", len(ways))
    for at, (variant, order) in zip(made, ways, strict=True):
        rule, _, mode = variant.partition("-")
        at.rule = lib.GPURT_PARTITION_ONE if variant == variants.ONE else _RULE[rule]
        at.exhaustive, at.increasing = mode == "act", order == "inc"
    return made


def sweep(
    tasks: Structs, units: int, inside: str, ways: Sequence[Way], readable: Callable[[Structs], Workload]
) -> Structs:  # fmt: skip
    """Results of each way on each taskset: ``tasks`` has a row of TASKs for each.

    ``readable``: the workload of a row, for those that C refuses.
    """
    results = np.zeros((len(tasks), len(ways)), RESULT)
    sizes = np.arange(1, units + 1, dtype=np.uint32)
    made = struct(np.ascontiguousarray(tasks), tasks.shape[1], units, inside, sizes)
    lib.gpurt_partition_sweep(made, len(tasks), structs(ways), len(ways),
                              ffi.from_buffer("struct gpurt_partition_result[]", results))  # fmt: skip
    if (results["status"] == lib.GPURT_PARTITION_ENOMEM).any():
        raise MemoryError
    for row, way in np.argwhere(results["status"] == lib.GPURT_PARTITION_REFUSED):
        results[row, way] = _summary(readable(tasks[row]), *ways[way])
    return results


def _summary(workload: Workload, variant: str, order: str) -> tuple[int, int, int, int, int]:
    """The readable planner's result in the form in which C gives it."""
    if variant == readable_exact.EXACT:
        found = readable_exact.exact(workload)
    else:
        found = variants.run_variant(workload, variant, order)
    if isinstance(found, Infeasible):
        names = {None: "NONE", 1: "LEMMA1", 2: "LEMMA2"}
        task = next((at for at, item in enumerate(workload.items) if item.name == found.task), 0)
        return getattr(lib, f"GPURT_PARTITION_{names[found.lemma]}"), task, 0, 0, 0
    status = lib.GPURT_PARTITION_FITS if found.fits else lib.GPURT_PARTITION_STUCK
    return status, 0, found.units, len(found.parts), found.load
