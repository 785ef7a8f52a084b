# SPDX-License-Identifier: GPL-2.0
"""The fewest units for more tasks than dynamic programming takes: set partitioning, solved by HiGHS through scipy.

A column is a set of tasks that fits a partition, and costs the fewest units on which it does.  All columns that an
optimum may have are listed.  The optimum of the integer programme is therefore that of the problem, for any test inside
a partition.  The method is for many tasks of which few fit together.  HiGHS computes in floating point, so that its
answer is checked exactly here, with the test itself.  The proof that no better answer exists rests on the bound of
HiGHS, which has to be within half a partition.  Needs the extra ``exact``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.partition.exact import EXACT
from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import Allocation
from analysis.partition.workload import Workload

#: Sets that are tested at most.
MOST_SETS = 60_000
#: Most tasks: a set is an integer of 64 bits.
MAX_TASKS_OF_COLUMNS = 62
#: Prices are whole parts of one.
PRICE_SCALE = 10**6
#: How long HiGHS may take, seconds.
SOLVER_LIMIT_S = 120.0


def exact(
    workload: Workload, heuristic: Callable[[Workload], Allocation | Infeasible]
) -> Allocation | Infeasible:  # fmt: skip
    """An allocation with the fewest units, and among those the fewest partitions, at most ``workload.most``.

    ``heuristic``: what the search need not look beyond.

    Raises ValueError if scipy is missing, there are too many sets, or HiGHS proves nothing.
    """
    merger = Merger(workload)
    start = merger.singles()
    if isinstance(start, Infeasible):
        return start
    count = len(workload.items)
    if count > MAX_TASKS_OF_COLUMNS:
        raise ValueError(f"exact takes at most {MAX_TASKS_OF_COLUMNS} tasks, not {count}; best gives an upper bound")
    most = workload.most or count
    table = _Columns.of(_sizes(merger, count), count, workload.most is None)
    known = heuristic(workload)
    if isinstance(known, Allocation) and len(known.parts) <= most:
        table = _relevant(table, most, (count + 1) * known.units + len(known.parts))
    chosen = _cheapest(table, most)
    if chosen is None:
        return Infeasible(None, f"no partitioning exists on {workload.units} units in {most} partitions")
    for tasks, size in chosen:
        assert merger.passes(tasks, size), "a column is not what it was"
    parts = sorted((merger.part(tasks, size) for tasks, size in chosen), key=lambda part: part.tasks)
    return Allocation(workload, tuple(parts), EXACT, "")


@dataclass(frozen=True)
class _Columns:
    """Sets of tasks, as bits, and the units that each needs."""

    count: int
    sets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: Mapping[int, int], count: int, few: bool) -> _Columns:
        """The sets of ``sizes``.  ``few``: without those that no optimum needs.

        A set that needs more units than one of its tasks and the rest do apart is in no optimum.  A set that needs as
        many may be in one, because it is one partition less.
        """
        wanted = {
            tasks: size for tasks, size in sizes.items()
            if not few or all(size <= sizes[tasks ^ bit] + sizes[bit] for bit in _bits(tasks) if tasks != bit)
        }  # fmt: skip
        return cls(count, np.array(list(wanted), np.int64), np.array(list(wanted.values()), np.int64))

    @property
    def has(self) -> NDArray[np.int64]:
        """A row for each task: whether it is in each set."""
        return self.sets >> np.arange(self.count)[:, None] & 1

    @property
    def costs(self) -> NDArray[np.int64]:
        """The cost of each set: units count first, and then that it is a partition."""
        return (self.count + 1) * self.sizes + 1


def _bits(tasks: int) -> Iterator[int]:
    """Each task of a set as a set."""
    while tasks:
        yield tasks & -tasks
        tasks &= tasks - 1


def _sizes(merger: Merger, count: int) -> dict[int, int]:
    """m*(G) of each set G of tasks that fits, as bits.  A set that has one which does not fit does not fit either.

    Raises ValueError if there are too many.
    """
    found: dict[int, int] = {0: 1}
    layer, tested = [0], 0
    while layer:
        wider = []
        for tasks in layer:
            for task in range(tasks.bit_length(), count):
                one = tasks | 1 << task
                within = [found.get(one ^ bit) for bit in _bits(one)]
                known = [size for size in within if size is not None]
                if len(known) < len(within):
                    continue
                tested += 1
                if tested > MOST_SETS:
                    raise ValueError(
                        f"exact looks at {MOST_SETS} sets of tasks at most, and these {count} have more that may share "
                        "a partition; best gives an upper bound"
                    )
                members = [at for at in range(count) if one >> at & 1]
                size = merger.least(members, max(known), merger.workload.units)
                if size is not None:
                    found[one] = size
                    wider.append(one)
        layer = wider
    del found[0]
    return found


def _relevant(table: _Columns, most: int, known: int) -> _Columns:
    """The columns without those that no solution has whose cost is at most ``known``.

    HiGHS gives a price for each task, and one for each partition if their number is limited.  Rounded to integers, they
    split the cost of any solution exactly: the prices, and for each of its columns what that costs beyond them.
    """
    optimize = _scipy(table.count)
    solved = optimize.linprog(
        table.costs, A_eq=table.has, b_eq=[1] * table.count, A_ub=np.ones((1, len(table.sets))), b_ub=[most],
        method="highs",
    )  # fmt: skip
    if solved.status:
        return table
    prices = np.floor(solved.eqlin.marginals * PRICE_SCALE).astype(np.int64)
    place = min(0, int(np.floor(solved.ineqlin.marginals[0] * PRICE_SCALE)))
    beyond = PRICE_SCALE * table.costs - prices @ table.has - place
    # All other columns of a solution number at most `most`, and none costs less than the cheapest beyond its prices.
    room = PRICE_SCALE * known - int(prices.sum()) - place * most - most * min(0, int(beyond.min()))
    kept = beyond <= room
    return _Columns(table.count, table.sets[kept], table.sizes[kept])


def _scipy(count: int) -> Any:
    """Its module.  Raises ValueError if it is not installed."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise ValueError(f"exact for {count} tasks needs scipy: pip install 'gpurt[exact]'") from None


def _cheapest(table: _Columns, most: int) -> list[tuple[tuple[int, ...], int]] | None:
    """The columns that have each task once, at the least cost; None: there are none.

    Raises ValueError if that is not proved.
    """
    optimize, count, costs = _scipy(table.count), table.count, table.costs
    limits = [optimize.LinearConstraint(table.has, 1, 1), optimize.LinearConstraint(np.ones_like(costs)[None], 0, most)]
    answer = optimize.milp(
        costs, integrality=np.ones_like(costs), bounds=optimize.Bounds(0, 1), constraints=limits,
        options={"mip_rel_gap": 0, "time_limit": SOLVER_LIMIT_S},
    )  # fmt: skip
    if answer.status == 2:
        return None
    chosen = [] if answer.x is None else np.flatnonzero(answer.x > 0.5).tolist()
    parts = [tuple(task for task in range(count) if int(table.sets[at]) >> task & 1) for at in chosen]
    whole = sorted(task for tasks in parts for task in tasks) == list(range(count)) and len(parts) <= most
    if answer.status or not whole or answer.mip_dual_bound < int(costs[chosen].sum()) - 0.5:
        raise ValueError(f"HiGHS proved no optimum for {count} tasks: {str(answer.message)[:200]}")
    return list(zip(parts, table.sizes[chosen].tolist(), strict=True))
