# SPDX-License-Identifier: GPL-2.0
"""Runs an experiment in pieces: in any order, in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial

from analysis.answers.pool import processes
from analysis.papers.experiments.plan import Experiment, Point, Result, Results, Settings

DEFAULT = Settings()


@dataclass(frozen=True, order=True)
class Work:
    """Tasksets ``start`` to ``start + count - 1`` of one point."""

    panel: int
    point: int
    start: int
    count: int


def run_experiment(
    experiment: Experiment[Point, Result],
    settings: Settings = DEFAULT,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Results[Result]:
    """Runs the pieces in ``jobs`` processes.

    ``progress`` is called with the numbers of tasksets done and of all tasksets.
    """
    pieces, done, counted = plan_work(experiment, settings), {}, 0
    total = sum(work.count for work in pieces)
    for work, result in _each(partial(evaluate, experiment, settings), pieces, jobs):
        done[work] = result
        counted += work.count
        if progress:
            progress(counted, total)
    found: list[list[list[Result]]] = [[[] for _ in panel.points] for panel in experiment.panels]
    for work in pieces:
        found[work.panel][work.point].append(done[work])
    return found


def plan_work(experiment: Experiment[Point, Result], settings: Settings) -> list[Work]:
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


def _each(call: Callable[[Work], Result], pieces: Sequence[Work], jobs: int) -> Iterator[tuple[Work, Result]]:
    """Each piece and its result, in the order in which they finish.

    Calls that have not begun are cancelled if the reader stops or a call fails.
    """
    if jobs <= 1:
        yield from ((work, call(work)) for work in pieces)
        return
    with processes(jobs) as pool:
        futures = {pool.submit(call, work): work for work in pieces}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
