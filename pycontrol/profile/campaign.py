# SPDX-License-Identifier: GPL-2.0
"""All runs of a measurement, in the planned order; whether their jobs correspond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpurt.errors import GpurtError, RuntimeFailure
from pycontrol.profile.conditions import Here
from pycontrol.profile.plan import Planned
from pycontrol.profile.run import Options, Result, execute


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of the runs that were complete, at least one.

    ``stopped``: why there are fewer than planned; empty if there are not.  ``interrupted``: it was the user.
    """

    results: tuple[Result, ...]
    stopped: str = ""
    interrupted: bool = False


def measure(
    plan: Sequence[Planned], options: Options, here: Here, progress: Callable[[int], None] = lambda runs: None
) -> Measured:
    """Executes the runs.  The first one that fails, or Ctrl-C, ends the measurement; what was complete before is kept.

    Args:
        plan: the runs, at least one.
        options: how to execute the program.
        here: what conditions depend on.
        progress: called after each run with 1.

    Raises:
        GpurtError: the first run failed, or jobs do not correspond.
        KeyboardInterrupt: Ctrl-C in the first run.
    """
    results: list[Result] = []
    for planned in plan:
        try:
            made = execute(planned, options, here)
        except (GpurtError, KeyboardInterrupt) as error:
            if not results:
                raise
            interrupted = isinstance(error, KeyboardInterrupt)
            why = "interrupted" if interrupted else str(error)
            return Measured(tuple(results), f"run {planned.number} of {len(plan)}: {why}", interrupted)
        results.append(made)
        compare(results, options)
        progress(1)
    return Measured(tuple(results))


def compare(results: Sequence[Result], options: Options) -> None:
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


def _run(one: Result) -> str:
    given = "" if one.planned.given is None else f", input {one.planned.given}"
    return f"run {one.planned.number} ({one.planned.condition.value}{given})"


def _unlike(how: str, cure: str = "") -> RuntimeFailure:
    cure = cure or "measure each kind of job by itself, or give all the same segments"
    return RuntimeFailure(f"{how}; segments that do not correspond are not merged: {cure}")
