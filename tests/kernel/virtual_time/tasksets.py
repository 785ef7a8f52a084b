# SPDX-License-Identifier: GPL-2.0
"""Tasksets of one CPU for the real module in virtual time: what the runner is told, what the simulator predicts.

All times are multiples of GRAIN, for that is how finely virtual execution can be preempted (burn/burn.h).  Every job
ends with execution on the CPU.  To the simulator a job that ends with a GPU segment is over when that segment is.  A
process learns of the segment's end only once it has the CPU again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from analysis.model import (
    MS,
    POLICIES,
    US,
    CpuSegment,
    GpuSegment,
    Platform,
    Segment,
    Span,
    Task,
    Taskset,
    Waiting,
)
from analysis.simulation.simulate import Options, simulate
from analysis.traces.trace import Kind
from gpurt._gpurt import lib

GRAIN = US
#: The calls that programs make, by policy; see runner.c.
CALLS = {
    "timesliced": "none", "job": "none", "segment": "segment", "boosted": "segment", "lock-priority": "wait",
    "lock-fifo": "wait",
}  # fmt: skip
#: The threads' own priorities; under `boosted` those are low, and raised threads are above them.
PRIORITIES = {"boosted": range(1, lib.GPURT_NORMAL_DEFAULT + 1)}
EVENTS = 100_000

#: Completions in ns since the first instant, by task, in order of its jobs.
Completions = dict[str, list[int]]


@dataclass(frozen=True)
class Case:
    """A taskset, the policy it runs under, the tasks' first releases, and until when jobs are released."""

    name: str
    taskset: Taskset
    options: Options
    offsets: tuple[int, ...]
    budgets: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def horizon(self) -> int:
        """Jobs are released before that time, ns."""
        assert self.options.horizon is not None
        return self.options.horizon

    def jobs(self, index: int) -> int:
        """How many jobs that task releases."""
        return len(range(self.offsets[index], self.horizon, self.taskset.tasks[index].period))

    def module_parameters(self) -> str:
        """The parameters with which the module is loaded."""
        platform = self.taskset.platform
        policy = 0 if self.options.policy == "job" else int(POLICIES[self.options.policy].number)
        costs = (f"vgpu_alpha_ns={platform.alpha}", f"vgpu_theta_ns={platform.theta}")
        return " ".join((f"policy={policy}", f"vgpu_slice_ns={platform.time_slice}", *costs))

    def description(self) -> str:
        """What runner.c reads."""
        lines = [f"calls {CALLS[self.options.policy]}"]
        if self.options.policy == "job":
            lines.append(f"job {'poll' if self.options.poll else 'notify'} {self.options.poll or MS}")
        for index, task in enumerate(self.taskset):
            offset, jobs = self.offsets[index], self.jobs(index)
            waiting = self.options.waiting or task.waiting
            how = f"{waiting.value} {task.form_in(waiting).word}"
            lines.append(
                f"task {task.name} {task.priority} {task.gpu_priority or 0} {offset} {task.period} {jobs} {how}"
            )
            if task.name in self.budgets:
                lines.append("budget {} {}".format(*self.budgets[task.name]))
            lines.extend(_line(segment) for segment in task.segments)
        return "\n".join(lines) + "\n"

    def predicted(self, jitter: int | None = None) -> Completions:
        """The simulator's completions; with ``jitter``, releases are later by that seed's some nanoseconds."""
        draw = random.Random(jitter)
        offsets = [offset + (draw.randrange(10) if jitter is not None else 0) for offset in self.offsets]
        trace = simulate(self.taskset, self.options, offsets, EVENTS).trace
        assert trace is not None
        assert all(event.kind is not Kind.LOST for event in trace.events)
        done: Completions = {task.name: [] for task in self.taskset}
        for event in trace.events:
            if event.kind is Kind.COMPLETE:
                done[event.task].append(event.time)
        return done

    def is_stable(self) -> bool:
        """Whether all jobs end, and nothing depends on the order of what happens at the same instant.

        No model defines that order.  Without it, moving the releases by nanoseconds moves completions by nanoseconds.
        A job may wait for ever: a task that spins for the GPU may hold the CPU that the owner needs to give it up.
        """
        exact = self.predicted()
        if any(len(exact[task.name]) != self.jobs(index) for index, task in enumerate(self.taskset)):
            return False
        for jitter in range(6):
            moved = self.predicted(jitter)
            for name, times in exact.items():
                if any(abs(a - b) >= GRAIN // 2 for a, b in zip(times, moved[name], strict=False)):
                    return False
        return True

    def is_calm(self) -> bool:
        """Policy `job`: whether the thread never notices a second change before it is done with the first.

        The simulator makes one update for all changes that are noticed together or come while the thread is busy.  The
        module's thread makes one after the other.
        """
        window, changes = self.options.poll or self.taskset.platform.alpha, []
        done = self.predicted()
        for task, offset in zip(self.taskset, self.offsets, strict=True):
            if task.uses_gpu:
                changes += [offset + job * task.period for job in range(len(done[task.name]))] + done[task.name]
        changes.sort()
        if self.options.poll:
            return len({change // window for change in changes}) == len(changes)
        return all(b - a > window for a, b in pairwise(changes))


def _line(segment: Segment) -> str:
    if isinstance(segment, CpuSegment):
        return f"cpu {segment.time.worst}"
    return f"gpu {segment.misc.worst} {segment.pure.worst}"


def cpu(time: int) -> CpuSegment:
    """A CPU segment of exactly that time, ns."""
    return CpuSegment(Span.exactly(time))


def gpu(misc: int, pure: int) -> GpuSegment:
    """A GPU segment of exactly these times, ns."""
    return GpuSegment(Span.exactly(misc), Span.exactly(pure))


def _split(draw: random.Random, total: int, parts: int) -> list[int]:
    cuts = sorted(draw.randrange(1, total // GRAIN) for _ in range(parts - 1))
    bounds = [0, *cuts, total // GRAIN]
    return [(b - a) * GRAIN for a, b in pairwise(bounds)]


def _segments(draw: random.Random, demand: int, uses_gpu: bool) -> tuple[Segment, ...]:
    if not uses_gpu:
        return (cpu(demand),)
    eta = draw.randrange(1, 4)
    segments: list[Segment] = []
    for part in _split(draw, demand, eta):
        before, misc, pure = _split(draw, max(part, 10 * GRAIN), 3)
        segments += [cpu(before), gpu(misc, max(pure, GRAIN))]
    return (*segments, cpu(draw.randrange(1, 100) * GRAIN))


def _task(draw: random.Random, index: int, utilization: float, priorities: list[int], policy: str) -> Task:
    period = draw.randrange(10 * MS, 50 * MS, GRAIN)
    demand = max(int(utilization * period) // GRAIN, 20) * GRAIN
    uses_gpu = draw.random() < 0.8
    own = priorities[index]
    other = draw.choice(priorities) or None if own and policy != "job" and draw.random() < 0.5 else None
    waiting = Waiting.BUSY if policy == "job" or draw.random() < 0.5 else Waiting.SUSPEND
    form = draw.choice(waiting.forms) if policy == "boosted" else None
    segments = _segments(draw, demand, uses_gpu)
    return Task(f"t{index}", 0, own, period, period, segments, waiting, other, form=form)


def random_case(seed: int, policy: str, alpha: int = 0, theta: int = 0, notify: bool = False) -> Case:
    """A random taskset of two to five tasks, one of them perhaps best effort (policy `job` has no use for those)."""
    draw = random.Random(f"{seed} {policy} {alpha} {theta} {notify}")
    while True:
        count = draw.randrange(2, 6)
        total = draw.uniform(0.4, 0.85)
        priorities = draw.sample(PRIORITIES.get(policy, range(10, 90)), count)
        if policy != "job" and draw.random() < 0.5:
            priorities[draw.randrange(count)] = 0
        tasks = tuple(_task(draw, i, total / count, priorities, policy) for i in range(count))
        options = Options(policy=policy, horizon=150 * MS, poll=0 if notify else MS)
        case = Case(
            f"{policy}{'-notify' if notify else ''}-{alpha}-{theta}-{seed}",
            Taskset(Platform(1, alpha=alpha, theta=theta), tasks),
            options,
            tuple(draw.randrange(0, 10 * MS, GRAIN) for _ in tasks),
        )
        if case.is_stable() and (policy != "job" or not alpha or case.is_calm()):
            return case


def differences(case: Case, seen: Completions, predicted: Completions) -> Iterator[str]:
    """One line for each job that did not complete when the simulator says."""
    for task, offset in zip(case.taskset, case.offsets, strict=True):
        if len(seen[task.name]) != len(predicted[task.name]):
            yield f"{task.name}: {len(seen[task.name])} jobs, predicted {len(predicted[task.name])}"
        for job, (a, b) in enumerate(zip(seen[task.name], predicted[task.name], strict=False)):
            if a != b:
                release = offset + job * task.period
                yield f"{task.name} job {job} of {release}: took {a - release}, predicted {b - release} ({a - b:+})"
