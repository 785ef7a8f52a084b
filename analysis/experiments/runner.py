# SPDX-License-Identifier: GPL-2.0
"""Runs an experiment in pieces: in any order, in any process or machine, and continued after an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from analysis import compiled, rta
from analysis.batch import Batch
from analysis.experiments.plan import Curve, Drawable, Experiment, point_seed
from analysis.fingerprint import fingerprint
from analysis.generate import PLATFORM, generate
from analysis.pieces import finished
from analysis.rtgpu import generate as units
from analysis.rtgpu import sweep
from gpurt.files import written

#: Tasksets of one piece of work.  Part of the checkpoint's format, not of the results.
PIECE = 250


@dataclass(frozen=True)
class Settings:
    """What the results depend on."""

    tasksets: int = 1000
    seed: int = 1
    method: str = "uunifast"


@dataclass(frozen=True)
class Work:
    """Tasksets ``start`` to ``start + count - 1`` of one point; sent to other processes and machines."""

    panel: int
    point: int
    start: int
    count: int
    parameters: Drawable
    seed: int
    method: str
    curves: tuple[Curve, ...]

    @property
    def key(self) -> tuple[int, int, int]:
        """Which piece of the experiment it is."""
        return self.panel, self.point, self.start


class CheckpointError(ValueError):
    """The checkpoint is of another experiment, other settings, other tests or another version of the code."""


Counts = dict[str, int]


def evaluate(work: Work) -> Counts:
    """How many of the tasksets each curve's test finds schedulable, by label."""
    if isinstance(work.parameters, units.Parameters):
        drawn = units.draw(work.parameters, work.seed, work.count, work.start)
        return {c.label: int(sweep.schedulable(drawn, c.test, c.observed).sum()) for c in work.curves}
    batch = generate(work.parameters, work.seed, work.count, work.start, work.method, PLATFORM)
    return {curve.label: int(schedulable(batch, curve).sum()) for curve in work.curves}


def schedulable(batch: Batch, curve: Curve) -> NDArray[np.bool_]:
    """Whether each taskset of a batch is schedulable, by the compiled formula if there is one."""
    placed = batch.on(curve.platform.alpha, curve.platform.theta)
    if compiled.takes(curve.test):
        return compiled.verdicts(placed, curve.test)
    test = rta.find(curve.test)
    return np.array([test.run(placed.taskset(index)).schedulable for index in range(len(placed))], np.bool_)


@dataclass(frozen=True)
class Table:
    """Schedulable tasksets by panel, point and curve."""

    experiment: Experiment
    settings: Settings
    counts: tuple[tuple[Counts, ...], ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each point and curve."""
        for panel, points in zip(self.experiment.panels, self.counts, strict=True):
            for (x, _), counts in zip(panel.points, points, strict=True):
                for label, count in counts.items():
                    yield {
                        "panel": panel.key, "x": x, "curve": label, "schedulable": count,
                        "tasksets": self.settings.tasksets, "share": count / self.settings.tasksets,
                    }  # fmt: skip


def run(
    experiment: Experiment,
    settings: Settings = Settings(),
    checkpoint: Path | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> Table:
    """Runs the pieces that the checkpoint lacks, by the executor, or in ``jobs`` threads or processes.

    ``progress`` is called with the number of tasksets done and of all tasksets.  Raises CheckpointError if the
    checkpoint is of another experiment or other settings.
    """
    pieces = plan(experiment, settings)
    with _Checkpoint(checkpoint, experiment, settings) as store:
        done = store.done
        waiting = [work for work in pieces if work.key not in done]
        total = sum(work.count for work in pieces)
        finished = total - sum(work.count for work in waiting)
        for work, counts in _each(waiting, jobs, executor):
            store.add(work, counts)
            finished += work.count
            if progress:
                progress(finished, total)
    return Table(experiment, settings, _summed(experiment, done))


def plan(experiment: Experiment, settings: Settings) -> list[Work]:
    """The pieces of an experiment."""
    return [
        Work(i, j, start, min(PIECE, settings.tasksets - start), parameters,
             point_seed(settings.seed, parameters), settings.method, experiment.available)
        for i, panel in enumerate(experiment.panels)
        for j, (_, parameters) in enumerate(panel.points)
        for start in range(0, settings.tasksets, PIECE)
    ]  # fmt: skip


def _summed(experiment: Experiment, done: dict[tuple[int, int, int], Counts]) -> tuple[tuple[Counts, ...], ...]:
    sums = [[{c.label: 0 for c in experiment.available} for _ in panel.points] for panel in experiment.panels]
    for (i, j, _), counts in done.items():
        for label, count in counts.items():
            sums[i][j][label] += count
    return tuple(tuple(points) for points in sums)


def _each(pieces: Sequence[Work], jobs: int, executor: Executor | None) -> Iterator[tuple[Work, Counts]]:
    """Each piece and its counts, in the order in which they finish."""
    if executor is None and jobs <= 1:
        yield from ((work, evaluate(work)) for work in pieces)
        return
    with _workers(pieces, jobs, executor) as pool:
        yield from finished(pool, evaluate, pieces)


@contextmanager
def _workers(pieces: Sequence[Work], jobs: int, executor: Executor | None) -> Iterator[Executor]:
    """The given executor, or threads, or processes if readable tests have to run, because those hold the GIL."""
    if executor is not None:
        yield executor
        return
    threads = all(curve.compiled for work in pieces[:1] for curve in work.curves)
    with ThreadPoolExecutor(jobs) if threads else ProcessPoolExecutor(jobs) as pool:
        yield pool


class _Checkpoint:
    """A file of JSON lines: the run's settings, then a line for each finished piece.  An incomplete line is dropped."""

    def __init__(self, path: Path | None, experiment: Experiment, settings: Settings) -> None:
        self.path = path
        self.header = {
            "experiment": experiment.name, "settings": asdict(settings), "piece": PIECE,
            "curves": [curve.label for curve in experiment.available],
            "points": [[point_seed(settings.seed, p) for _, p in panel.points] for panel in experiment.panels],
            "code": fingerprint(),
        }  # fmt: skip
        self.done: dict[tuple[int, int, int], Counts] = {}
        self.file: IO[str] | None = None

    def __enter__(self) -> _Checkpoint:
        if self.path is not None:
            kept = self._read(self.path) if self.path.exists() else []
            with written(self.path) as whole:  # or nothing would be left if this is killed now
                whole.writelines(json.dumps(entry).encode() + b"\n" for entry in [self.header, *kept])
            self.file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def add(self, work: Work, counts: Counts) -> None:
        """Adds a finished piece."""
        self.done[work.key] = counts
        self._write({"key": work.key, "counts": counts})

    def _write(self, entry: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()

    def _read(self, path: Path) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
        if entries and entries[0] != self.header:
            raise CheckpointError(
                f"{path} is of another experiment, other settings, other tests or another version of gpurt"
            )
        for entry in entries[1:]:
            i, j, start = entry["key"]
            self.done[i, j, start] = entry["counts"]
        return entries[1:]
