# SPDX-License-Identifier: GPL-2.0
"""Divides a GPU into disjoint masks: each a rectangle of w shader engines with j CUs each, the same in every XCC.

Only rectangles waste no CU (effect.py).  The plan has the least waste; among those of least waste, the fewest shared
shader engines (Observation 4), and then the most engines for each partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.masks.mapping import LATEST, Release, Unit, register_places
from analysis.masks.search import MaskShape, ShaderEngine, Step, first_fit, least_mask
from analysis.masks.topology import Topology

#: The most partitions of one plan.
MOST_PARTITIONS = 32
#: After this many states, the search falls back to first fit.
STATES = 50_000


@dataclass(frozen=True, slots=True)
class Want:
    """A partition with ``units`` to ``most`` effective CUs; ``apart``: it shares no shader engine."""

    name: str
    units: int
    apart: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """``width`` shader engines with ``depth`` CUs each, in every XCC."""

    name: str
    wanted: int
    width: int
    depth: int
    engines: tuple[int, ...]
    mask: int
    effective: int

    @property
    def waste(self) -> int:
        """The number of CUs beyond those wanted."""
        return self.effective - self.wanted


@dataclass(frozen=True, slots=True)
class Plan:
    """``proved``: no plan wastes less.  If there are too many states to search, the plan comes from first fit."""

    parts: tuple[Part, ...]
    proved: bool

    @property
    def waste(self) -> int:
        """The waste of all partitions."""
        return sum(part.waste for part in self.parts)


class Impossible(ValueError):
    """No such partitions exist, or none were found; the text says which."""


def plan_masks(wants: Sequence[Want], topology: Topology, release: Release = LATEST) -> Plan:
    """The best plan.

    Raises:
        Impossible: no plan exists; or, if its text says so, none was found.
        ValueError: no partition, too many, two with one name, or an invalid size.
    """
    _check(wants)
    order = sorted(range(len(wants)), key=lambda index: (not wants[index].apart, -wants[index].units))
    ordered = [wants[index] for index in order]
    start = _engines(topology)
    choices = [_least_shapes(want, topology) for want in ordered]
    found = complete = None
    if all(choices):
        steps = [
            Step(want.apart, tuple(shapes), min(shape.width * shape.depth for shape in shapes))
            for want, shapes in zip(ordered, choices, strict=True)
        ]
        found, complete = least_mask(steps, start, STATES)
        if found is None and not complete:
            found = first_fit(steps, start)
    if found is None:
        raise _impossible(wants, topology, complete is not False)
    shapes = dict(zip(order, found, strict=True))
    return Plan(_realised(wants, [shapes[i] for i in range(len(wants))], topology, release), bool(complete))


def _check(wants: Sequence[Want]) -> None:
    if not 1 <= len(wants) <= MOST_PARTITIONS:
        raise ValueError(f"{len(wants)} partitions; a plan has 1 to {MOST_PARTITIONS}")
    twice = [name for name, count in Counter(want.name for want in wants).items() if count > 1]
    if twice:
        raise ValueError(f"two partitions are called {twice[0]!r}")
    for want in wants:
        if want.units < 1 or (want.most is not None and want.most < want.units):
            raise ValueError(f"{want.name}: expected at least 1 CU, and at most no fewer than at least")


def _engines(topology: Topology) -> tuple[ShaderEngine, ...]:
    return tuple(ShaderEngine(number, count, 0) for number, count in enumerate(topology.engines))


def _least_shapes(want: Want, topology: Topology) -> list[MaskShape]:
    """The smallest rectangle of each width: larger ones only take more CUs."""
    found = []
    for width in range(1, len(topology.engines) + 1):
        depth = -(-want.units // (width * topology.xccs * topology.step)) * topology.step
        size = width * depth * topology.xccs
        if depth <= max(topology.engines) and size <= (want.most or size):
            found.append(MaskShape(width, depth, (size - want.units, 0, -width)))
    return found


def _impossible(wants: Sequence[Want], topology: Topology, proved: bool) -> Impossible:
    """The error, with its reason."""
    total = sum(want.units for want in wants)
    shapes = []
    for want in wants:
        listed = " or ".join(f"{one.width}x{one.depth}" for one in _least_shapes(want, topology))
        most = f" to {want.most}" if want.most else ""
        shapes.append(f"{want.name}: {want.units}{most} CUs need {listed or 'what no mask has'}")
    engines = ", ".join(map(str, topology.engines))
    text = f"{'; '.join(shapes)} (shader engines x CUs each); the shader engines have {engines}"
    text += f" in each of {topology.xccs} XCCs" if topology.xccs > 1 else ""
    if total > topology.units:
        text = f"{total} CUs are wanted, and the chip has {topology.units}"
    elif not proved:
        text = f"no plan was found among {STATES} looked at, which does not prove that there is none: {text}"
    return Impossible(text)


def _realised(
    wants: Sequence[Want], shapes: Sequence[MaskShape], topology: Topology, release: Release
) -> tuple[Part, ...]:  # fmt: skip
    """The masks: in each engine, partitions take CUs in the order of bits, the first partition first."""
    free: dict[tuple[int, int], list[int]] = {}
    seen: set[tuple[Unit, ...]] = set()
    bits_of: dict[tuple[Unit, ...], int] = {}
    for bit, units in enumerate(register_places(topology, release)):
        bits_of[units] = bits_of.get(units, 0) | 1 << bit
    for units in register_places(topology, release):
        if units and units not in seen:
            seen.add(units)
            free.setdefault((units[0].xcc, units[0].engine), []).append(bits_of[units])
    parts = []
    for want, shape in zip(wants, shapes, strict=True):
        mask = 0
        for xcc in range(topology.xccs):
            for engine in shape.engines:
                for _ in range(shape.depth // topology.step):
                    mask |= free[xcc, engine].pop(0)
        size = shape.width * shape.depth * topology.xccs
        parts.append(Part(want.name, want.units, shape.width, shape.depth, shape.engines, mask, size))
    return tuple(parts)


def mask_sizes(topology: Topology) -> tuple[int, ...]:
    """The possible sizes of parts with masks: every number of effective CUs of some rectangle."""
    found: set[int] = set()
    for depth in range(topology.step, max(topology.engines) + 1, topology.step):
        wide = sum(count >= depth for count in topology.engines)
        found |= {topology.xccs * width * depth for width in range(1, wide + 1)}
    return tuple(sorted(found))
