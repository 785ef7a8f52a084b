# SPDX-License-Identifier: GPL-2.0
"""The experiments of RTNS'21: what is stored is what runs, verdicts follow from rows, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from otterness_claims import JUDGES, Claim

from analysis.papers.experiments import otterness
from analysis.papers.experiments.otterness import TABLE_1, TABLE_2, distributed, packed_blocks
from analysis.papers.experiments.rows import Row
from pycontrol import cli

STUDIES = {study.name: study for study in otterness.STUDIES}
STORED = Path(__file__).resolve().parents[2] / "docs/experiments/partitioning"


def rows(name: str, samples: int = 4) -> list[Row]:
    return STUDIES[name].run(samples, 1, lambda: None)


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
    assert len(stored(name)) == STUDIES[name].size


@pytest.mark.parametrize("name", ["otterness-table1", "otterness-table2"])
def test_a_short_run_has_the_stored_means(name: str) -> None:
    """Within a tenth: few kernels, and another phase between the two streams."""
    for short, long in zip(rows(name), stored(name), strict=True):
        assert (short["name"], short["mask"]) == (long["name"], long["mask"])
        assert abs(short["mean_ns"] / long["mean_ns"] - 1) < 0.12


def test_verdicts_can_be_no() -> None:
    """With all times equal no claim about an effect holds."""
    flat = [{**row, "mean_ns": 10**6, "maximum_ns": 10**6} for row in stored("otterness-table1")]
    held = [text for text, yes in verdicts("otterness-table1", flat).items() if yes and text.startswith("Observation")]
    assert held == ["Observation 1: MM256 is MM1024's worst competitor under full sharing"]  # a tie
    level = [{**row, "mean_ns": 10**6} for row in stored("otterness-fig9")]
    assert not verdicts("otterness-fig9", level)["packed times jump at 16, 31 and 46 CUs"]


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["experiment", "run", "otterness-fig9", "--tasksets", "2", "-o", str(tmp_path)]
    assert cli.run([*words, "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["results"]
    assert [Path(file).name for file in report["files"]] == ["otterness-fig9.csv", "otterness-fig9.png"]
    assert all(Path(file).stat().st_size > 1000 for file in report["files"])
    assert len(report["rows"]) == 120
    assert cli.run(words) == 0
    (tmp_path / "file").touch()
    assert cli.run(["experiment", "run", "otterness-fig9", "--tasksets", "1", "-o", str(tmp_path / "file")]) in (2, 3)


def test_more_kernels_than_can_be_simulated_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run(["experiment", "run", "otterness-table1", "--tasksets", "100001", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("gpurt: --tasksets 100001: 1 to 100000 launches can be simulated")
    assert list(tmp_path.iterdir()) == []
