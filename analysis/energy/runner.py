# SPDX-License-Identifier: GPL-2.0
"""Runs an energy experiment in pieces, in processes, and continues after an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from analysis.energy import compiled, published
from analysis.energy.experiments import Experiment
from analysis.energy.generate import HEAVY, system
from analysis.energy.model import MJ, System
from analysis.energy.outcome import Outcome, Run
from analysis.energy.policies import POLICIES
from analysis.energy.setup import prepare
from analysis.fingerprint import fingerprint
from analysis.pieces import finished
from gpurt.files import written

#: Tasksets of one piece of work.  Part of the checkpoint's format, not of the results.
PIECE = 20


@dataclass(frozen=True)
class Settings:
    """What the results depend on; ``profiles``: the authors' folder."""

    profiles: Path
    tasksets: int = 200
    seed: int = 1


class CheckpointError(ValueError):
    """The checkpoint is of another experiment or other settings."""


#: Judged, missed, energy and active energy in mJ, of each taskset and curve.
Row = tuple[int, int, float, float]
Key = tuple[int, int]


def evaluate(experiment: Experiment, settings: Settings, point: int, start: int, count: int) -> list[list[Row]]:
    """Tasksets ``start`` to ``start + count - 1`` of a point: a list for each, with a row for each curve."""
    profiles = published.load(settings.profiles)
    _, draw = experiment.points[point]
    found = []
    for index in range(start, start + count):
        one = system(draw, profiles, settings.seed, index)
        rows = []
        for curve in experiment.curves:
            setup = prepare(one, POLICIES[curve.policy], curve.options)
            outcome = compiled.simulate(setup, Run(experiment.horizon))
            rows.append(_row(experiment, one, outcome))
        found.append(rows)
    return found


def _row(experiment: Experiment, one: System, outcome: Outcome) -> Row:
    pairs = zip(one.tasks, outcome.tasks, strict=True)
    counted = [count for task, count in pairs if not (experiment.light and task.profile in HEAVY)]
    energy = outcome.energy
    return (sum(count.judged for count in counted), sum(count.missed for count in counted), energy.total / MJ,
            energy.active / MJ)  # fmt: skip


def run(
    experiment: Experiment, settings: Settings, checkpoint: Path | None = None, jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[list[list[Row]]]:  # fmt: skip
    """Rows by point, taskset and curve.  ``progress`` is called with the number of tasksets that a piece had.

    Raises CheckpointError if the checkpoint is of another experiment or other settings.
    """
    starts = range(0, settings.tasksets, PIECE)
    pieces = [(point, start) for point in range(len(experiment.points)) for start in starts]
    with _opened(checkpoint, experiment, settings) as (done, file):
        for key, rows in _each(experiment, settings, [key for key in pieces if key not in done], jobs):
            done[key] = rows
            if file:
                file.write(json.dumps({"key": key, "rows": rows}) + "\n")
                file.flush()
            if progress:
                progress(len(rows))
    points = range(len(experiment.points))
    return [[row for start in starts for row in done[point, start]] for point in points]


def _each(
    experiment: Experiment, settings: Settings, pieces: Sequence[Key], jobs: int
) -> Iterator[tuple[Key, list[list[Row]]]]:
    call = partial(_piece, experiment, settings)
    if jobs <= 1:
        yield from ((key, call(key)) for key in pieces)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from finished(pool, call, pieces)


def _piece(experiment: Experiment, settings: Settings, key: Key) -> list[list[Row]]:
    point, start = key
    return evaluate(experiment, settings, point, start, min(PIECE, settings.tasksets - start))


@contextmanager
def _opened(
    path: Path | None, experiment: Experiment, settings: Settings
) -> Iterator[tuple[dict[Key, list[list[Row]]], IO[str] | None]]:
    """What is done, and the checkpoint to add to: settings, then a line for each piece; half lines are dropped."""
    labels = [curve.label for curve in experiment.curves]
    header = {"experiment": experiment.name, "tasksets": settings.tasksets, "seed": settings.seed, "piece": PIECE,
              "profiles": str(settings.profiles), "curves": labels, "code": fingerprint()}  # fmt: skip
    done: dict[Key, list[list[Row]]] = {}
    if path is None:
        yield done, None
        return
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    entries = []
    for line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:
            break
    if entries and entries[0] != header:
        raise CheckpointError(f"{path} is of another experiment, other settings or another version of gpurt")
    with written(path) as whole:  # or nothing would be left if this is killed now
        whole.writelines(json.dumps(entry).encode() + b"\n" for entry in [header, *entries[1:]])
    with path.open("a", encoding="utf-8") as file:
        for entry in entries[1:]:
            done[entry["key"][0], entry["key"][1]] = [[tuple(row) for row in rows] for rows in entry["rows"]]
        yield done, file
