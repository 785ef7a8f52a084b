# SPDX-License-Identifier: GPL-2.0
"""The experiments: tasksets as the tables say, pieces that resume, intervals; and the published profiles."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.energy.preferred import best_units, mean_utilization, preference
from analysis.model import MS
from analysis.papers.energy import published
from analysis.papers.energy.generate import HEAVY, Draw, system, within
from analysis.papers.energy.published import RTX, T400
from analysis.papers.energy.statistics import Bootstrap
from analysis.papers.experiments import ENERGY
from analysis.papers.experiments.energy import CHAPTER3, ROW_MEASURES, EnergyExperiment
from analysis.papers.experiments.engine import run_experiment
from analysis.papers.experiments.plan import Settings
from analysis.papers.experiments.rows import write_rows
from gpurt.errors import FileError
from pycontrol import cli

#: The folder that the authors of sBEET-mg published.
PROFILES = os.environ.get("GPURT_SBEET_MG")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles in the authors' format, with made-up numbers: e(m) = work / m down to an eighth of it."""
    path = tmp_path_factory.mktemp("profiles")
    for kind, (units, *_) in published.GPUS.items():
        (path / f"gpu_{kind}").mkdir()
        for index, name in enumerate(published.FACTS, 1):
            with (path / f"gpu_{kind}" / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["SM", "Average(ms)", "Min(ms)", "Max(ms)", "Power(W)"])
                for m in range(1, units + 1):
                    most = 20 * index / min(m, 8 if kind == RTX else 3)
                    writer.writerow([m, f"{0.95 * most:.3f}", f"{0.9 * most:.3f}", f"{most:.3f}", 50])
    return path


