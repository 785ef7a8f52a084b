# SPDX-License-Identifier: GPL-2.0
"""The least energy that meets all deadlines, for small instances, with kernels that start at multiples of a tick.

Kernels are moldable and not preempted; units and slots are held while a kernel executes, and copies need neither.  So
the result is also a lower bound for schedulers that hold them longer.  Not regular: to delay a job can pay, so that
every start counts.  The method is a best-first search over (time, jobs left, kernels that run).  The search's lower
bound charges each kernel its units' share of the GPU's busy time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from analysis.model.energy import SpatialSystem

#: States after which the search gives up.
MOST_STATES = 300_000


@dataclass(frozen=True, slots=True)
class Start:
    """A kernel of the optimum: a job of a task on units of a GPU over [start, end)."""

    task: int
    job: int
    gpu: int
    units: int
    start: int
    end: int


@dataclass(frozen=True)
class Optimum:
    """``energy``: active energy, fJ, None if no schedule is known; ``bound``: nothing costs less; ``left_out``: jobs.

    ``proved``: the search ended; then an energy of None says that no schedule on the grid meets all deadlines.
    """

    energy: int | None
    bound: int
    proved: bool
    starts: tuple[Start, ...]
    jobs: int
    left_out: int


@dataclass(frozen=True, slots=True)
class _Way:
    """A job on units of a GPU: kernel length, m (pd - p), and when the kernel may start."""

    gpu: int
    units: int
    length: int
    rate: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _JobWays:
    task: int
    number: int
    ways: tuple[_Way, ...]
    first: int
    last: int
    bound: int


#: The kernels that run on a GPU: (end, units, m (pd - p)) for each.
_Running = tuple[tuple[int, int, int], ...]
#: Time, jobs left as bits, what runs by GPU.
_State = tuple[int, int, tuple[_Running, ...]]


class _Search:
    def __init__(self, system: SpatialSystem, jobs: list[_JobWays], tick: int) -> None:
        self.system, self.jobs, self.tick = system, jobs, tick
        self.busy_rate = [gpu.units * gpu.idle for gpu in system.gpus]

    def bound(self, state: _State) -> int:
        """A lower bound on what is still to pay: M p B is at least M p / L for each unit and time."""
        now, left, running = state
        total = sum(job.bound for index, job in enumerate(self.jobs) if left >> index & 1)
        for gpu, kernels in enumerate(running):
            used = sum(units * (end - now) for end, units, _ in kernels)
            total += sum(rate * (end - now) for end, _, rate in kernels)
            total += self.busy_rate[gpu] * used // self.system.gpus[gpu].limit
        return total

    def dead(self, now: int, left: int) -> bool:
        """Whether a job can no longer meet its deadline."""
        return any(left >> index & 1 and job.last < now for index, job in enumerate(self.jobs))

    def starts(self, state: _State, index: int = 0) -> Iterator[tuple[_State, tuple[tuple[int, _Way], ...]]]:
        """The ways to start some of the jobs that are left, from job ``index`` on, now; also none of them."""
        now, left, running = state
        while index < len(self.jobs) and (not left >> index & 1 or self.jobs[index].first > now):
            index += 1
        if index == len(self.jobs):
            yield state, ()
            return
        yield from self.starts(state, index + 1)
        for way in self.jobs[index].ways:
            kernels, gpu = running[way.gpu], self.system.gpus[way.gpu]
            if not way.first <= now <= way.last or len(kernels) >= gpu.slots:
                continue
            if way.units + sum(units for _, units, _ in kernels) > gpu.limit:
                continue
            more = tuple(sorted((*kernels, (now + way.length, way.units, way.rate))))
            after = (*running[: way.gpu], more, *running[way.gpu + 1 :])
            for found, others in self.starts((now, left & ~(1 << index), after), index + 1):
                yield found, ((index, way), *others)

    def advance(self, state: _State) -> tuple[_State, int]:
        """One tick later, or at the next release if nothing runs, and what that costs."""
        now, left, running = state
        then = now + self.tick
        if not any(running):
            firsts = [job.first for index, job in enumerate(self.jobs) if left >> index & 1]
            then = max([then, *([min(firsts)] if firsts else [])])
        cost = 0
        for gpu, kernels in enumerate(running):
            if kernels:
                cost += self.busy_rate[gpu] * (min(kernels[-1][0], then) - now)
                cost += sum(rate * (min(end, then) - now) for end, _, rate in kernels)
        after = tuple(tuple(one for one in kernels if one[0] > then) for kernels in running)
        return (then, left, after), cost


_Path = tuple["_Path | None", int, tuple[tuple[int, _Way], ...]]


def least_energy(system: SpatialSystem, until: int, tick: int, most: int = MOST_STATES) -> Optimum:
    """The least active energy of all jobs whose deadline is at most ``until``, from first releases at the offsets."""
    jobs, left_out = _jobs(system, until, tick)
    search, numbers = _Search(system, jobs, tick), count()
    begin: _State = (0, (1 << len(jobs)) - 1, ((),) * len(system.gpus))
    best: dict[_State, int] = {begin: 0}
    heap: list[tuple[int, int, int, _State, _Path | None]] = [(search.bound(begin), next(numbers), 0, begin, None)]
    bound = heap[0][0]
    while heap:
        bound, _, paid, state, path = heapq.heappop(heap)
        if not state[1] and not any(state[2]):
            return Optimum(paid, paid, True, _starts(jobs, path), len(jobs), left_out)
        if paid > best[state]:
            continue
        if len(best) > most:
            return Optimum(None, bound, False, (), len(jobs), left_out)
        for chosen, started in search.starts(state):
            after, cost = search.advance(chosen)
            if search.dead(after[0], after[1]) or paid + cost >= best.get(after, paid + cost + 1):
                continue
            best[after] = paid + cost
            entry = (path, state[0], started) if started else path
            heapq.heappush(heap, (paid + cost + search.bound(after), next(numbers), paid + cost, after, entry))
    return Optimum(None, bound, True, (), len(jobs), left_out)


def _jobs(system: SpatialSystem, until: int, tick: int) -> tuple[list[_JobWays], int]:
    found, left_out = [], 0
    for index, task in enumerate(system.tasks):
        for number in range(max(0, -(-(until - task.offset) // task.period))):
            release = task.offset + number * task.period
            if release + task.deadline > until:
                left_out += 1
                continue
            ways = tuple(_ways(system, index, release, tick))
            first, last = min((way.first for way in ways), default=0), max((way.last for way in ways), default=-1)
            bound = min((_least(system, way) for way in ways), default=0)
            found.append(_JobWays(index, number, ways, first, last, bound))
    return found, left_out


def _least(system: SpatialSystem, way: _Way) -> int:
    gpu = system.gpus[way.gpu]
    return way.rate * way.length + gpu.units * gpu.idle * way.units * way.length // gpu.limit


def _ways(system: SpatialSystem, index: int, release: int, tick: int) -> Iterator[_Way]:
    task = system.tasks[index]
    for gpu in task.places:
        kernel, device = task.on(gpu), system.gpus[gpu]
        for units in device.counts:
            length = kernel.time(units)
            first = -(-(release + kernel.copy_in) // tick) * tick
            last = release + task.deadline - kernel.copy_out - length
            if first <= last:
                yield _Way(gpu, units, length, units * (kernel.power - device.idle), first, last)


def _starts(jobs: list[_JobWays], path: _Path | None) -> tuple[Start, ...]:
    found = []
    while path is not None:
        path, now, started = path
        for index, way in started:
            job = jobs[index]
            found.append(Start(job.task, job.number, way.gpu, way.units, now, now + way.length))
    return tuple(sorted(found, key=lambda one: (one.start, one.task)))
