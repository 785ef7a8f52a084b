# SPDX-License-Identifier: GPL-2.0
"""Bits, registers and compute units: worked examples of the specification, and properties of every chip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.masks.mapping import (
    LATEST,
    Unit,
    enabled,
    exists,
    half_pairs,
    parse_mask,
    parse_release,
    register_places,
    registers,
    words,
)
from analysis.masks.topology import CHIPS, Topology

VII, NAVI, MI300X = CHIPS["radeon-vii"], CHIPS["gfx1030"], CHIPS["mi300x"]
OLD = (5, 14)


@pytest.mark.parametrize("release", [OLD, (5, 15), LATEST])
def test_every_fourth_bit_is_on_one_engine(release: tuple[int, int]) -> None:
    """Figure 8 of the paper."""
    assert register_places(VII, release) == tuple((Unit(0, bit % 4, 0, bit // 4),) for bit in range(60))


def test_pairs_and_two_arrays() -> None:
    """gfx1030: pair p is on engine p % 4, array p / 4 % 2, CUs 2 (p / 8) and the next."""
    for bit, both in enumerate(register_places(NAVI)):
        pair = bit // 2
        engine, array, index = pair % 4, pair // 4 % 2, 2 * (pair // 8)
        assert both == (Unit(0, engine, array, index), Unit(0, engine, array, index + 1))


def test_linux_5_14_misses_compute_units_of_the_second_array() -> None:
    """Two SHs of 10: the register's bits 10 to 15 are no CUs, so 16 of 80 CUs of the chip cannot be enabled."""
    everything = (1 << 80) - 1
    assert registers(everything, NAVI, OLD) == ((0x000FFFFF,) * 4,)
    assert len(enabled(everything, NAVI, OLD)) == 56
    assert registers(everything, NAVI) == ((0x03FF03FF,) * 4,)
    assert enabled(0xF << 40, NAVI, OLD) == frozenset()  # bits that are no CU: such a mask hangs the queue
    assert len(enabled(0xF << 40, NAVI)) == 4


def test_bits_are_dealt_to_the_xccs_first() -> None:
    """MI300X: bit i is on XCC i % 8; then, as on one XCC, engine by engine while all engines have that CU."""
    for bit in range(8 * 36):
        rest = bit // 8
        assert register_places(MI300X)[bit] == (Unit(bit % 8, rest % 4, 0, rest // 4),)
    assert {units[0].engine for units in register_places(MI300X)[8 * 36 :]} == {0, 1}


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_all_bits_together_are_all_units(chip: Topology) -> None:
    full = (1 << chip.units) - 1
    assert len(register_places(chip)) == chip.units == len(enabled(full, chip))
    assert all(exists(chip, unit) for units in register_places(chip) for unit in units)
    assert enabled(full << chip.units, chip) == frozenset()
    assert sum(word.bit_count() for xcc in registers(full, chip) for word in xcc) == chip.units


@given(st.sampled_from(list(CHIPS.values())), st.integers(0, 2**320 - 1), st.sampled_from([OLD, (6, 1)]))
def test_registers_are_what_is_enabled(chip: Topology, mask: int, release: tuple[int, int]) -> None:
    """Only bits of the registers that are CUs of the chip count."""
    found = {
        Unit(xcc, engine, bit // 16, bit % 16)
        for xcc, engines in enumerate(registers(mask, chip, release))
        for engine, word in enumerate(engines)
        for bit in range(32)
        if word >> bit & 1
    }
    assert {unit for unit in found if exists(chip, unit)} == enabled(mask, chip, release)


def test_chips_have_the_units_that_their_makers_say() -> None:
    counts = {"radeon-vii": 60, "mi50": 60, "mi60": 64, "mi100": 120, "mi300x": 304, "mi300a": 228, "gfx1030": 80,
              "gfx1100": 96, "gfx1151": 40, "mi210": 104, "mi250": 104, "mi250x": 110, "mi350x": 256, "gfx1101": 60,
              "gfx1200": 32, "gfx1201": 64}  # fmt: skip
    assert {name: chip.units for name, chip in CHIPS.items()} == counts


def test_half_pairs() -> None:
    assert half_pairs(0b0111, NAVI) == (1,)
    assert half_pairs(0b1110, NAVI) == (0,)
    assert half_pairs(0b1100, NAVI) == ()
    assert half_pairs(1 << 200, NAVI) == (100,)  # the driver looks beyond the chip as well
    assert half_pairs(0b0111, VII) == ()


@pytest.mark.parametrize(
    ("text", "release"), [("6.1", (6, 1)), ("5.14.0-rc2", (5, 14)), ("6.12.117+deb13-amd64", (6, 12))]
)
def test_releases(text: str, release: tuple[int, int]) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize("text", ["", "6", "6.", "v6.1", "6.12345", " 6.1", "٦.١"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="release of Linux"):
        parse_release(text)


def test_masks_as_text_and_as_words() -> None:
    assert [parse_mask(text) for text in ("0xff", "FF", "0", "0x" + "f" * 256)] == [255, 255, 0, (1 << 1024) - 1]
    assert words(0) == (0,)
    assert words(0x800000001) == (1, 8)


@pytest.mark.parametrize("text", ["", "0x", "0Xff", "f" * 257, "0xg", "ff\n", " ff", "-1", "1_0", "١"])
def test_what_is_no_mask(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal mask"):
        parse_mask(text)


@pytest.mark.parametrize(
    ("gfx", "arrays", "xccs"),
    [(90006, (), 1), (90006, ((17,),), 1), (90006, ((0,),), 1), (90006, ((1, 1, 1),), 1), (90006, ((4,), (4, 4)), 1),
     (90006, ((4,),) * 9, 1), (100300, ((3,),), 1), (100300, ((4,),), 2), (90402, ((4,),), 9),
     (90006, ((-1,), (4,)), 1)],
)  # fmt: skip
def test_what_is_no_chip(gfx: int, arrays: tuple[tuple[int, ...], ...], xccs: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Topology("x", gfx, arrays, xccs)
