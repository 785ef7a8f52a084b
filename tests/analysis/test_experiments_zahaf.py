# SPDX-License-Identifier: GPL-2.0
"""The partitioning figures: their tables, pictures and bounds, on small samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from claims import read_rows

from analysis.papers.experiments import STUDIES, zahaf
from analysis.papers.experiments.rows import Row, write_rows
from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, zahaf_workload
from analysis.partition.workload import SHIFT

CURVES = [*zahaf.ZAHAF_CURVES, zahaf.BEST]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zahaf, "LOADS", (10, 40))
    monkeypatch.setattr(zahaf, "TIMED_REPEATS", 1)


def rows(name: str, tasksets: int = 2) -> list[Row]:
    return STUDIES[name].run(tasksets, 1, lambda: None)


def write(name: str, found: list[Row], path: Path) -> None:
    """The table or the picture of a figure."""
    if path.suffix == ".csv":
        write_rows(found, path, STUDIES[name].measures)
    else:
        draw = STUDIES[name].draw
        assert draw
        draw(found, path)


@pytest.mark.usefixtures("few")
def test_a_row_for_each_scaling_load_and_curve(tmp_path: Path) -> None:
    found = rows("zahaf-fig5")
    assert [(row["panel"], row["x"], row["curve"]) for row in found] == [
        (panel, x, curve) for panel in ("shared", "printed") for x in (10, 40) for curve in CURVES
    ]
    by = {(row["panel"], row["x"], row["curve"]): row["schedulable"] for row in found}
    assert (by["shared", 10, "1g"], by["printed", 10, "1g"]) == (2, 0)  # where 1G falls depends on the scaling
    assert all(by["shared", 40, curve] == 2 for curve in CURVES[1:])
    write("zahaf-fig5", found, tmp_path / "x.csv")
    write("zahaf-fig5", found, tmp_path / "x.svg")
    counts = {(row["panel"], int(row["x"]), row["curve"]): int(row["schedulable"])
              for row in read_rows(tmp_path / "x.csv")}  # fmt: skip
    assert counts == by
    assert "sms-act" in (tmp_path / "x.svg").read_text()


@pytest.mark.usefixtures("few")
def test_one_partition_schedules_the_worst_load_and_the_others_between_the_bounds(tmp_path: Path) -> None:
    """Section 7.2: 1G is the upper bound; it is exactly, where both types occur twice."""
    found = rows("zahaf-fig6")
    for row in (row for row in found if "load" in row):
        assert row["lower"] <= row["load"] + 1e-4
        assert row["load"] <= row["upper"] + 1e-4
        if row["curve"] == "1g":
            assert row["load"] == pytest.approx(row["upper"], abs=1e-4)
    assert any("load" not in row for row in found)
    write("zahaf-fig6", found, tmp_path / "x.svg")


@pytest.mark.usefixtures("few")
def test_the_load_is_that_of_the_readable_planner() -> None:
    from analysis.partition.variants import Allocation, run_variant

    given = zahaf_workload(generate_zahaf(Parameters(50, 40), 1, 1)[0], 68)
    outcome = run_variant(given, "sms-ina")
    assert isinstance(outcome, Allocation)
    row = next(r for r in rows("zahaf-fig6", 1) if (r["panel"], r["x"], r["curve"]) == ("shared", 40, "sms-ina"))
    assert row["load"] == pytest.approx(outcome.load / 2**SHIFT)
    assert row["parts"] == len(outcome.parts)


@pytest.mark.usefixtures("few")
def test_times_are_in_figure_9_only(tmp_path: Path) -> None:
    found = rows("zahaf-fig9", 1)
    write("zahaf-fig9", found, tmp_path / "x.csv")
    write("zahaf-fig9", found, tmp_path / "x.svg")
    assert all(int(row["analysis_ns"]) > 0 for row in read_rows(tmp_path / "x.csv"))
    assert [study.name for study in zahaf.STUDIES if "analysis_ns" in study.measures] == ["zahaf-fig9"]
