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

from analysis import rta
from analysis.answers.pool import processes
from analysis.answers.registry import find_test
from analysis.attack import units
from analysis.attack.linked import limits_of, named, with_random_chains
from analysis.attack.outcome import Effort, Longest, Outcome, pieces, size
from analysis.attack.tasksets import (
    held_by_workers,
    random_taskset,
    with_latency,
    with_random_modes,
    with_random_partitions,
    with_random_pending,
    with_random_slices,
    with_random_threads,
    with_random_workers,
    with_random_yield,
)
from analysis.model import MS, US, CpuSegment, Segment, Span, Task, Taskset
from analysis.rta import Test
from analysis.rtgpu.verdict import UnitsTest
from analysis.simulation.simulate import Options, Simulation, simulate, worst_over_offsets

#: Tasksets that one process takes at a time.  The tasksets of a seed depend on it.
TASKSETS_A_BATCH = 100
USUAL = Effort()


def attack(
    test: Test,
    tasksets: int,
    seed: int = 0,
    jobs: int = 1,
    effort: Effort = USUAL,
    progress: Callable[[int], None] | None = None,
    find: Callable[[str], Test] = find_test,
) -> Outcome:
    """Attacks a test with so many tasksets in so many processes; ``progress`` is called with the number done.

    ``find``: how other processes find the test by its name, for formulas cannot be sent to them.
    """
    one = partial(_any, test, effort) if jobs == 1 else partial(_found, find, test.name, effort)
    key, batch = f"{seed} {test.name}", TASKSETS_A_BATCH
    owning = test.analysis
    if isinstance(owning, UnitsTest):
        one = partial(units.attack_units, method=owning.method, runs=effort.runs + effort.steps)
        key, batch = f"{key} {units.MAX_CPUS_DRAWN}", units.SYSTEMS_A_BATCH
    parts = [(start, min(batch, tasksets - start)) for start in range(0, tasksets, batch)]
    outcome = Outcome(test.name)
    for part in _each(partial(_batch, test.name, key, one), parts, jobs):
        outcome = outcome.joined(part)
        if progress:
            progress(outcome.tasksets)
    if outcome.smallest and owning is None:
        outcome = replace(outcome, smallest=minimised(test, outcome.smallest))
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


def _found(find: Callable[[str], Test], name: str, effort: Effort, rng: random.Random) -> Outcome:
    return _any(find(name), effort, rng)


def _any(test: Test, effort: Effort, rng: random.Random) -> Outcome:
    """The attack on the bounds of a random taskset of the kinds that the test is about."""
    taskset = random_taskset(rng)
    if test.waiting is None:
        taskset = with_random_modes(taskset, rng)
    if test.sharing:
        taskset = with_random_slices(taskset, rng, test.sharing)
    if test.partitions:
        taskset = with_random_partitions(taskset, rng)
    if effort.yields and test.yields:
        taskset = with_random_yield(taskset, rng)
    if effort.threads and test.threads:
        taskset = with_random_threads(taskset, rng)
    if effort.pending and test.pending:
        taskset = with_random_pending(taskset, rng)
    if effort.latency and test.latency:
        taskset = with_latency(taskset, rng.choice([10, 50, 200]) * US)
    if effort.workers and test.paths:
        taskset = with_random_workers(taskset, rng)
        taskset = held_by_workers(taskset) if test.rules.raises and rng.random() < 0.5 else taskset
    if effort.chains:
        taskset = with_random_chains(taskset, rng, triggers=test.pending)
    return attack_one(test, taskset, rng, effort)


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
        stopped |= effort.yields and not all(ended[t.name] for t in taskset if t.thread is None)
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


def prioritised(test: Test, taskset: Taskset) -> Taskset:
    """The taskset, with the GPU priorities that the test assigns if it assigns any."""
    priorities = test.assign(taskset).priorities if test.assigns else None
    return taskset if priorities is None else taskset.with_gpu_priorities(priorities)


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


def minimised(test: Test, finding: Longest, tries: int = 200) -> Longest:
    """A finding with a simpler taskset that still breaks the bound: tasks and segments dropped, times rounded."""
    smaller = True
    while smaller:
        smaller = False
        for taskset in simpler(finding.taskset, finding.task):
            if size(taskset) < size(finding.taskset):
                again = broken(test, taskset, finding.task, tries)
                if again:
                    finding, smaller = again, True
                    break
    return finding


def broken(test: Test, taskset: Taskset, task: str, tries: int) -> Longest | None:
    """A schedule in which the task exceeds its bound; None if none is found."""
    taskset = prioritised(test, taskset)
    result, rng = test.run(taskset), random.Random(0)
    bound = bounds_of(taskset, result).get(task)
    if not result.schedulable or bound is None:
        return None
    for options in ways(test, taskset, rng):
        found, _ = climb(taskset, task, bound, options, rng, tries)
        if found.observed > bound:
            return found
    return None


def simpler(taskset: Taskset, keep: str) -> Iterator[Taskset]:
    """Tasksets that are simpler by one step: a task other than ``keep`` less, a segment less, or fewer digits.

    Tasks with workers, workers, and tasks of chains stay, except for their digits.
    """
    for index, task in enumerate(taskset):
        rest = taskset.tasks[:index], taskset.tasks[index + 1 :]
        if task.name in taskset.forked or any(task.name in chain.tasks for chain in taskset.chains):
            continue
        if task.name != keep:
            yield replace(taskset, tasks=rest[0] + rest[1])
        for position in range(len(task.segments)):
            segments = task.segments[:position] + task.segments[position + 1 :]
            yield replace(taskset, tasks=(*rest[0], replace(task, segments=segments), *rest[1]))
    for unit in (MS, MS // 10, MS // 100, 1000):
        yield replace(taskset, tasks=tuple(replace(t, segments=_rounded(t, unit)) for t in taskset))


def _rounded(task: Task, unit: int) -> tuple[Segment, ...]:
    def span(old: Span) -> Span:
        return Span.exactly((old.worst + unit // 2) // unit * unit)

    return tuple(
        CpuSegment(span(s.time)) if isinstance(s, CpuSegment)
        else replace(s, misc=span(s.misc), pure=span(s.pure), parts=(), scaling=None)
        for s in task.segments
    )  # fmt: skip
