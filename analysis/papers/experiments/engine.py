# SPDX-License-Identifier: GPL-2.0
"""Runs an experiment in pieces: in any order, in any process, and continued after an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Generic

from analysis.answers.fingerprint import fingerprint
from analysis.answers.pool import processes
from analysis.papers.experiments.pieces import finished
from analysis.papers.experiments.plan import Experiment, Point, Result, Results, Settings
from gpurt.files import written
from gpurt.types import Document

DEFAULT = Settings()


@dataclass(frozen=True, order=True)
class Work:
    """Tasksets ``start`` to ``start + count - 1`` of one point."""

    panel: int
    point: int
    start: int
    count: int


class CheckpointError(ValueError):
    """The checkpoint is of another experiment, other settings, other curves or another version of the code."""


def run(
    experiment: Experiment[Point, Result],
    settings: Settings = DEFAULT,
    checkpoint: Path | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Results[Result]:
    """Runs the pieces that the checkpoint lacks, in ``jobs`` threads or processes.

    ``progress`` is called with the number of tasksets done and of all tasksets.  Raises CheckpointError if the
    checkpoint is of another experiment or other settings.
    """
    pieces = plan(experiment, settings)
    with _Checkpoint(checkpoint, experiment, settings) as store:
        waiting = [work for work in pieces if work not in store.done]
        total = sum(work.count for work in pieces)
        counted = total - sum(work.count for work in waiting)
        for work, result in _each(partial(evaluate, experiment, settings), waiting, jobs, experiment.threads):
            store.add(work, result)
            counted += work.count
            if progress:
                progress(counted, total)
    found: list[list[list[Result]]] = [[[] for _ in panel.points] for panel in experiment.panels]
    for work in pieces:
        found[work.panel][work.point].append(store.done[work])
    return found


def plan(experiment: Experiment[Point, Result], settings: Settings) -> list[Work]:
    """The pieces of an experiment."""
    return [
        Work(i, j, start, min(experiment.piece, settings.tasksets - start))
        for i, panel in enumerate(experiment.panels)
        for j in range(len(panel.points))
        for start in range(0, settings.tasksets, experiment.piece)
    ]


def evaluate(experiment: Experiment[Point, Result], settings: Settings, work: Work) -> Result:
    """The result of a piece of work; called in other processes."""
    _, point = experiment.panels[work.panel].points[work.point]
    return experiment.evaluate(point, settings, work.start, work.count)


def _each(
    call: Callable[[Work], Result], pieces: Sequence[Work], jobs: int, threads: bool
) -> Iterator[tuple[Work, Result]]:
    """Each piece and its result, in the order in which they finish."""
    if jobs <= 1:
        yield from ((work, call(work)) for work in pieces)
        return
    with ThreadPoolExecutor(jobs) if threads else processes(jobs) as pool:
        yield from finished(pool, call, pieces)


class _Checkpoint(Generic[Point, Result]):
    """A file of JSON lines: the run's settings, then a line for each finished piece.  An incomplete line is dropped."""

    def __init__(self, path: Path | None, experiment: Experiment[Point, Result], settings: Settings) -> None:
        self.path = path
        self.header = {
            "experiment": experiment.name, "tasksets": settings.tasksets, "seed": settings.seed,
            "method": settings.method, "profiles": str(settings.profiles), "piece": experiment.piece,
            "curves": experiment.labels, "code": fingerprint(),
            "points": [[experiment.point_identity(point, settings) for _, point in panel.points]
                       for panel in experiment.panels],
        }  # fmt: skip
        self.done: dict[Work, Result] = {}
        self.file: IO[str] | None = None

    def __enter__(self) -> _Checkpoint[Point, Result]:
        if self.path is not None:
            kept = self._read(self.path) if self.path.exists() else []
            with written(self.path) as whole:  # or nothing would be left if this is killed now
                whole.writelines(json.dumps(entry).encode() + b"\n" for entry in [self.header, *kept])
            self.file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def add(self, work: Work, result: Result) -> None:
        """Adds a finished piece."""
        self.done[work] = result
        if self.file is not None:
            key = [work.panel, work.point, work.start, work.count]
            self.file.write(json.dumps({"piece": key, "result": result}) + "\n")
            self.file.flush()

    def _read(self, path: Path) -> list[Document]:
        entries: list[Document] = []
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
            self.done[Work(*entry["piece"])] = entry["result"]
        return entries[1:]
