# SPDX-License-Identifier: GPL-2.0
"""The dispatch model: by hand, and against what the paper measured."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest
from dispatch import LaunchStream, Settings, dispatcher, kernel_time, simulate_blocks
from effort import everything, tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.masks.effect import effect
from analysis.masks.topology import CHIPS, Topology

VII = CHIPS["radeon-vii"]
FULL, EVEN, ODD, UNEVEN = (1 << 60) - 1, 0x555555555555555, 0xAAAAAAAAAAAAAAA, 0xD55555555555555
THREE = Settings(3)
SMALL = Topology("small", 90006, ((2,), (2,)))


def matrix(threads: int, mask: int) -> LaunchStream:
    """MM1024 or MM256: a block takes 345.2 us, give or take a quarter."""
    return LaunchStream(f"MM{threads}", mask, 2**20 // threads, threads, 258_900, 431_500)


def mean_ms(*streams: LaunchStream, launches: int = 3, cut_ahead: bool = True) -> float:
    found = simulate_blocks(dispatcher(streams, VII), streams, Settings(launches, cut_ahead=cut_ahead))
    return mean(found[0]) / 1e6


def times(topology: Topology, streams: list[LaunchStream], setting: Settings = THREE) -> list[list[int]]:
    return simulate_blocks(dispatcher(streams, topology), streams, setting)


def test_blocks_are_dealt_in_turn_by_hand() -> None:
    """Two engines with 2 and 1 CUs, of which a block fills one: block j is on engine j % 2.

    Blocks 0 and 2 start at 0 on engine 0, block 1 on engine 1, where block 3 waits in the slot.  Block 4 can be dealt
    to engine 0 only at once, and block 5 only when block 3 has started, at 10.  Blocks 1, 3, 5: 10 each.
    """
    stream = LaunchStream("a", 0b0111, 6, 2048, 10, 10)
    assert times(SMALL, [stream]) == [[30, 30, 30]]
    assert times(SMALL, [replace(stream, mask=0b0101)]) == [[30, 30, 30]]  # the same without engine 1's CU
    assert times(SMALL, [replace(stream, mask=0b1111)]) == [[20, 20, 20]]


def test_smaller_blocks_cut_ahead_by_hand() -> None:
    """One CU.  Eight blocks of 256 threads start, one after another ends, and room for 1,024 threads is never there."""
    chip = Topology("one", 90006, ((1,),))
    small = LaunchStream("small", 1, 64, 256, 7, 10)
    large = LaunchStream("large", 1, 1, 1024, 10, 10, offset=1)
    waited = times(chip, [large, small], Settings(1, cut_ahead=True))[0][0]
    served = times(chip, [large, small], Settings(1, cut_ahead=False))[0][0]
    assert served < 30 < waited


def test_gaps_and_offsets() -> None:
    stream = LaunchStream("a", 0b1111, 4, 2048, 10, 10, gap=5, offset=3)
    other = LaunchStream("b", 0b1111, 4, 2048, 10, 10, offset=0)
    assert times(SMALL, [stream], Settings(2)) == [[10, 10]]
    # b's first kernel has all 4 CUs until 10; then a has half of them, until 30, and b's next kernels have the others
    assert times(SMALL, [stream, other], Settings(1))[0] == [27]


@settings(max_examples=tries(30))
@given(st.integers(1, 2**60 - 1), st.integers(1, 200))
def test_equal_blocks_take_what_the_formula_says(mask: int, blocks: int) -> None:
    """Without jitter, with one block a CU, one kernel alone: rule R5, in whole blocks."""
    stream = LaunchStream("a", mask, blocks, 2048, 1000, 1000)
    ((found,),) = simulate_blocks(dispatcher([stream], VII), [stream], Settings(1))
    used = [count for count in effect(mask, VII).counts[0] if count]
    rounds = [-(-len(range(place, blocks, len(used))) // count) for place, count in enumerate(used)]
    assert found == 1000 * max(rounds)
    assert found - 1000 < kernel_time(used, blocks, 1000) <= found


#: Masks and the published means in ms: tables 1 and 2, and figure 9 as its authors' data have it.
ALONE = [(FULL, 3.201), (0x333333333333337, 58.73), (0x1F, 44.30), (0x111111111111113, 86.85),
         (0x77777777777777F, 44.53), (0xFFFFF, 8.80), (0xFFFFFFFFFF, 4.35)]  # fmt: skip


@pytest.mark.parametrize(("mask", "published"), ALONE, ids=[f"{mask:#x}" for mask, _ in ALONE])
def test_one_kernel_alone_takes_what_was_measured(mask: int, published: float) -> None:
    """Within 10 %; the prototype's worst of these is 9 %."""
    assert abs(mean_ms(matrix(1024, mask), launches=2) / published - 1) < 0.10


TABLE = [
    (1024, FULL, 1024, FULL, 6.447), (1024, FULL, 256, FULL, 15.652), (256, FULL, 256, FULL, 5.687),
    (256, FULL, 1024, FULL, 3.770), (1024, EVEN, 1024, ODD, 6.988), (1024, EVEN, 256, ODD, 6.991),
    (256, EVEN, 256, ODD, 6.386), (256, EVEN, 1024, ODD, 6.318), (256, UNEVEN, 1024, ODD, 55.550),
]  # fmt: skip


@pytest.mark.parametrize(("threads", "mask", "other", "others", "published"), TABLE if everything() else TABLE[1::4])
def test_two_kernels_take_what_was_measured(threads: int, mask: int, other: int, others: int, published: float) -> None:
    """Within 25 %: the authors' own second run differs from the first by up to 19 %."""
    assert abs(mean_ms(matrix(threads, mask), matrix(other, others), launches=6) / published - 1) < 0.25


def test_without_cutting_ahead_the_order_turns_round() -> None:
    """So the rule matters: MM256 would be the one that waits."""
    one, other = matrix(1024, FULL), matrix(256, FULL)
    assert mean_ms(one, other) > 2.5 * mean_ms(other, one)
    assert mean_ms(one, other, cut_ahead=False) * 2.5 < mean_ms(other, one, cut_ahead=False)
