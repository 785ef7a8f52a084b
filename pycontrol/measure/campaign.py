# SPDX-License-Identifier: GPL-2.0
"""All runs of a measurement in their planned order; checks that they are of the same files, and that jobs correspond.

gpurt compares the files of programs, but not libraries that they load, files that they read, or their environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from gpurt.errors import GpurtError, RuntimeFailure
from gpurt.text import filename
from pycontrol.measure.conditions import Here, files
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileOptions, ProfileResult, execute_once
from pycontrol.signals import INTERRUPTED, TERMINATED, Terminated


@dataclass(frozen=True, slots=True)
class Campaign:
    """The results of the complete runs, at least one.

    ``stopped``: why there are fewer runs than planned; empty: there are not.  ``interrupted``: the exit code if the
    user stopped it; else 0.
    """

    results: tuple[ProfileResult, ...]
    stopped: str = ""
    interrupted: int = 0


class UnlikeError(RuntimeFailure):
    """Jobs of two runs do not correspond."""


def _stamps(options: ProfileOptions, here: Here) -> dict[str, tuple[int, ...]]:
    """Stamps that must be the same for all runs of a measurement: of the files of program, co-runner and library."""
    programs = [files(command[:1]) for command in (options.command, here.beside) if command]
    return {path: _stamp(path) for path in (*chain.from_iterable(programs), *filter(None, [options.preload]))}


def _stamp(path: str) -> tuple[int, ...]:
    """Numbers that change with a file's content; empty if the file is gone."""
    try:
        seen = os.stat(path)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def measure_program(
    plan: Sequence[Planned], options: ProfileOptions, here: Here, progress: Callable[[int], None] = lambda runs: None
) -> Campaign:
    """Executes the runs.  A failing run, or Ctrl-C, ends the measurement; earlier runs are kept.

    Args:
        plan: the runs, at least one.
        options: how to execute the program.
        here: the facts that conditions depend on.
        progress: called with the number of runs made so far.

    Raises:
        GpurtError: the first run failed, or jobs do not correspond.
        KeyboardInterrupt: Ctrl-C in the first run.
    """
    results: list[ProfileResult] = []
    stamps = _stamps(options, here)
    try:
        for planned in plan:
            made = execute_once(planned, options, here)
            if changed := [path for path, seen in stamps.items() if _stamp(path) != seen]:
                raise RuntimeFailure(f"{filename(changed[0])} has changed since the measurement began: begin it anew")
            compare_runs([*results, made], options)
            results.append(made)
            progress(1)
    except UnlikeError:
        raise
    except (GpurtError, KeyboardInterrupt) as error:
        if not results:
            raise
        interrupted = 0
        if isinstance(error, KeyboardInterrupt):
            interrupted = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        why = f"run {len(results) + 1} of {len(plan)}: {'interrupted' if interrupted else error}"
        return Campaign(tuple(results), why, interrupted)
    return Campaign(tuple(results))


def compare_runs(results: Sequence[ProfileResult], options: ProfileOptions) -> None:
    """Compares the latest run with the first one.

    Raises:
        UnlikeError: the segments of their jobs do not correspond, so there is no common worst case.
    """
    first, last = results[0], results[-1]
    if (first.jobs.task, last.jobs.task) != (first.jobs.task,) * 2:
        raise _unlike(f"{_run(first)} announces jobs of {first.jobs.task or 'no task'}, {_run(last)} others")
    size = len(first.jobs.jobs[0].segments)
    for number, job in enumerate(last.jobs.jobs, 1):
        if len(job.segments) != size:
            raise _unlike(
                f"job {number} of {_run(last)} has {len(job.segments)} GPU segments, job 1 of {_run(first)} has {size}"
            )
    counts = len(first.segments), len(last.segments)
    if not first.jobs.task and options.per_job is None and counts[0] != counts[1]:
        raise _unlike(
            f"{_run(first)} has {counts[0]} GPU segments, {_run(last)} has {counts[1]}",
            "announce the jobs (gpurt.job, gpurt_job_begin), or say with --segments how many a job has",
        )


def _run(one: ProfileResult) -> str:
    given = "" if one.planned.given is None else f", input {one.planned.given}"
    return f"run {one.planned.number} ({one.planned.condition.value}{given})"


def _unlike(how: str, cure: str = "") -> UnlikeError:
    cure = cure or "measure each kind of job by itself, or give all the same segments"
    return UnlikeError(f"{how}; segments that do not correspond are not merged: {cure}")
