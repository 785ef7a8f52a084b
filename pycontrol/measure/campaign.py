# SPDX-License-Identifier: GPL-2.0
"""All runs of a measurement, in the planned order; whether they are of the same files, and their jobs correspond.

gpurt does not see libraries that a program loads, files that a program opens by itself, nor its environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpurt.errors import GpurtError, RuntimeFailure
from gpurt.text import filename
from pycontrol.measure.conditions import Here, files
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileOptions, ProfileResult, execute_once


@dataclass(frozen=True, slots=True)
class Campaign:
    """The results of the runs that were complete, at least one.

    ``stopped``: why there are fewer than planned; empty if there are not.  ``interrupted``: it was the user.
    ``outputs``: files that the program was given and has changed.
    """

    results: tuple[ProfileResult, ...]
    stopped: str = ""
    interrupted: bool = False
    outputs: tuple[str, ...] = ()


class Contents:
    """The contents of the program's file, its co-runner's, and files that they are given: of other ones, runs have no
    common worst case.

    ``outputs``: the files that a run changed or made; the program writes them.
    """

    def __init__(self, plan: Sequence[Planned], options: ProfileOptions, here: Here) -> None:
        self.outputs: set[str] = set()
        self._program = files(options.command[:1])
        self._command, self._beside = options.command, files(here.beside) if here.beside else []
        named = [found for one in plan for found in files(one.command(options.command))]
        loaded = [options.preload] if options.preload and os.path.isfile(options.preload) else []
        self._stamps = {path: _stamp(path) for path in (*named, *self._beside, *loaded)}

    def check(self) -> None:
        """Called before and after a run.  Raises RuntimeFailure: a file that is no output has changed."""
        for path in self._changed():
            raise RuntimeFailure(f"{filename(path)} has changed since the measurement began: begin it anew")

    def after(self, run: Planned) -> None:
        """Called after each run: the files that it has written are outputs from now on."""
        made = [path for path in files(run.command(self._command)) if path not in self._stamps]
        self.outputs |= {path for path in (*self._changed(), *made) if path not in self._program}

    def _changed(self) -> list[str]:
        return [path for path, seen in self._stamps.items() if path not in self.outputs and _stamp(path) != seen]


def _stamp(path: str) -> tuple[int, ...]:
    """The numbers that change with a file's content; empty if the file is gone."""
    try:
        seen = os.stat(path)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def measure_program(
    plan: Sequence[Planned], options: ProfileOptions, here: Here, progress: Callable[[int], None] = lambda runs: None
) -> Campaign:
    """Executes the runs.  The first one that fails, or Ctrl-C, ends the measurement; runs before it are kept.

    Args:
        plan: the runs, at least one.
        options: how to execute the program.
        here: what conditions depend on.
        progress: called with how many runs have been made.

    Raises:
        GpurtError: the first run failed, or jobs do not correspond.
        KeyboardInterrupt: Ctrl-C in the first run.
    """
    results: list[ProfileResult] = []
    contents = Contents(plan, options, here)
    for planned in plan:
        try:
            options.stop.check()
            contents.check()
            made = execute_once(planned, options, here)
            contents.after(planned)
            contents.check()
        except (GpurtError, KeyboardInterrupt) as error:
            if not results:
                raise
            contents.after(planned)
            interrupted = isinstance(error, KeyboardInterrupt)
            why = f"run {planned.number} of {len(plan)}: {'interrupted' if interrupted else error}"
            return Campaign(tuple(results), why, interrupted, tuple(sorted(contents.outputs)))
        results.append(made)
        compare_runs(results, options)
        progress(1)
    return Campaign(tuple(results), outputs=tuple(sorted(contents.outputs)))


def compare_runs(results: Sequence[ProfileResult], options: ProfileOptions) -> None:
    """Compares the last run with the first one.

    Raises:
        RuntimeFailure: the segments of their jobs do not correspond, so that they have no common worst case.
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


def _unlike(how: str, cure: str = "") -> RuntimeFailure:
    cure = cure or "measure each kind of job by itself, or give all the same segments"
    return RuntimeFailure(f"{how}; segments that do not correspond are not merged: {cure}")
