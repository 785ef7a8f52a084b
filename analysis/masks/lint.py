# SPDX-License-Identifier: GPL-2.0
"""Faults of masks, by rule, each with the finding on which it rests (docs/cu-masks.md lists them)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import combinations

from analysis.masks.effect import Effect, effect, effect_of
from analysis.masks.mapping import (
    BY_ARRAY,
    LATEST,
    OTHER_RULE_GC,
    PAIRS_READ,
    XCCS_READ,
    Release,
    Unit,
    enabled,
    half_pairs,
)
from analysis.masks.topology import Topology

#: Text of at least this many digits 0 and 1 only counts as the paper's notation, bit 0 first.
BINARY_DIGITS = 8
_BINARY = re.compile(rf"[01]{{{BINARY_DIGITS},}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Masked:
    """A partition: its mask, and the mask's text."""

    name: str
    mask: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class MaskFinding:
    """``rule``: E1 to E7 are errors, the W rules warnings.  ``names``: the partitions concerned."""

    rule: str
    names: tuple[str, ...]
    text: str

    @property
    def error(self) -> bool:
        """Whether the mask must not be used."""
        return self.rule.startswith("E")


@dataclass(frozen=True)
class _Case:
    """A partition with the effect of its mask."""

    of: Masked
    units: frozenset[Unit]
    effect: Effect


def lint(partitions: Sequence[Masked], topology: Topology, release: Release = LATEST) -> list[MaskFinding]:
    """All findings, errors first.  Raises ValueError if two partitions have one name."""
    names = [one.name for one in partitions]
    if len(set(names)) < len(names):
        raise ValueError(f"two partitions are called {next(name for name in names if names.count(name) > 1)!r}")
    found = list(_release(topology, release))
    cases = []
    for one in partitions:
        units = enabled(one.mask, topology, release)
        cases.append(_Case(one, units, effect_of(units, topology)))
    for case in cases:
        for rule in _ALONE:
            found += rule(case, topology)
    for pair in combinations(cases, 2):
        found += _together(*pair)
    if topology.assumed:
        found.append(MaskFinding("W6", (), f"{topology.assumed}; the render node of the machine knows"))
    return sorted(found, key=lambda one: one.rule)


def hangs(mask: Masked, topology: Topology, release: Release = LATEST) -> list[MaskFinding]:
    """The errors for which the preload library does not set a mask: E1, E2, E5, and E7 if an XCC has no CU."""
    empty = not effect(mask.mask, topology, release).effective
    rules = ("E1", "E2", "E5", "E7") if empty else ("E1", "E2", "E5")
    return [one for one in lint([mask], topology, release) if one.rule in rules]


def _release(topology: Topology, release: Release) -> Iterator[MaskFinding]:
    """Rule E5: the release of Linux does not map bits to this chip's CUs."""
    version = f"Linux {release[0]}.{release[1]}"
    if topology.gfx >= OTHER_RULE_GC:
        yield MaskFinding("E5", (), "from GC 12.1 on, Linux maps bits in another way, which is not known here")
    elif release < BY_ARRAY and len(topology.arrays[0]) > 1:
        text = f"{version} maps bits as if each shader engine had one shader array, and here each has two: "
        yield MaskFinding("E5", (), f"{text}some CUs cannot be enabled, and some bits enable none; 5.15 is right")
    elif release < XCCS_READ and topology.xccs > 1:
        text = f"it is not known whether {version} deals bits to XCCs as 6.12 does; before 6.10 only the first XCC "
        yield MaskFinding("E5", (), f"{text}has a mask, or all have the same")
    elif release < PAIRS_READ and topology.paired:
        text = f"it is not known whether {version} maps bits by pairs of CUs, as 6.1 does"
        yield MaskFinding("E5", (), f"{text}; half a pair can hang the queue")


