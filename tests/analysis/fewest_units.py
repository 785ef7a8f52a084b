# SPDX-License-Identifier: GPL-2.0
"""The fewest units in which a workload fits, beside which heuristics are judged: a search over subsets of tasks."""

from __future__ import annotations

from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import Allocation
from analysis.partition.workload import Workload

#: Most tasks: 3^N / 2 steps, which take seconds.
MAX_TASKS_OF_SEARCH = 16
EXACT = "exact"


def exact(workload: Workload) -> Allocation | Infeasible:
    """An allocation with the fewest units, and among those the fewest partitions.

    It uses at most ``workload.most`` partitions.  Raises ValueError for more than MAX_TASKS_OF_SEARCH tasks.
    """
    count = len(workload.items)
    if count > MAX_TASKS_OF_SEARCH:
        raise ValueError(f"exact takes at most {MAX_TASKS_OF_SEARCH} tasks, not {count}")
    merger = Merger(workload)
    start = merger.singles
    if isinstance(start, Infeasible):
        return start
    sizes = _sizes(merger, count)
    chosen = _cheapest(sizes, count, workload.most or count)
    if chosen is None:
        return Infeasible(None, f"no partitioning exists on {workload.units} units" + _within(workload))
    parts = [merger.part(_members(subset, count), size) for subset in chosen if (size := sizes[subset])]
    return Allocation(workload, tuple(sorted(parts, key=lambda part: part.tasks)))


def _within(workload: Workload) -> str:
    return f" in {workload.most} partitions" if workload.most else ""


def _members(subset: int, count: int) -> list[int]:
    return [index for index in range(count) if subset >> index & 1]


def _sizes(merger: Merger, count: int) -> list[int | None]:
    """m*(G) of every set G of tasks; no set is smaller than a set within it."""
    sizes: list[int | None] = [0] * (1 << count)
    for subset in range(1, 1 << count):
        within = [sizes[subset & ~(1 << index)] for index in _members(subset, count)]
        low = max((size for size in within if size is not None), default=0)
        sizes[subset] = (
            None if None in within else merger.least(_members(subset, count), max(low, 1), merger.workload.units)
        )
    return sizes


#: Units and partitions of a set, and the groups of tasks that are the partitions.
_Found = tuple[tuple[int, int], tuple[int, ...]]


def _cheapest(sizes: list[int | None], count: int, most: int) -> list[int] | None:
    """The groups of all tasks with the fewest units, and among those the fewest groups, but at most so many.

    f(S) = min over G containing S's lowest task of m*(G) + f(S minus G).  Only if that takes too many groups are there
    rows for each number of them.
    """
    full = (1 << count) - 1
    row: list[_Found | None] = [((0, 0), ())] + [None] * full
    for subset in range(1, full + 1):
        row[subset] = _split(subset, sizes, row)
    found = row[full]
    if found is None or found[0][1] <= most:
        return None if found is None else list(found[1])
    before, found = [row[0]] + [None] * full, None
    for _ in range(most):
        row = [None] * (full + 1)
        for subset in range(1, full + 1):
            row[subset] = _split(subset, sizes, before)
        last = row[full]
        if last is not None and (found is None or last[0] < found[0]):
            found = last
        before = row
    return list(found[1]) if found else None


def _split(subset: int, sizes: list[int | None], before: list[_Found | None]) -> _Found | None:
    lowest, chosen, fewest = subset & -subset, 0, None
    rest = others = subset ^ (subset & -subset)
    while True:
        size, left = sizes[lowest | others], before[rest ^ others]
        if size is not None and left is not None:
            units, parts = left[0]
            if fewest is None or (size + units, parts + 1) < fewest:
                fewest, chosen = (size + units, parts + 1), lowest | others
        if not others:
            break
        others = (others - 1) & rest
    if fewest is None:
        return None
    left = before[subset ^ chosen]
    assert left is not None
    return fewest, (*left[1], chosen)
