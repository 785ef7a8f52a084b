# SPDX-License-Identifier: GPL-2.0
"""Attacks on bounds: the search for a schedule in which a task takes longer than its bound.

Tasksets are random.  Each that a test bounds is simulated with random first releases and demands.  A local search over
first releases then raises the response time of the task nearest to its bound.  The same seed gives the same result,
whatever the number of processes.  docs/soundness.md says what was found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from attack_outcome import Effort, Longest, Outcome, limits_of, named, pieces
from random_tasksets import random_taskset, with_random_modes, with_random_partitions, with_random_slices

from analysis import rta
from analysis.answers.pool import processes
from analysis.answers.registry import find_test
from analysis.attack.exact import prioritised
from analysis.model import Taskset
from analysis.model.platform import ISOLATED
from analysis.rta import Test
from analysis.simulation.simulate import Options, Simulation, simulate, worst_over_offsets

#: Tasksets that one process takes at a time.  The tasksets of a seed depend on it.
TASKSETS_A_BATCH = 100
USUAL = Effort()
#: Draws a taskset for a test.
Draw: TypeAlias = "Callable[[Test, random.Random], Taskset]"


def attack(
    test: Test,
    tasksets: int,
    seed: int = 0,
    jobs: int = 1,
    effort: Effort = USUAL,
    progress: Callable[[int], None] | None = None,
    find: Callable[[str], Test] = find_test,
    draw: Draw | None = None,
) -> Outcome:
    """Attacks a test with so many tasksets in so many processes; ``progress`` is called with the number done.

    ``find``: how other processes find the test by its name, for formulas cannot be sent to them.  ``draw``: how a
    taskset is drawn, other than by `random_system`.
    """
    draw = draw or random_system
    one = partial(_drawn, draw, effort, test) if jobs == 1 else partial(_found, draw, effort, find, test.name)
    return gathered(test.name, f"{seed} {test.name}", TASKSETS_A_BATCH, one, tasksets, jobs, progress)


def gathered(
    name: str, key: str, batch: int, one: Callable[[random.Random], Outcome], tasksets: int, jobs: int,
    progress: Callable[[int], None] | None = None,
) -> Outcome:  # fmt: skip
    """The outcomes of ``one`` for so many tasksets, of which a process takes ``batch`` at a time; ``key``: the seed."""
    parts = [(start, min(batch, tasksets - start)) for start in range(0, tasksets, batch)]
    outcome = Outcome(name)
    for part in _each(partial(_batch, name, key, one), parts, jobs):
        outcome = outcome.joined(part)
        if progress:
            progress(outcome.tasksets)
    return outcome


def _each(
    call: Callable[[tuple[int, int]], Outcome], parts: Sequence[tuple[int, int]], jobs: int
) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(call, parts)
        return
    with processes(jobs) as pool:
        yield from pool.map(call, parts)


def _batch(name: str, key: str, one: Callable[[random.Random], Outcome], piece: tuple[int, int]) -> Outcome:
    start, count = piece
    rng, outcome = random.Random(f"{key} {start}"), Outcome(name)
    for _ in range(count):
        outcome = outcome.joined(one(rng))
    return outcome


def _drawn(draw: Draw, effort: Effort, test: Test, rng: random.Random) -> Outcome:
    return attack_one(test, draw(test, rng), rng, effort)


def _found(draw: Draw, effort: Effort, find: Callable[[str], Test], name: str, rng: random.Random) -> Outcome:
    return _drawn(draw, effort, find(name), rng)


def random_system(test: Test, rng: random.Random) -> Taskset:
    """A random taskset of the kind that the test is about."""
    taskset = random_taskset(rng)
    if test.waiting is None:
        taskset = with_random_modes(taskset, rng)
    if test.sharing:
        taskset = with_random_slices(taskset, rng, test.sharing)
    return with_random_partitions(taskset, rng) if test.partitions else taskset


def attack_one(test: Test, taskset: Taskset, rng: random.Random, effort: Effort = USUAL) -> Outcome:
    """Attacks the test's bounds of one taskset.  If a task has no bound, the test promises nothing: no attack.

    Tests of threads are an exception: their bound of a task holds even if others are late.  Where segments begin by
    yield, a job that never ends is a violation, too, even a best-effort job.
    """
    taskset = prioritised(test, taskset)
    result = test.run(taskset)
    bounds = bounds_of(taskset, result)
    if not bounds or not (result.schedulable or taskset.threads):
        return Outcome(test.name, 1)
    delayed = [name for name in bounds if name not in result.verdicts or is_delayed(result.verdicts[name])]
    jobs, findings, stopped = 0, [], False
    for options in ways(test, taskset, rng):
        run = worst_over_offsets(taskset, options, effort.runs)
        ended = {name: one.finished + one.dropped == one.jobs for name, one in run.tasks.items()}
        stopped |= taskset.platform.begin != ISOLATED and not all(ended[t.name] for t in taskset if t.thread is None)
        jobs, seen = jobs + sum(one.jobs for one in run.tasks.values()), longest(run)
        ratios = {name: Fraction(seen[name], bound) for name, bound in bounds.items()}
        broken = [name for name in bounds if ratios[name] > 1]
        target = max(broken or delayed or bounds, key=lambda name: ratios[name])
        found, more = climb(taskset, target, bounds[target], options, rng, effort.steps)
        jobs += more
        if seen[target] > found.observed:
            found = replace(found, observed=seen[target], offsets=())
        findings.append(found)
    worst = max(findings, key=lambda f: f.ratio)
    exceeded = [f for f in findings if f.observed > f.bound]
    worst_of_delayed = worst if exceeded or delayed else None
    smallest = exceeded[0] if exceeded else None
    return Outcome(test.name, 1, 1, jobs, stopped or bool(exceeded), worst_of_delayed, smallest)


def bounds_of(taskset: Taskset, result: rta.Result) -> dict[str, int]:
    """The bounds above 0 of tasks, and of chains by chain and key, ns."""
    tasks = {t.name: wcrt for t in taskset.real_time if (wcrt := result.wcrt(t.name)) is not None}
    return {name: bound for name, bound in {**tasks, **named(limits_of(taskset, result))}.items() if bound}


def longest(run: Simulation) -> dict[str, int]:
    """The longest times of a run, by the names of `bounds_of`, ns."""
    return {**{name: one.worst for name, one in run.tasks.items()}, **named(run.chains)}


def is_delayed(verdict: rta.Verdict) -> bool:
    """Whether a bound has a term that another task causes.  Every job reaches a bound that has none."""
    return isinstance(verdict, rta.Bound) and any(term.source for term in verdict.terms)


def ways(test: Test, taskset: Taskset, rng: random.Random) -> Iterator[Options]:
    """Worst-case execution with periodic releases; and random execution, sporadic unless the test is ``periodic``."""
    horizon = 6 * max(t.period for t in taskset)
    for form in test.forms_of(taskset):
        for execution in ("worst", "random"):
            late = execution == "random" and not test.periodic
            yield Options(
                test.policy, test.waiting, execution, late, horizon, test.poll, seed=rng.getrandbits(60), form=form
            )


def climb(
    taskset: Taskset, target: str, bound: int, options: Options, rng: random.Random, steps: int
) -> tuple[Longest, int]:
    """Local search over first releases, from 0 for every task; returns also the number of jobs simulated."""
    offsets = [0] * len(taskset)
    best, jobs = -1, 0
    for _ in range(steps + 1):
        trial = moved(taskset, target, offsets, rng) if best >= 0 else offsets
        run = simulate(taskset, options, trial)
        jobs, seen = jobs + sum(one.jobs for one in run.tasks.values()), longest(run)[target]
        if seen >= best:
            offsets, best = trial, seen
    return Longest(taskset, target, bound, best, options, tuple(offsets)), jobs


def moved(taskset: Taskset, target: str, offsets: Sequence[int], rng: random.Random) -> list[int]:
    """The offsets with one or two changed: at random, or so that a segment's boundary is at the target's release."""
    changed = list(offsets)
    names = [t.name for t in taskset]
    anchor = names.index(target) if target in names else rng.randrange(len(names))  # a chain is of several
    for _ in range(rng.randint(1, 2)):
        index = rng.randrange(len(taskset))
        task = taskset.tasks[index]
        if rng.random() < 0.4:
            changed[index] = rng.randrange(task.period)
        else:
            lengths = [piece for s in task.segments for piece in pieces(s)]
            before = sum(lengths[: rng.randint(0, len(lengths))]) + rng.choice([-1, 0, 1])
            changed[index] = (changed[anchor] - before) % task.period
    return changed