def _empty(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    if not case.units:
        text = f"it has none of the chip's {topology.units} CUs: the driver accepts it, and the queue's work never ends"
        yield MaskFinding("E1", (case.of.name,), text)


def _halves(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    if halves := half_pairs(case.of.mask, topology):
        bits = f"{2 * halves[0]} and {2 * halves[0] + 1}"
        text = f"bits {bits} differ, and CUs come in pairs: the driver refuses the mask (EINVAL); older ones hang"
        yield MaskFinding("E2", (case.of.name,), text)


def _dominated(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    seen = case.effect
    if case.units and seen.dominated and len(set(seen.counts)) == 1:
        few, times = min(filter(None, seen.counts[0])), f"{seen.best / seen.effective:.3g}"
        text = (
            f"{seen.units} CUs work like {seen.effective}: blocks are dealt to shader engines in turn, and one has "
            f"only {few}; without the smallest they work like {seen.best}, {times} times as fast (Observation 3)"
        )
        yield MaskFinding("E3", (case.of.name,), text)


def _unequal(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    if case.units and len(set(case.effect.counts)) > 1:
        sums = [sum(xcc) for xcc in case.effect.counts]
        what = f"XCC {sums.index(0)} has no CU, and its blocks never end" if 0 in sums else "the slowest sets the pace"
        same = f"{min(sums)} to {max(sums)}"
        yield MaskFinding("E7", (case.of.name,), f"the XCCs do not have the same CUs ({same}): {what}")


def _waste(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    seen = case.effect
    if seen.waste and not seen.dominated and len(set(seen.counts)) == 1:
        counts = ", ".join(map(str, filter(None, seen.counts[0])))
        text = (
            f"{seen.waste} of {seen.units} CUs speed nothing up: the shader engines have {counts}, and the smallest "
            f"sets the pace; it works like {seen.effective}"
        )
        yield MaskFinding("W1", (case.of.name,), text)


def _beyond(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    if case.units and case.of.mask >> topology.units:
        text = f"it has bits beyond the chip's {topology.units} CUs, which the driver ignores; is it for another chip?"
        yield MaskFinding("W5", (case.of.name,), text)


def _binary(case: _Case, topology: Topology) -> Iterator[MaskFinding]:
    if _BINARY.fullmatch(case.of.text):
        number = int(case.of.text[::-1], 2)
        text = f"{case.of.text[:24]!r} is read as hexadecimal; if it is binary with bit 0 first, as in papers, write "
        yield MaskFinding("W7", (case.of.name,), f"{text}{number:#x}")


_ALONE: tuple[Callable[[_Case, Topology], Iterator[MaskFinding]], ...] = (
    _empty, _halves, _dominated, _unequal, _waste, _beyond, _binary,
)  # fmt: skip


def _engines(units: frozenset[Unit]) -> set[tuple[int, int]]:
    return {(unit.xcc, unit.engine) for unit in units}


def _count(things: Sized, word: str) -> str:
    return f"{len(things)} {word}{'s' if len(things) > 1 else ''}"


def _together(one: _Case, other: _Case) -> Iterator[MaskFinding]:
    """Rules E4 and W2: CUs or engines that two partitions share."""
    names = one.of.name, other.of.name
    shared = one.units & other.units
    if not shared:
        if common := _engines(one.units) & _engines(other.units):
            text = f"they share {_count(common, 'shader engine')}, which costs a few percent (Observation 4)"
            yield MaskFinding("W2", names, text)
        return
    text = f"they share {_count(shared, 'CU')}: neither is isolated"
    if lonely := _lonely(one, shared) or _lonely(other, shared):
        text += f"; one is {lonely}'s only CU on its shader engine, the worst practice of all (Observation 3)"
    yield MaskFinding("E4", names, text)


def _lonely(case: _Case, shared: frozenset[Unit]) -> str:
    """The partition's name if a shared CU is its only one on a shader engine; otherwise empty."""
    counts = case.effect.counts
    return case.of.name if any(counts[unit.xcc][unit.engine] == 1 for unit in shared) else ""
