# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted`: the owner of the GPU also has its CPU.  docs/readings/boosted.md, "Boosted", has the proofs.

A task is raised above every normal priority of its CPU, while it owns the GPU or from begin to end (model.Form).  So an
owner never waits for its CPU, and no bound charges the CPU segments of a task on another CPU.  In return, tasks
of lower CPU priority can execute above a task before, between and after its segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from analysis.model import MS, CpuSegment, GpuSegment, Task, Taskset, Waiting
from analysis.rta import wakeups
from analysis.rta.recurrence import Demand, OneAtATime, Shared
from analysis.rta.resources import blocking
from analysis.rta.result import TermKind
from analysis.rta.short import NONE, Short, short
from analysis.rta.system import System, bounded, recurring
from analysis.rta.windows import MAX_GPU_USERS, in_flight, inside, owned, owner

BOOSTED_OWN = "readings: boosted, own"
LOCK = "readings: boosted, the update lock"
BEFORE = "readings: boosted, the previous job"
LOWER = "readings: boosted, lower tasks"
BOOSTED_CPU = "readings: boosted, CPU"
SWITCH = "readings: boosted, switches back"
WINDOWS = "readings: boosted, owners inside segments"
SHORT = "readings: boosted, short suspensions"

#: How long hosts let a thread spin for its turn, ns (kmod/decide/gate.c, userlib/transport_socket.c).  Then the thread
#: sleeps, which the bounds for spinning tasks do not allow.
MAX_SPIN_NS = 20 * MS
#: Whether a task that uses the GPU spins for it.
Spins: TypeAlias = Callable[[Task], bool]


@dataclass(frozen=True)
class Boosted:
    """The formula where ``spins`` says how each task waits; ``fence``: spinning tasks have form FENCE, not OWNER."""

    spins: Spins
    fence: bool = False

    def demands(self, task: Task, system: System) -> list[Demand | Shared]:
        """The demands on a whole job."""
        return _Charges(self, task, system).listed(task.cpu_time, gaps(task, system.taskset))

    def short(self, task: Task, system: System) -> list[Demand | Shared]:
        """The demands on a whole job where tasks above sleep for short times; none if there are no such tasks.

        Only for tasksets in which all tasks suspend themselves.
        """
        charges = _Charges(self, task, system)
        found = short(task, system, charges.outside)
        if not found.inside:
            return []
        return _Charges(self, task, system, found).listed(task.cpu_time, gaps(task, system.taskset))

    def ends(self, task: Task, system: System) -> list[Demand | Shared]:
        """The demands on a job up to the end of its last GPU segment."""
        last = max(i for i, s in enumerate(task.segments) if isinstance(s, GpuSegment))
        cpu = sum(s.time.worst for s in task.segments[:last] if isinstance(s, CpuSegment))
        return _Charges(self, task, system).listed(cpu, task.eta)

    def holds(self, task: Task) -> bool:
        """Whether the task keeps its CPU, raised, while its pure GPU segments execute."""
        return self.spins(task) and not self.fence


SUSPEND = Boosted(lambda task: False)
BUSY = Boosted(lambda task: True)
MIXED = Boosted(lambda task: task.spins())
FENCE = Boosted(lambda task: True, fence=True)


def gaps(task: Task, taskset: Taskset | None = None) -> int:
    """How often a job can be ready outside of its GPU segments.  A CPU segment of length 0 still needs its CPU.

    If a thread serves several tasks, in any order, their jobs count as if none ended with a GPU segment.
    """
    alone = taskset is None or len(taskset.served_with(task)) == 1
    ends = bool(task.segments) and isinstance(task.segments[-1], GpuSegment)
    return task.eta if alone and ends else task.eta + 1


