# SPDX-License-Identifier: GPL-2.0
"""The schedulers that sBEET and sBEET-mg are compared with (sections 2.5 and 3.6), and the choice between them."""

from __future__ import annotations

from collections.abc import Callable

from analysis.energy.distribute import by_size
from analysis.energy.policies import UnitsRule
from analysis.energy.setup import Setup
from energy_readable.allocate import on_gpu
from energy_readable.migrate import migrate
from energy_readable.state import Dispatching, ReleasedJob, UnitsState, free_units, is_full


def _whole(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """One job at a time, on the whole GPU."""
    home = setup.assigned[job.task]
    return None if state.running[home] else Dispatching(home, setup.system.gpus[home].whole)


def _static(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """The task's own set of units, when all of them are free (STGM)."""
    own = setup.sets[job.task]
    if any(own & setup.sets[running.task] for running in state.running[0]):
        return None
    return Dispatching(0, len(own))


def _allocated(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """Algorithm 2 on the assigned GPU."""
    home = setup.assigned[job.task]
    found = on_gpu(setup, state, home, job)
    return Dispatching(home, found.units) if found else None


def _exact(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """m^opt units of the assigned GPU, or none."""
    home = setup.assigned[job.task]
    best = setup.best[job.task][home]
    if is_full(setup, state, home) or free_units(setup, state, home) < best:
        return None
    return Dispatching(home, best)


def _by_size(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """The first GPU by size that is not full."""
    for gpu in by_size(setup.system, setup.rule is UnitsRule.SMALL):
        if setup.best[job.task][gpu] and not is_full(setup, state, gpu):
            return _as_many(setup, state, job, gpu)
    return None


def _free(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """Load-Dist: the first idle GPU, else that with most free units."""
    able = [gpu for gpu in setup.system.tasks[job.task].places if not is_full(setup, state, gpu)]
    idle = [gpu for gpu in able if not state.running[gpu]]
    if not able:
        return None
    chosen = idle[0] if idle else max(able, key=lambda gpu: (free_units(setup, state, gpu), -gpu))
    return _as_many(setup, state, job, chosen)


def _as_many(setup: Setup, state: UnitsState, job: ReleasedJob, gpu: int) -> Dispatching:
    return Dispatching(gpu, min(setup.best[job.task][gpu], free_units(setup, state, gpu)))


_RULES: dict[UnitsRule, Callable[[Setup, UnitsState, ReleasedJob], Dispatching | None]] = {
    UnitsRule.WHOLE: _whole, UnitsRule.STATIC: _static, UnitsRule.ALLOCATE: _allocated, UnitsRule.MIGRATE: migrate,
    UnitsRule.EXACT: _exact, UnitsRule.BIG: _by_size, UnitsRule.SMALL: _by_size, UnitsRule.FREE: _free,
}  # fmt: skip


def decide(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """Whether a ready job whose task has no unfinished job is dispatched now, and where; None: it waits."""
    return _RULES[setup.rule](setup, state, job)
