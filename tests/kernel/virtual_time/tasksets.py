# SPDX-License-Identifier: GPL-2.0
"""Tasksets of one CPU for the real module in virtual time: what the runner is told, what the simulator predicts.

All times are multiples of GRAIN, for that is how finely virtual execution can be preempted (burn/burn.h).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from analysis.model import MS, US, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset, Waiting
from analysis.simulate import POLICIES, Options, simulate
from analysis.trace import Kind

GRAIN = US
#: What programs call, by policy; see runner.c.
CALLS = {"timesliced": "none", "job": "none", "segment": "segment", "lock-priority": "wait", "lock-fifo": "wait"}
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
    hook: str = ""
    parameters: tuple[str, ...] = field(default=())

    @property
    def horizon(self) -> int:
        """Jobs are released before that time, ns."""
        assert self.options.horizon is not None
        return self.options.horizon

    def module_parameters(self) -> str:
        """What the module is loaded with."""
        platform = self.taskset.platform
        policy = 0 if self.options.policy == "job" else POLICIES[self.options.policy]
        costs = (f"vgpu_alpha_ns={platform.alpha}", f"vgpu_theta_ns={platform.theta}")
        return " ".join((f"policy={policy}", f"vgpu_slice_ns={platform.time_slice}", *costs, *self.parameters))

    def description(self) -> str:
        """What runner.c reads."""
        lines = [f"calls {CALLS[self.options.policy]}"]
        if self.hook:
            lines.append(f"hook {self.hook}")
        for task, offset in zip(self.taskset, self.offsets, strict=True):
            jobs = len(range(offset, self.horizon, task.period))
            waiting = (self.options.waiting or task.waiting).value
            lines.append(
                f"task {task.name} {task.priority} {task.gpu_priority or 0} {offset} {task.period} {jobs} {waiting}"
            )
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
        """Whether nothing depends on the order of what happens at the same instant, which no model defines.

        Then moving the releases by nanoseconds moves completions by nanoseconds only.
        """
        exact = self.predicted()
        for jitter in range(6):
            moved = self.predicted(jitter)
            for name, times in exact.items():
                if any(abs(a - b) >= GRAIN // 2 for a, b in zip(times, moved[name], strict=True)):
                    return False
        return True


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
    return [(b - a) * GRAIN for a, b in zip(bounds, bounds[1:], strict=False)]


def _segments(draw: random.Random, demand: int, uses_gpu: bool) -> tuple[Segment, ...]:
    if not uses_gpu:
        return (cpu(demand),)
    eta = draw.randrange(1, 4)
    segments: list[Segment] = []
    for part in _split(draw, demand, eta):
        before, misc, pure = _split(draw, max(part, 10 * GRAIN), 3)
        segments += [cpu(before), gpu(misc, max(pure, GRAIN))]
    return tuple(segments)


def _task(draw: random.Random, index: int, utilization: float, priorities: list[int], policy: str) -> Task:
    period = draw.randrange(10 * MS, 50 * MS, GRAIN)
    demand = max(int(utilization * period) // GRAIN, 20) * GRAIN
    uses_gpu = draw.random() < 0.8
    own = priorities[index]
    other = draw.choice(priorities) if uses_gpu and policy != "job" and draw.random() < 0.5 else None
    waiting = Waiting.BUSY if policy == "job" or draw.random() < 0.5 else Waiting.SUSPEND
    return Task(f"t{index}", 0, own, period, period, _segments(draw, demand, uses_gpu), waiting, other)


def random_case(seed: int, policy: str, alpha: int = 0, theta: int = 0, notify: bool = False) -> Case:
    """A random taskset of two to five real-time tasks, its order of simultaneous events being of no consequence."""
    draw = random.Random(f"{seed} {policy} {alpha} {theta} {notify}")
    while True:
        count = draw.randrange(2, 6)
        total = draw.uniform(0.4, 0.85)
        priorities = draw.sample(range(10, 90), count)
        tasks = tuple(_task(draw, i, total / count, priorities, policy) for i in range(count))
        options = Options(policy=policy, horizon=150 * MS, poll=0 if notify else MS)
        case = Case(
            f"{policy}{'-notify' if notify else ''}-{alpha}-{theta}-{seed}",
            Taskset(Platform(1, alpha=alpha, theta=theta), tasks),
            options,
            tuple(draw.randrange(0, 10 * MS, GRAIN) for _ in tasks),
        )
        if policy == "job":
            case = replace(case, hook=f"gpurt policy job {'--notice notify' if notify else '--notice poll --period 1ms'}")
        if case.is_stable():
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
