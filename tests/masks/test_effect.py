# SPDX-License-Identifier: GPL-2.0
"""Effective compute units and findings: the masks of the paper's tables and of figure 9."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from dispatch import kernel_time
from hypothesis import given
from hypothesis import strategies as st

from analysis.masks.effect import effect
from analysis.masks.lint import Masked, MaskFinding, lint
from analysis.masks.topology import CHIPS, Topology

VII = CHIPS["radeon-vii"]


def packed(count: int) -> int:
    """Figure 9's masks: one engine's CUs after another's."""
    return sum(1 << bit for bit in [4 * cu + engine for engine in range(4) for cu in range(15)][:count])


#: Mask; enabled CUs by engine, effective CUs, the best that is in it, and the rules that it breaks.
GOLDEN = [
    (0xD55555555555555, (15, 0, 15, 1), 3, 30, ["E3"]),
    (0x111111111111113, (15, 1, 0, 0), 2, 15, ["E3"]),
    (0x77777777777777F, (15, 15, 15, 1), 4, 45, ["E3"]),
    (0x777777777777777, (15, 15, 15, 0), 45, 45, []),
    (0x1F, (2, 1, 1, 1), 4, 4, ["W1"]),
    (0x80000003FFFFFFF, (8, 8, 7, 8), 28, 28, ["W1"]),
    (packed(40), (15, 15, 10, 0), 30, 30, ["W1"]),
    (packed(53), (15, 15, 15, 8), 32, 45, ["E3"]),
    (packed(56), (15, 15, 15, 11), 44, 45, ["W1"]),
    ((1 << 60) - 1, (15, 15, 15, 15), 60, 60, []),
    (0x555555555555555, (15, 0, 15, 0), 30, 30, []),
    (0, (0, 0, 0, 0), 0, 0, ["E1"]),
    (0xF000000000000000, (0, 0, 0, 0), 0, 0, ["E1"]),
]


def rules(findings: list[MaskFinding]) -> list[str]:
    return [one.rule for one in findings]


@pytest.mark.parametrize(
    ("mask", "counts", "effective", "best", "broken"), GOLDEN, ids=[f"{row[0]:#x}" for row in GOLDEN]
)
def test_masks_of_the_paper(mask: int, counts: tuple[int, ...], effective: int, best: int, broken: list[str]) -> None:
    seen = effect(mask, VII)
    assert (seen.counts, seen.effective, seen.best) == ((counts,), effective, best)
    assert rules(lint([Masked("a", mask)], VII)) == broken


def test_figure_9_has_the_masks_that_the_specification_names() -> None:
    assert packed(16) == 0x111111111111113
    assert packed(31) == 0x333333333333337
    assert packed(46) == 0x77777777777777F


@pytest.mark.parametrize(("count", "other", "measured"), [(31, 30, 10.03), (16, 15, 7.27), (46, 45, 11.1)])
def test_one_more_unit_costs_what_was_measured(count: int, other: int, measured: float) -> None:
    """Within 5 %: specification section 2.5, from figure 9."""
    ratio = Fraction(effect(packed(other), VII).effective, effect(packed(count), VII).effective)
    assert abs(float(ratio) / measured - 1) < 0.05


@given(st.lists(st.integers(0, 16), min_size=1, max_size=8).filter(any))
def test_best_is_the_best_of_all_subsets(counts: list[int]) -> None:
    """Brute force: leave out any engines; and the paper's ratio is that of kernel times, for many blocks."""
    chip = Topology("x", 90006, ((16,),) * len(counts))
    mask = sum(1 << len(counts) * cu + engine for engine, count in enumerate(counts) for cu in range(count))
    seen = effect(mask, chip)
    subsets = [chosen for size in range(1, len(counts) + 1) for chosen in combinations(counts, size) if all(chosen)]
    worth = {chosen: len(chosen) * min(chosen) for chosen in subsets}
    assert seen.best == max(worth.values())
    used = tuple(filter(None, counts))
    assert seen.effective == worth[used]
    blocks = 720_720 * 840  # so that every share is whole
    assert kernel_time(counts, blocks, 1000) == 1000 * blocks // seen.effective


def test_time_of_one_kernel() -> None:
    """Rule R5 by hand: 1,024 blocks of 172.6 us."""
    assert kernel_time([1, 0, 0, 0], 1024, 172_600) == 1024 * 172_600
    assert kernel_time([15, 15, 15, 15], 1024, 172_600) == -(-256 * 172_600 // 15)
    assert kernel_time([15, 0, 15, 1], 1024, 172_600) == 341 * 172_600  # block 1,023 is dealt to the first engine
    assert kernel_time([2, 2], 3, 100) == 100


def test_xccs_must_be_alike() -> None:
    chip = CHIPS["mi300x"]
    one_xcc = sum(1 << 8 * place for place in range(4))
    assert effect(one_xcc, chip).effective == 0
    (found,) = [one for one in lint([Masked("a", one_xcc)], chip) if one.error]
    assert (found.rule, "XCC 1 has no CU" in found.text) == ("E7", True)
    assert rules(lint([Masked("a", 0xFFFFFFFF)], chip)) == ["W6"]
    assert effect(0xFFFFFFFF, chip).effective == 32
    assert "E7" in rules(lint([Masked("a", 0x1FFFFFFFF)], chip))
