# SPDX-License-Identifier: GPL-2.0
"""The compute unit of each bit of a mask, by release of Linux (mqd_symmetrically_map_cu_mask() in kfd_mqd_manager.c).

RTNS'21 draws it in figure 8.  The code was read in 6.1.192 and, for several XCCs, 6.12.117.
``tests/masks/test_driver.py`` compiles the driver's function and compares, if its source is available.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from analysis.masks.topology import MOST_UNITS, Topology

#: A release of Linux, such as (6, 1).
Release: TypeAlias = tuple[int, int]
#: The first release that deals bits to shader arrays too (commit 1ec06c2d of August 2021).
BY_ARRAY: Release = (5, 15)
#: The oldest release in which the rule for pairs of bits was read.
PAIRS_READ: Release = (6, 1)
#: The oldest release in which the rule for several XCCs was read.  Some earlier releases gave a mask only to the first
#: XCC ("drm/amdkfd: Fix CU Masking for GFX 9.4.3", May 2024).
XCCS_READ: Release = (6, 12)
#: From GC 12.1 on, bits have a rule of their own (mqd_symmetrically_map_cu_mask_v12_1() in kfd_mqd_manager_v12_1.c).
OTHER_RULE_GC = 120_100
#: The release that is assumed by default.
LATEST: Release = (6, 12)
#: The most bits of a mask that the driver takes.
MOST_BITS = 1_024
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,4})(?![0-9])", re.ASCII)
_MASK = re.compile(r"(?:0x)?[0-9a-fA-F]{1,256}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A compute unit, or a place for one: bit 16 sh + cu in the register of that XCC and shader engine."""

    xcc: int
    engine: int
    array: int
    index: int

    @property
    def bit(self) -> int:
        """Its bit in the register COMPUTE_STATIC_THREAD_MGMT_SE."""
        return MOST_UNITS * self.array + self.index


#: The CUs that one bit of a mask enables: one CU, both CUs of a pair, or none if the bit is past the chip's CUs.
Enabled: TypeAlias = tuple[Unit, ...]


def parse_release(text: str) -> Release:
    """The release in a text such as "6.1.0-13-amd64".  Raises ValueError."""
    found = _RELEASE.match(text)
    if found is None:
        raise ValueError(f'expected a release of Linux such as "6.1", got {text[:40]!r}')
    return int(found[1]), int(found[2])


def parse_mask(text: str) -> int:
    """A hexadecimal mask, bit 0 on the right, as in GPURT_CU_MASK (parse() in kfd_mask.c).  Raises ValueError."""
    if _MASK.fullmatch(text) is None:
        raise ValueError(f"expected a hexadecimal mask of 1 to {MOST_BITS} bits such as 0xff, got {text[:40]!r}")
    return int(text.removeprefix("0x"), 16)


def words(mask: int) -> tuple[int, ...]:
    """The mask as in SET_CU_MASK: 32 bits a word, lowest first, at least one word."""
    return tuple(mask >> shift & 0xFFFFFFFF for shift in range(0, max(mask.bit_length(), 1), 32))


@lru_cache(maxsize=64)
def register_places(topology: Topology, release: Release = LATEST) -> tuple[Enabled, ...]:
    """The CUs that each bit enables in the registers, for as many bits as there are active CUs.

    Not every place is a compute unit under Linux 5.14 and older: see `exists`.
    """
    if release < BY_ARRAY:
        return _by_engine(topology)
    step = topology.step
    found: list[Enabled] = [()] * topology.units
    for xcc in range(topology.xccs):
        bit = xcc
        for unit in _in_turn(topology, xcc):
            if bit >= topology.units:
                break
            pair = tuple(Unit(xcc, unit.engine, unit.array, unit.index + k) for k in range(step))
            for k in range(step):
                found[bit + k] = pair
            bit += step * topology.xccs
    return tuple(found)


def _in_turn(topology: Topology, xcc: int) -> list[Unit]:
    """The first CU of each pair, or each CU: CU index by CU index, array by array, engine by engine."""
    arrays = range(len(topology.arrays[0]))
    return [
        Unit(xcc, engine, array, index)
        for index in range(0, MOST_UNITS, topology.step)
        for array in arrays
        for engine, counts in enumerate(topology.arrays)
        if counts[array] > index
    ]


def _by_engine(topology: Topology) -> tuple[Enabled, ...]:
    """Linux 5.14 and older: an index counts over both shader arrays, and is used as the register's bit."""
    counts, engine, index, found = topology.engines, 0, 0, []
    for _ in range(sum(counts)):
        found.append((Unit(0, engine, index // MOST_UNITS, index % MOST_UNITS),))
        while True:
            engine += 1
            if engine == len(counts):
                engine, index = 0, index + 1
            if index < counts[engine] or index >= 2 * MOST_UNITS:
                break
    return tuple(found) + ((),) * (topology.units - len(found))


def exists(topology: Topology, unit: Unit) -> bool:
    """Whether the chip has a compute unit there."""
    arrays = topology.arrays[unit.engine]
    return unit.array < len(arrays) and unit.index < arrays[unit.array]


def enabled(mask: int, topology: Topology, release: Release = LATEST) -> frozenset[Unit]:
    """The compute units that a mask enables.  Bits beyond the active CUs enable none."""
    return frozenset(
        unit
        for bit, places_ in enumerate(register_places(topology, release))
        if mask >> bit & 1
        for unit in places_
        if exists(topology, unit)
    )


def registers(mask: int, topology: Topology, release: Release = LATEST) -> tuple[tuple[int, ...], ...]:
    """COMPUTE_STATIC_THREAD_MGMT_SE<n> by XCC and shader engine, as the driver fills them."""
    found = [[0] * len(topology.arrays) for _ in range(topology.xccs)]
    for bit, places_ in enumerate(register_places(topology, release)):
        if mask >> bit & 1:
            for unit in places_:
                found[unit.xcc][unit.engine] |= 1 << unit.bit
    return tuple(map(tuple, found))


def half_pairs(mask: int, topology: Topology) -> tuple[int, ...]:
    """The numbers of pairs of which the mask has only one CU; empty if the chip does not pair CUs.

    The driver looks at all bits, even beyond the chip's (pqm_update_mqd(), 6.1.192).
    """
    if not topology.paired:
        return ()
    return tuple(pair for pair in range((mask.bit_length() + 1) // 2) if mask >> 2 * pair & 3 in (1, 2))