def test_profiles_in_the_authors_format(folder: Path) -> None:
    profiles = published.load_published(folder)
    assert list(profiles) == list(published.FACTS)
    kernel = profiles["stereodisparity"].on[T400]
    assert [span.worst for span in kernel.times.times] == [40 * MS, 20 * MS, *[13_333_000] * 4]
    assert kernel.times.row(1).best == 36 * MS
    assert (kernel.power, kernel.copy_in, kernel.copy_out) == (980_000, MS, MS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("Max(ms)", "max"), ":1: column Max(ms) is missing; expected SM, Min(ms)"),
        (lambda text: text[: text.index("\r\n6,")], "expected a row for each of 1 to 6 SMs"),
        (lambda text: text.replace("\r\n2,", "\r\n3,"), ":3: SM: expected 2, got 3"),
        (lambda text: text.replace("18.000", "99.000"), ":2: Min(ms): expected 0 < Min"),
        (lambda text: text.replace("18.000", "nan"), ":2: Min(ms): expected a number, got"),
        (lambda text: "", ":1: column SM is missing"),
    ],
)
def test_wrong_profiles_are_refused(folder: Path, change: Callable[[str], str], message: str) -> None:
    path = folder / "gpu_t400/mmul.csv"
    good = path.read_bytes()
    path.write_bytes(change(good.decode()).encode())
    try:
        with pytest.raises(FileError) as caught:
            published.load_published(folder)
    finally:
        path.write_bytes(good)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_tasksets_are_those_of_table_3_5(folder: Path) -> None:
    profiles = published.load_published(folder)
    reference = published.gpu(RTX, RTX, 24)
    for index in range(20):
        draw = ENERGY["mg-fig3.7"].panels[0].points[3][1]
        one = system(draw, profiles, 1, index)
        shares = [mean_utilization(task, reference, 0) for task in one.tasks]
        assert float(sum(shares)) == pytest.approx(draw.x, rel=1e-4)
        assert all(0.0099 < share < 0.5001 for share in shares)
        assert all(task.deadline == task.period // 2 and 0 <= task.offset <= task.period // 2 for task in one.tasks)
        assert one == system(draw, profiles, 1, index)
    assert len({system(draw, profiles, 1, index) for index in range(20)}) == 20
    draws = [draw for panel in ENERGY["mg-fig3.7"].panels for _, draw in panel.points]
    limits = {draw.gpus[0].limit for draw in draws}
    assert limits == {6, 12, 24}
    tasks = {system(draw, profiles, 1, 3).tasks for draw in draws if draw.x == 1.2}
    assert len(tasks) == 1  # the same sets serve all limits


def test_tasksets_of_figure_2_9_have_utilization_0_9(folder: Path) -> None:
    profiles = published.load_published(folder)
    heavy = 0
    for index in range(20):
        draw = ENERGY["sbeet-fig2.9"].panels[0].points[5][1]
        one = system(draw, profiles, 1, index)
        assert float(sum(mean_utilization(task, one.gpus[0], 0) for task in one.tasks)) == pytest.approx(0.9, rel=1e-3)
        heavy += sum(task.profile in HEAVY for task in one.tasks)
    assert heavy > 0


def test_uunifast_keeps_its_sum_and_its_limits() -> None:
    rng = random.Random(1)
    drawn = [within(rng, 6, 2.0, 0.01, 0.5) for _ in range(200)]
    assert all(sum(one) == pytest.approx(2.0) and min(one) >= 0.01 and max(one) <= 0.5 for one in drawn)
    firsts = np.mean([one[0] for one in drawn])
    assert firsts == pytest.approx(1 / 3, abs=0.03)  # no position is preferred
    with pytest.raises(ValueError, match="hardly ever"):
        within(rng, 6, 4.0, 0.01, 0.5)


def small(folder: Path) -> tuple[EnergyExperiment, Settings]:
    whole = ENERGY["mg-fig3.13"]
    (panel,) = whole.panels
    few = replace(whole, panels=(replace(panel, points=panel.points[::3]),), curves=whole.curves[:3], horizon=500 * MS)
    return few, Settings(25, profiles=folder)


def test_results_are_the_same_in_processes(folder: Path) -> None:
    experiment, settings = small(folder)
    whole = run_experiment(experiment, settings)
    assert [[len(piece) for piece in pieces] for pieces in whole[0]] == [[20, 5]] * 3
    assert run_experiment(experiment, settings, jobs=2) == whole


def test_rows_have_intervals_and_paired_differences(folder: Path, tmp_path: Path) -> None:
    experiment, settings = small(folder)
    results = run_experiment(experiment, settings)
    rows = experiment.rows(results, settings)
    assert len(rows) == 3 * 3
    for row in rows:
        for name in ROW_MEASURES:
            assert row[f"{name}_low"] <= row[name] + 1e-4
            assert row[name] <= row[f"{name}_high"] + 1e-4
    base = [row for row in rows if row["curve"] == "sbeet-mg"]
    assert all(row["less_missed_percent"] == row["active_less_j"] == 0 for row in base)
    first = [sets[0] for piece in results[0][0] for sets in piece]
    judged, missed = (sum(one[key] for one in first) for key in (0, 1))
    assert base[0]["missed_percent"] == round(100 * missed / judged, 4)
    write_rows(rows, tmp_path / "a.csv")
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 10
    (picture,) = experiment.draw(rows, tmp_path, "svg")
    assert picture.read_text().count("missed jobs, %") >= 1


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment", "run", "mg-fig3.13", "--tasksets", "1", "--jobs", "1", "-o", str(tmp_path)]
    assert cli.run([*words, "--profiles", str(folder), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["results"]
    assert [Path(file).name for file in made["files"]] == ["mg-fig3.13.csv", "mg-fig3.13.png"]
    assert len(made["rows"]) == 7 * len(ENERGY["mg-fig3.13"].curves)
    assert cli.run([*words, "--profiles", "/nonexistent"]) == 3
    assert "/nonexistent/gpu_rtx3070/mmul.csv: No such file" in capsys.readouterr().err


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(100):
        below = rng.integers(50, 150, 60).astype(float)
        above = rng.binomial(below.astype(int), 0.2).astype(float)
        one = Bootstrap(60, seed, 300).ratio(above, below)
        covered += one.low <= 0.2 <= one.high
    assert 85 <= covered <= 100


@pytest.mark.skipif(not PROFILES, reason="GPURT_SBEET_MG does not name the folder of the published profiles")
def test_published_profiles_have_the_best_units_that_the_specification_says() -> None:
    """Specification, section 6.5, with the powers of table 3.2."""
    profiles = published.load_published(Path(PROFILES or ""))
    best = {}
    for limit in (24, 46):
        gpu = published.gpu(RTX, RTX, limit)
        best[limit] = {name: best_units(profile.on[RTX], gpu) for name, profile in profiles.items()}
    assert best[24] == {**dict.fromkeys(profiles, 24), "bfs": 16}
    assert {name: best[46][name] for name in ("mmul", "bfs", "hist", "hist2", "mmul2")} == {
        "mmul": 45, "bfs": 16, "hist": 30, "hist2": 30, "mmul2": 44
    }  # fmt: skip
    little = {name: best_units(profile.on[T400], published.gpu(T400, T400)) for name, profile in profiles.items()}
    assert little == {**dict.fromkeys(profiles, 6), "mmul": 4}
    draw = Draw("uunifast", CHAPTER3[0], (published.gpu(RTX, RTX, 24), published.gpu(T400, T400)), (RTX, 24))
    times = {name: [[span.worst for span in profile.on[gpu].times.times] for gpu in (RTX, T400)]
             for name, profile in profiles.items()}  # fmt: skip
    assert all(rtx < t400 for both in times.values() for rtx, t400 in zip(*both, strict=False))  # figure 3.2
    slow = {name: round(rtx[5] / rtx[45], 1) for name, (rtx, _) in times.items() if rtx[5] / rtx[45] < 0.9 * 46 / 6}
    assert slow == {"bfs": 2.1, "hist": 5.0, "hist2": 4.9}
    tasks = [task for index in range(12) for task in system(draw, profiles, 1, index).tasks]
    one = system(draw, profiles, 1, 0)
    preferred = {task.profile: preference(one, task)[0] for task in tasks}
    assert preferred == {
        "mmul": 0, "stereodisparity": 1, "hotspot": 1, "dxtc": 1, "bfs": 1, "hist": 0, "mmul2": 0, "hist2": 0
    }  # fmt: skip