def longest_turn(task: Task, taskset: Taskset, responses: Mapping[str, int]) -> int | None:
    """The longest wait of a begin or end of the task for its turn at the update lock, ns; None: above MAX_SPIN_NS.

    An update may be in progress.  Meanwhile, each decision of a task with at least its GPU priority goes first.
    Each segment of the jobs that are pending in that time makes two decisions (L3).
    ``responses``: the tasks' bounds, ns.
    """
    alpha = taskset.platform.alpha
    others = [t for t in taskset.real_time if t.uses_gpu and t is not task]
    first = [t for t in others if t.segment_priority >= task.segment_priority]
    wait, before = alpha, -1
    while before < wait <= MAX_SPIN_NS:
        before = wait
        wait = alpha + sum(-(-(wait + t.jitter + responses[t.name]) // t.period) * 2 * t.eta * alpha for t in first)
    return wait if wait <= MAX_SPIN_NS else None


def last_segment(task: Task) -> GpuSegment | None:
    """The GPU segment that a job may end with; an empty one only if nothing precedes it.  None if there is no such."""
    last = None
    for segment in reversed(task.segments):
        if isinstance(segment, CpuSegment):
            if segment.time.worst:
                break
            continue
        last = segment
        if segment.misc.worst + segment.pure.worst:
            break
    return last


@dataclass(frozen=True)
class _Charges:
    """The demands on one task, and the values that they share."""

    form: Boosted
    task: Task
    system: System
    short: Short = NONE

    @cached_property
    def lower(self) -> list[Task]:
        """The real-time GPU-using tasks of its CPU with a lower priority.  Best effort is never raised."""
        return [j for j in self.system.lower_on_cpu(self.task) if not j.best_effort]

    @cached_property
    def waiters(self) -> list[Task]:
        """The tasks of its CPU that wait for the GPU: the task itself, and tasks above it that spin."""
        spinning = [h for h in self.system.hpp(self.task) if h.uses_gpu and self.form.spins(h)]
        return [self.task, *spinning] if self.task.uses_gpu else spinning

    @cached_property
    def level(self) -> int | None:
        """The lowest GPU priority of the ``waiters``."""
        return min((p.segment_priority for p in self.waiters), default=None)

    @cached_property
    def windows(self) -> list[tuple[Task, Mapping[str, int] | None]]:
        """By waiter, the time that owners take inside the segments of its job; None: unknown."""
        return [(p, self._inside(p)) for p in self.waiters]

    @cached_property
    def switching(self) -> bool:
        """Whether a lower task spins, raised, while the GPU switches back to it."""
        return any(self.form.holds(j) for j in self.lower)

    @property
    def update(self) -> int:
        """The CPU time of an update, ns; with the switch back, if a lower task spins for that switch, raised."""
        return self.system.epsilon if self.switching else self.system.taskset.platform.alpha

    def listed(self, cpu: int, count: int) -> list[Demand | Shared]:
        """All demands on a job with ``cpu`` ns of CPU time and ``count`` gaps around its segments."""
        return [
            *self._own(cpu),
            *self._before,
            *self._from_all_lower(1 if self.form.spins(self.task) else count + self.short.gaps),
            *(demand for h in self.system.hpp(self.task) for demand in self._from_higher(h)),
            *self._remote(),
            *wakeups.handed(self.task, self.system),
            *blocking(self.task, self.system, count),
        ]

    def _own(self, cpu: int) -> list[Demand]:
        """The task's own demands.  The switch after an end counts only where a lower task spins for it, raised."""
        task, platform = self.task, self.system.taskset.platform
        woken = wakeups.own(task, self.system, Waiting.SUSPEND)
        return [
            Demand(TermKind.OWN, cpu + task.gpu_time - woken, BOOSTED_OWN),
            Demand(TermKind.WAKE_UPS, woken, wakeups.LEMMA),
            Demand(TermKind.UPDATES, (platform.alpha + platform.theta + self.update) * task.eta, BOOSTED_OWN),
            Demand(TermKind.BLOCKING, in_flight(task, self.system) if task.uses_gpu else 0, LOCK),
        ]

    @cached_property
    def _before(self) -> list[Demand]:
        """The end of the previous job: raised, while tasks above that never sleep wait since before the release."""
        task, system = self.task, self.system
        if self.short.gaps:
            amount = self._raised(task, self.short.gaps + 1) if task.uses_gpu else 0
            return [Demand(TermKind.BLOCKING, amount, BEFORE)] if amount else []
        ends = [last for t in system.taskset.served_with(task) if (last := last_segment(t)) is not None]
        waiting = any(h.priority > task.priority and not self._sleeps(h) for h in system.hpp(task))
        if not ends or not waiting:
            return []
        longest = max(last.misc.worst + (last.pure.worst if self.form.holds(task) else 0) for last in ends)
        update = system.epsilon if self.form.spins(task) else self.update
        return [Demand(TermKind.BLOCKING, longest + 2 * update, BEFORE)]

    def _raised(self, task: Task, count: int) -> int:
        """The most CPU time for which ``count`` segments of the task are raised, ns, where all tasks suspend."""
        return count * (max(s.misc.worst for s in task.gpu_segments) + 2 * self.system.taskset.platform.alpha)

    def _sleeps(self, h: Task) -> bool:
        """Whether its thread can sleep while one of its jobs is pending."""
        return self.system.taskset.sleeps(h) and not self.form.spins(h)

    def _from_all_lower(self, count: int) -> Iterator[Demand | Shared]:
        """The demands of tasks below on the CPU.  A thread that serves several is inside one segment at most."""
        grouped: dict[str, list[Demand]] = {}
        for j in self.lower:
            outside = self._from_lower(j, count)
            if self.task.uses_gpu and j.segment_priority >= self.task.segment_priority:
                yield self._either(j, self._wider(owner(j, self.system)), outside)
            elif j.thread and len(self.system.taskset.served_with(j)) > 1:
                grouped.setdefault(j.thread.name, []).append(outside)
            else:
                yield outside
        for name, demands in grouped.items():
            yield OneAtATime(name, demands)

    def _from_lower(self, j: Task, count: int) -> Demand:
        """The demand of a task below, outside of the analysed task's segments: one raised segment in each gap."""
        pieces = [s.misc.worst + (s.pure.worst if self.form.holds(j) else 0) for s in j.gpu_segments]
        update = self.system.epsilon if self.form.spins(j) else self.update
        cap = count * (max(pieces) + 2 * update)
        return self._wider(bounded(TermKind.BLOCKING, j, sum(pieces) + 2 * update * j.eta, cap, LOWER, self.system))

    def outside(self, h: Task) -> int:
        """The CPU time of a job of a task above outside of segments, ns; all of its time if it spins."""
        if not h.uses_gpu:
            return h.cpu_time
        if not self.form.spins(h):
            return h.cpu_time + h.misc_time + 2 * self.update * self.system.updating(h)
        contended = any(other.cpu != h.cpu for other in self.system.gpu_tasks)
        late = self.system.taskset.platform.alpha * h.eta if contended else 0
        return h.cpu_time + owned(h, self.system) + late

    def _from_higher(self, h: Task) -> Iterator[Demand]:
        """The demands of a task of at least the analysed task's priority on the CPU.

        A task above that never sleeps has only the jitters of its release and of short suspensions.
        """
        outside = self.outside(h)
        if not self._sleeps(h) and h.priority > self.task.priority:
            jitter = h.jitter + self.short.from_level(h.priority)
            yield Demand(TermKind.CPU_PREEMPTION, outside, BOOSTED_CPU, h.name, h.period, jitter)
            return
        apart = self._late(h, recurring(TermKind.CPU_PREEMPTION, h, outside, BOOSTED_CPU, self.system))
        if not h.uses_gpu or self.form.spins(h) or self.level is None or h.segment_priority < self.level:
            yield apart
            yield from self._carried(h, 0)
            return
        theta, amount = self.system.taskset.platform.theta, h.cpu_time + owned(h, self.system)
        jitter = self.system.jitter(h, amount - theta)
        whole = Demand(TermKind.CPU_PREEMPTION, amount, BOOSTED_CPU, h.name, h.period, jitter)
        yield self._either(h, self._late(h, whole), apart)
        yield from self._carried(h, theta)

    def _wider(self, demand: Demand) -> Demand:
        """The demand, with jitter for the part that executes before the release where tasks above sleep briefly."""
        return replace(demand, jitter=demand.jitter + self.short.longest) if self.short.inside else demand

    def _late(self, h: Task, demand: Demand) -> Demand:
        """The demand of a task above, with the jitter of ``_wider``, or only others' sleep if h sleeps briefly."""
        if h.name in self.short.inside:
            return replace(demand, jitter=self.short.from_level(h.priority))
        return self._wider(demand)

    def _carried(self, h: Task, switch: int) -> Iterator[Demand]:
        """If h has no jitter: the part of its previous job that executes raised, and the switch after its end."""
        if h.name not in self.short.inside:
            return
        above, last = self.short.above(h.priority), last_segment(h)
        amount = 0
        if above:
            amount = self._raised(h, above + 1)
        elif last and any(not o.uses_gpu and o.priority > h.priority for o in self.system.on_cpu(h.cpu)):
            amount = last.misc.worst + 2 * self.system.taskset.platform.alpha
        yield Demand(TermKind.BLOCKING, amount + switch, SHORT, h.name)

    def _remote(self) -> Iterator[Demand]:
        """The demands of owners on other CPUs: all from GPU priority ``level`` up; of others only the switches back."""
        spun = self.switching or (bool(self._before) and self.form.holds(self.task))
        switch = self.system.taskset.platform.longest_switch if spun else 0
        for w in self.system.gpu_tasks:
            if w.cpu == self.task.cpu:
                continue
            back = replace(owner(w, self.system, switch * w.eta), kind=TermKind.BLOCKING, lemma=SWITCH)
            if self.level is not None and w.segment_priority >= self.level:
                whole = replace(owner(w, self.system), kind=self._kind)
                yield self._either(w, whole, *([back] if back.amount else []))
            elif back.amount:
                yield back

    @property
    def _kind(self) -> TermKind:
        return TermKind.GPU_PREEMPTION if self.task.uses_gpu else TermKind.INDIRECT_DELAY

    def _either(self, one: Task, whole: Demand, *outside: Demand) -> Demand:
        """The demand of an owner: that of all its jobs, or that outside and inside of windows if this is less."""
        parts = list(outside)
        for p, taken in self.windows:
            if p.segment_priority > one.segment_priority:
                continue
            if taken is None:
                return whole
            part = Demand(self._kind, taken[one.name], WINDOWS, one.name)
            if p is not self.task:
                jitter = self.system.jitter(p, 0) if p.priority == self.task.priority else 0
                part = replace(part, period=p.period, jitter=jitter)
            parts.append(part)
        return replace(whole, instead=tuple(parts))

    def _inside(self, p: Task) -> Mapping[str, int] | None:
        """The time that owners take inside the segments of a waiter's job, ns by task; None: unknown."""
        if p is self.task:
            return inside(p, self.system)
        if len(self.system.gpu_tasks) > MAX_GPU_USERS:
            return None
        level = self.level if self.system.assumed else p.segment_priority
        return self.system.once(f"inside {p.name} {level}", lambda: inside(p, self.system, level))
