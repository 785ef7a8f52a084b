# SPDX-License-Identifier: GPL-2.0
"""Findings about several masks, releases and texts: each rule found, and not found beside its edge."""

from __future__ import annotations

import pytest

from analysis.masks.lint import Masked, hangs, lint
from analysis.masks.topology import CHIPS, Topology

VII, NAVI = CHIPS["radeon-vii"], CHIPS["gfx1030"]


def found(*masks: int | Masked, chip: Topology = VII, release: tuple[int, int] = (6, 12)) -> dict[str, str]:
    """The findings' texts by rule."""
    given = [one if isinstance(one, Masked) else Masked(f"p{number}", one) for number, one in enumerate(masks)]
    return {one.rule: one.text for one in lint(given, chip, release)}


def test_the_papers_uneven_partitioning() -> None:
    """Table 1: one CU of the competitor's makes MM1024 ten times slower."""
    texts = found(Masked("mm1024", 0xD55555555555555), Masked("mm256", 0xAAAAAAAAAAAAAAA))
    assert list(texts) == ["E3", "E4"]
    assert "31 CUs work like 3" in texts["E3"]
    assert "10 times as fast" in texts["E3"]
    assert "one is mm1024's only CU on its shader engine" in texts["E4"]


def test_disjoint_masks() -> None:
    assert found(0x555555555555555, 0xAAAAAAAAAAAAAAA) == {}
    assert list(found(0xFFFFFFFFFF, 0xFFFFF0000000000)) == ["W2"]
    assert "4 shader engines" in found(0xFFFFFFFFFF, 0xFFFFF0000000000)["W2"]


def test_shared_units_among_many() -> None:
    text = found(0xFF, 0xFFF)["E4"]
    assert "share 8 CUs" in text
    assert "only CU" not in text


def test_releases() -> None:
    full = (1 << 80) - 1
    assert "shader array" in found(full, chip=NAVI, release=(5, 14))["E5"]
    assert "pairs" in found(full, chip=NAVI, release=(5, 15))["E5"]
    assert found(full, chip=NAVI, release=(6, 1)) == {}
    assert found((1 << 60) - 1, release=(5, 10)) == {}


def test_releases_and_xccs() -> None:
    """Linux 6.12 was read; in 6.8 only the first XCC had a mask, and all others every CU."""
    for release in ((6, 8), (6, 11), (5, 14)):
        assert "deals bits to XCCs" in found((1 << 288) - 1, chip=CHIPS["mi300x"], release=release)["E5"]
    assert "E5" not in found((1 << 288) - 1, chip=CHIPS["mi300x"], release=(6, 12))


def test_the_rule_of_gc_12_1() -> None:
    """The driver maps its bits with another function."""
    gfx1250 = Topology("gfx1250", 120500, ((8, 8), (8, 8)))
    assert "another way" in found(0xF, chip=gfx1250)["E5"]
    assert "E5" not in found(0xF, chip=Topology("gfx1201", 120001, ((8, 8),) * 4))


def test_what_hangs_a_queue() -> None:
    """A bit for each XCC but the last: that one has no CU.  A slow mask hangs nothing."""
    mi300x = CHIPS["mi300x"]
    assert [one.rule for one in hangs(Masked("a", 0x7F), mi300x)] == ["E7"]
    assert [one.rule for one in hangs(Masked("a", 0x1FF), mi300x)] == []
    assert "E7" in found(0x1FF, chip=mi300x)
    assert [one.rule for one in hangs(Masked("a", 0xD55555555555555), VII)] == []
    assert [one.rule for one in hangs(Masked("a", 7), NAVI)] == ["E2"]
    assert [one.rule for one in hangs(Masked("a", 0), VII)] == ["E1"]


def test_a_mask_that_only_an_old_release_makes_empty() -> None:
    """Bits 40 to 43 of an RX 6900 XT are no CUs up to Linux 5.14."""
    assert "E1" in found(0xF << 40, chip=NAVI, release=(5, 14))
    assert "E1" not in found(0xF << 40, chip=NAVI)


def test_half_a_pair() -> None:
    assert "bits 2 and 3" in found(0x7, chip=NAVI)["E2"]
    assert "E2" not in found(0xC, chip=NAVI)


def test_bits_beyond_the_chip() -> None:
    assert "60 CUs" in found((1 << 61) - 1)["W5"]
    assert list(found(1 << 60)) == ["E1"]


def test_a_harvested_chip() -> None:
    assert "assumed to have 15 of its 16" in found((1 << 120) - 1, chip=CHIPS["mi100"])["W6"]


@pytest.mark.parametrize(
    ("text", "warned"), [("10101010", True), ("1010101", False), ("0x10101010", False), ("20101010", False)]
)
def test_text_that_looks_binary(text: str, warned: bool) -> None:
    """Papers write bit 0 first; hexadecimal digits 0 and 1 alone are rarely meant."""
    texts = found(Masked("a", int(text, 16), text=text))
    assert ("W7" in texts) == warned
    if warned:
        assert texts["W7"].endswith("write 0x55")


def test_names_are_distinct() -> None:
    with pytest.raises(ValueError, match="two partitions are called 'a'"):
        lint([Masked("a", 1), Masked("a", 2)], VII)


def test_errors_come_first_and_warnings_are_none() -> None:
    findings = lint([Masked("a", 0x111111111111113), Masked("b", 0x1F)], VII)
    assert [one.error for one in findings] == sorted((one.error for one in findings), reverse=True)
