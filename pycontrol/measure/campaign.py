# SPDX-License-Identifier: GPL-2.0
"""All runs of a measurement, in the planned order; whether their jobs correspond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpurt.errors import FileError, GpurtError, RuntimeFailure
from pycontrol.measure.checkpoint import Checkpoint
from pycontrol.measure.conditions import Here
from pycontrol.measure.identity import Contents
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileOptions, ProfileResult, execute_once


@dataclass(frozen=True, slots=True)
class Campaign:
    """The results of the runs that were complete, at least one.

    ``stopped``: why there are fewer than planned; empty if there are not.  ``interrupted``: it was the user.
    ``failures``: of attempts that gave no result and were made again, why.  ``outputs``: files that the program was
    given and has changed.
    """

    results: tuple[ProfileResult, ...]
    stopped: str = ""
    interrupted: bool = False
    failures: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def measure_program(
    plan: Sequence[Planned], options: ProfileOptions, here: Here, store: Checkpoint, contents: Contents,
    progress: Callable[[int], None] = lambda runs: None,
) -> Campaign:  # fmt: skip
    """Executes the runs that the checkpoint lacks.  The first one that fails, or Ctrl-C, ends the measurement.

    Runs that were complete before are kept.

    Args:
        plan: the runs, at least one.
        options: how to execute the program.
        here: what conditions depend on.
        store: the runs that were made before, and takes those that are made now.
        contents: of the files that are measured.
        progress: called with how many runs have been made.

    Raises:
        GpurtError: the first run failed, or jobs do not correspond.
        KeyboardInterrupt: Ctrl-C in the first run.
    """
    before = tuple(store.failures)
    for result in store.results:
        compare_runs((store.results[0], result), options)
    progress(len(store.results))
    for planned in plan[len(store.results) :]:
        try:
            _measure(planned, options, here, store, contents)
        except (GpurtError, KeyboardInterrupt) as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            why = "interrupted" if interrupted else str(error)
            if not store.results:
                raise
            with suppress(FileError):  # it may be what failed
                store.fail(planned.number, why, contents.after(planned))
            why = f"run {planned.number} of {len(plan)}: {why}"
            return Campaign(tuple(store.results), why, interrupted, before, tuple(sorted(contents.outputs)))
        compare_runs(store.results, options)
        progress(1)
    return Campaign(tuple(store.results), failures=before, outputs=tuple(sorted(contents.outputs)))


def _measure(planned: Planned, options: ProfileOptions, here: Here, store: Checkpoint, contents: Contents) -> None:
    """Makes one run."""
    options.stop.check()
    contents.check()
    store.begin(planned.number)
    made = execute_once(planned, options, here)
    written = contents.after(planned)
    contents.check()
    store.add(made, written)


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
