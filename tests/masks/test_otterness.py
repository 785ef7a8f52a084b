# SPDX-License-Identifier: GPL-2.0
"""The experiments of RTNS'21: what is stored is what runs, verdicts follow from rows, and the command."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from effort import everything
from otterness import STUDIES, TABLE_1, TABLE_2, distributed, figure_9, packed_blocks, table
from otterness_claims import JUDGES, Claim

from analysis.papers.experiments.rows import Row

STORED = Path(__file__).resolve().parents[2] / "docs/experiments/partitioning"


def judged(name: str, found: list[Row]) -> list[Claim]:
    return JUDGES[name](found)


def verdicts(name: str, found: list[Row]) -> dict[str, bool]:
    return {claim.text: claim.reproduced for claim in judged(name, found)}


def number(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def stored(name: str) -> list[Row]:
    """The stored rows, as the experiment makes them."""
    with (STORED / f"{name}.csv").open(encoding="utf-8") as file:
        return [{k: float(v) if k == "ratio" else number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def test_the_masks_are_those_of_the_paper() -> None:
    """Table 2's strings, bit 0 first, and figure 9's."""
    masks = {one.partitioning: (one.mask, one.others) for one in TABLE_2}
    assert masks["even"] == tuple(int(text[::-1], 2) for text in ("10" * 30, "01" * 30))
    assert masks["uneven"][0] == int(("10" * 29 + "11")[::-1], 2)
    assert masks["distributed even"] == tuple(int(text[::-1], 2) for text in ("1" * 30 + "0" * 30, "0" * 30 + "1" * 30))
    assert masks["distributed uneven"][0] == int(("1" * 30 + "0" * 29 + "1")[::-1], 2)
    assert (packed_blocks(16), packed_blocks(46), distributed(5)) == (0x111111111111113, 0x77777777777777F, 0x1F)
    assert len(TABLE_1) == 14
    assert all(least < mean < most for least, most, mean in (one.published for one in TABLE_1 + TABLE_2))


@pytest.mark.parametrize("name", STUDIES)
def test_the_stored_verdicts_are_those_of_the_stored_rows(name: str) -> None:
    """The page lists every claim with its verdict."""
    page = (STORED / "otterness.md").read_text(encoding="utf-8")
    for claim in judged(name, stored(name)):
        mark = "reproduced" if claim.reproduced else "NOT REPRODUCED"
        assert f"{mark}: {claim.text}: {claim.why}" in page


def test_a_short_run_has_the_stored_means() -> None:
    """Within a tenth: few kernels, and another phase between the two streams.  Rows of uneven masks are slow."""
    chosen = [one for one in dict.fromkeys([*TABLE_1, *TABLE_2]) if "uneven" not in one.partitioning]
    known = {(row["name"], row["mask"]): row for name in STUDIES if "table" in name for row in stored(name)}
    assert len(chosen) > 10
    for short in table(chosen if everything() else chosen[::3], 3):
        assert abs(short["mean_ns"] / known[short["name"], short["mask"]]["mean_ns"] - 1) < 0.12


def test_a_short_figure_is_the_stored_one() -> None:
    known = {(row["curve"], row["x"]): row for row in stored("otterness-fig9")}
    assert len(known) == 120
    for row in figure_9(1, (15, 16, 31, 60)):
        stored_row = known[row["curve"], row["x"]]
        assert (row["mask"], row["formula_ns"]) == (stored_row["mask"], stored_row["formula_ns"])
        assert abs(row["mean_ns"] / stored_row["mean_ns"] - 1) < 0.12


def test_verdicts_can_be_no() -> None:
    """With all times equal no claim about an effect holds."""
    flat = [{**row, "mean_ns": 10**6, "maximum_ns": 10**6} for row in stored("otterness-table1")]
    held = [text for text, yes in verdicts("otterness-table1", flat).items() if yes and text.startswith("Observation")]
    assert held == ["Observation 1: MM256 is MM1024's worst competitor under full sharing"]  # a tie
    level = [{**row, "mean_ns": 10**6} for row in stored("otterness-fig9")]
    assert not verdicts("otterness-fig9", level)["packed times jump at 16, 31 and 46 CUs"]
