# SPDX-License-Identifier: GPL-2.0
"""Places rectangles of compute units on shader engines, at the least cost: best-first search, and first fit.

The search is A*.  A state is the number of placed partitions and, for each engine, its number of free CUs and whether
it is used or closed.  Equal engines are interchangeable.  A cost is a tuple, compared from its first number on, and
costs of partitions add up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import add
from typing import NamedTuple, TypeAlias

#: Other numbers first, then (last but one) the shader engines shared, then (last) minus the engines used.
Cost: TypeAlias = tuple[int, ...]
#: The number of placed partitions and, for each engine, its free CUs and whether it is used.
_State: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
EMPTY, USED, CLOSED = 0, 1, 2


class ShaderEngine(NamedTuple):
    """A shader engine: its number, its free CUs, and whether a partition, or one that shares with none, is on it."""

    number: int
    free: int
    state: int


@dataclass(frozen=True)
class MaskShape:
    """``width`` engines with ``depth`` CUs each, the cost, and, once placed, the engines."""

    width: int
    depth: int
    cost: Cost
    engines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """A partition to place, the shapes that it may have, and the CUs of an XCC that it needs."""

    apart: bool
    shapes: tuple[MaskShape, ...]
    needs: int


def least_mask(
    steps: Sequence[Step], start: Sequence[ShaderEngine], limit: int
) -> tuple[list[MaskShape] | None, bool]:
    """The cheapest way to place all partitions, or None; and whether the search was complete.

    ``limit``: the most states to visit.
    """
    if not all(step.shapes for step in steps):
        return None, True
    ahead = _ahead(steps)
    needs = [sum(step.needs for step in steps[index:]) for index in range(len(steps) + 1)]
    first = tuple(start)
    heap: list[tuple[Cost, int, int, Cost, tuple[ShaderEngine, ...], tuple[MaskShape, ...]]] = [
        (ahead[0], len(steps), 0, (0,) * len(ahead[0]), first, ())
    ]
    closed: set[_State] = set()
    seen: dict[_State, Cost] = {}
    entered = 0
    while heap:
        _, left, _, cost, engines, placed = heapq.heappop(heap)
        index = len(steps) - left
        if index == len(steps):
            return list(placed), True
        key = _state(index, engines)
        if key in closed:
            continue
        closed.add(key)
        if len(closed) > limit:
            return None, False
        for shape, after in placements(steps[index], engines):
            entered += 1
            so_far = tuple(map(add, cost, shape.cost))
            total = tuple(map(add, so_far, ahead[index + 1]))
            if needs[index + 1] > sum(engine.free for engine in after if engine.state != CLOSED):
                continue
            # The costs ahead depend only on the state: of equal states, the first of the cheapest is enough.
            state = _state(index + 1, after)
            if state in seen and seen[state] <= so_far:
                continue
            seen[state] = so_far
            heapq.heappush(heap, (total, left - 1, entered, so_far, after, (*placed, shape)))
    return None, True


def _state(index: int, engines: tuple[ShaderEngine, ...]) -> _State:
    return index, tuple(sorted((engine.free, engine.state) for engine in engines))


def first_fit(steps: Sequence[Step], start: Sequence[ShaderEngine]) -> list[MaskShape] | None:
    """Places each partition once, without backtracking: least waste first, then the fewest and fullest engines."""
    engines, placed = tuple(start), []
    for step in steps:
        free = {engine.number: engine.free for engine in engines}


        def key(way: tuple[MaskShape, tuple[ShaderEngine, ...]], free: dict[int, int] = free) -> tuple[int, int, int]:
            shape = way[0]
            return shape.cost[0], shape.width, sum(free[number] for number in shape.engines)

        best = min(placements(step, engines), key=key, default=None)
        if best is None:
            return None
        placed.append(best[0])
        engines = best[1]
    return placed


def placements(step: Step, engines: tuple[ShaderEngine, ...]) -> Iterator[tuple[MaskShape, tuple[ShaderEngine, ...]]]:
    """Every way to place one partition; ways that differ only in equal engines count once.

    The shape's cost includes the engines that it shares.
    """
    alike = _alike(engines)
    for shape in step.shapes:
        room = [[one for one in group if _takes(one, shape, step.apart)] for group in alike]
        for chosen in _chosen([group for group in room if group], shape.width):
            numbers = {one.number for one in chosen}
            shared = sum(one.state == USED for one in chosen)
            state = CLOSED if step.apart else USED
            after = tuple(
                ShaderEngine(one.number, one.free - shape.depth, state) if one.number in numbers else one
                for one in engines
            )
            cost = (*shape.cost[:-2], shape.cost[-2] + shared, shape.cost[-1])
            yield replace(shape, cost=cost, engines=tuple(sorted(numbers))), after


def _ahead(steps: Sequence[Step]) -> list[Cost]:
    """Lower bounds of the cost of each step together with all later ones, and 0 after the last."""
    bounds: list[Cost] = [(0,) * len(steps[0].shapes[0].cost)]
    for step in reversed(steps):
        cheapest = tuple(map(min, zip(*(shape.cost for shape in step.shapes), strict=True)))
        bounds.insert(0, tuple(map(add, cheapest, bounds[0])))
    return bounds


def _takes(engine: ShaderEngine, shape: MaskShape, apart: bool) -> bool:
    return engine.free >= shape.depth and engine.state != CLOSED and not (apart and engine.state == USED)


def _alike(engines: Sequence[ShaderEngine]) -> list[list[ShaderEngine]]:
    ordered = sorted(engines, key=lambda one: (one.state, one.free, one.number))
    return [list(group) for _, group in groupby(ordered, key=lambda one: (one.state, one.free))]


def _chosen(groups: list[list[ShaderEngine]], width: int) -> Iterator[list[ShaderEngine]]:
    """All ways to take ``width`` engines; each group gives its first engines."""
    if not groups:
        if not width:
            yield []
        return
    for count in range(min(width, len(groups[0])), -1, -1):
        for rest in _chosen(groups[1:], width - count):
            yield [*groups[0][:count], *rest]
