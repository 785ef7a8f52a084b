# SPDX-License-Identifier: GPL-2.0
"""Carries an experiment out: writes its rows as a CSV file, its pictures, and its remarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.papers.experiments.engine import run_experiment
from analysis.papers.experiments.plan import Experiment, Settings
from analysis.papers.experiments.rows import Row, write_rows
from analysis.papers.experiments.study import Study

#: Called with the number of steps done and of all steps.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Produced:
    """Files and rows of an experiment.  ``wall_ns``: the time that it took."""

    experiment: str
    wall_ns: int
    files: Sequence[Path]
    rows: Sequence[Row]


def produce(
    chosen: Experiment[Any, Any] | Study, settings: Settings, folder: Path, form: str, jobs: int, progress: Progress
) -> Produced:  # fmt: skip
    """Writes NAME.csv and the pictures into the folder, which it makes if necessary.

    Raises OSError.
    """
    start = time.monotonic_ns()
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(chosen, Study):
        rows, pictures = _study(chosen, settings, folder, form, progress)
        return Produced(chosen.name, time.monotonic_ns() - start, pictures, rows)
    rows = chosen.rows(run_experiment(chosen, settings, jobs, progress), settings)
    files = [folder / f"{chosen.name}.csv"]
    write_rows(rows, files[0], chosen.measures)
    files += chosen.draw(rows, folder, form)
    return Produced(chosen.name, time.monotonic_ns() - start, files, rows)


def _study(
    chosen: Study, settings: Settings, folder: Path, form: str, progress: Progress
) -> tuple[list[Row], list[Path]]:  # fmt: skip
    done = iter(range(1, chosen.size + 1))
    rows = chosen.run(settings.tasksets, settings.seed, lambda: progress(next(done), chosen.size))
    files = [folder / f"{chosen.name}.csv"]
    write_rows(rows, files[0], chosen.measures)
    if chosen.draw:
        files.append(folder / f"{chosen.name}.{form}")
        chosen.draw(rows, files[1])
    return rows, files
