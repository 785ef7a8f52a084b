# SPDX-License-Identifier: GPL-2.0
"""Simulation of a taskset in virtual time, with the same compiled core that ships (docs/simulator.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from analysis.model import (
    POLICIES,
    GpuSegment,
    Intensity,
    Partition,
    Platform,
    PolicyFacts,
    Protocol,
    Resource,
    Sharing,
    Task,
    Taskset,
    Waiting,
)
from analysis.model.callbacks import Callback, Order
from analysis.model.fold import units_of
from analysis.model.platform import ISOLATED, TURNS
from analysis.rta.resources import ceiling_of
from analysis.traces.trace import ON_GPU, TIMED, About, Event, Kind, Trace, costs_of, placed_of, traced_times
from gpurt._gpurt import ffi, lib
from gpurt.enums import Form, meant_by, numbered
from gpurt.types import CData
from gpurt.units import thousandths

EXECUTION: dict[str, int] = {word: getattr(lib, f"GPURT_SIM_{word.upper()}") for word in ("worst", "best", "random")}
LEVELS: dict[str, int] = {word: getattr(lib, f"GPURT_INTERLEAVE_{word.upper()}") for word in ("low", "medium", "high")}
_SEEN = (
    Kind.RELEASE, Kind.COMPLETE, Kind.CPU, Kind.UPDATE, Kind.GPU, Kind.BEGIN, Kind.GRANT, Kind.PREEMPT, Kind.RESUME,
    Kind.END, Kind.COMMIT,
)  # fmt: skip
_KINDS = {number: kind for kind, number in numbered("GPURT_SIM", _SEEN).items()}
INTENSITIES = numbered("GPURT_INTENSITY", Intensity)
ORDERS = numbered("GPURT_SIM", Order)
PROTOCOLS = numbered("GPURT_SIM", Protocol)
#: The longest virtual time, ns: the sum of two fits into 63 bits.
MAX_VIRTUAL_NS = 2**62
MAX_SIMULATED_STEPS = 10**9


class SimulationError(ValueError):
    """The request cannot be simulated."""


class SuspensionError(SimulationError):
    """A task suspends itself under policy `job`, where only tasks that wait busily can be simulated."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observations of one task, times in ns.  ``worst``: its MORT, of the job released at ``worst_release``.

    ``dropped``: the number of misses by jobs that never ran, because the simulator had no room for more pending jobs.
    """

    jobs: int
    finished: int
    misses: int
    worst: int
    worst_release: int
    total: int
    dropped: int = 0

    @property
    def mean(self) -> float:
        """Mean response time of the finished jobs, ns; 0 if there are none."""
        return self.total / self.finished if self.finished else 0.0


@dataclass(frozen=True)
class Simulation:
    """The observations of each task, and the trace if requested; ``chains``: the longest times of each chain, ns."""

    tasks: Mapping[str, Observed]
    trace: Trace | None = None
    chains: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def full(self) -> list[str]:
        """A sentence on each task that had more pending jobs than the simulator has room for."""
        return [
            f"{name}: {seen.dropped} of its jobs never ran, for {lib.GPURT_SIM_BACKLOG} others were pending: what is "
            "seen of other tasks is too little" for name, seen in self.tasks.items() if seen.dropped
        ]  # fmt: skip

    @property
    def missed(self) -> list[str]:
        """Tasks with at least one deadline miss."""
        return [name for name, seen in self.tasks.items() if seen.misses]


#: Places of critical sections in CPU segments: how much of the rest of a segment comes before them.
PLACES: dict[str, Callable[[int], int]] = {
    "begin": lambda _: 0, "middle": lambda rest: rest // 2, "end": lambda rest: rest,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """How to simulate.

    ``waiting`` overrides every task's own mode, and ``form`` every task's form under `boosted`.
    ``horizon``: jobs are released before that time, ns; by default 20 times the longest period.  ``poll``: the period
    with which policy `job` looks, ns; 0: it is notified at once.  ``contention``: False: GPU work takes the taskset's
    times, which contain all possible conflicts.  True: GPU work takes its time without conflicts, and each conflict
    slows it down while it lasts, by a factor rounded down to thousandths (kmod/core/vgpu.h, whole.h).
    ``sections``: the place of critical sections in CPU segments, of PLACES; at the end, they are in the last segments.
    """

    policy: str = "segment"
    waiting: Waiting | None = None
    execution: str = "worst"
    sporadic: bool = False
    horizon: int | None = None
    poll: int = 1_000_000
    job_cpu: int = 0
    seed: int = 0
    form: Form | None = None
    contention: bool = False
    sections: str = "begin"

    @property
    def rules(self) -> PolicyFacts:
        """The facts of its policy."""
        return POLICIES[self.policy]


def simulate(
    taskset: Taskset,
    options: Options = Options(),
    offsets: Sequence[int] | None = None,
    events: int = 0,
) -> Simulation:
    """One run from the given first releases (all at 0 unless given), with room for ``events`` trace events.

    Raises SimulationError for a request that cannot be simulated: times too long, self-suspension under `job`.
    """
    call = SimulatorCall(taskset, options, offsets)
    buffer = ffi.new("struct gpurt_sim_event[]", events) if events else ffi.NULL
    used = ffi.new("u64 *")
    _check(
        lib.gpurt_simulate(call.config, call.tasks, len(taskset), call.segments, call.stats, buffer, events, used)
    )
    trace = None
    if events:
        trace = _trace(taskset, options, buffer, min(used[0], events), used[0] - min(used[0], events))
    return Simulation(call.observed(), trace, call.longest())


def worst_over_offsets(
    taskset: Taskset,
    options: Options = Options(),
    runs: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """The worst of each task over ``runs`` runs: first all released at 0, then at random offsets in their periods.

    The same ``options.seed`` gives the same result.  ``progress`` is called with the number of runs done.  Raises
    SimulationError.
    """
    call = SimulatorCall(taskset, options, None)
    step = max(1, runs // 100) if progress else runs
    for start in range(0, runs, max(step, 1)):
        count = min(step, runs - start)
        _check(
            lib.gpurt_simulate_offsets(
                call.config, call.tasks, len(taskset), call.segments, call.stats, start, count
            )
        )
        if progress:
            progress(start + count)
    return Simulation(call.observed(), chains=call.longest())


class SimulatorCall:
    """The C view of a taskset and options."""

    def __init__(self, taskset: Taskset, options: Options, offsets: Sequence[int] | None) -> None:
        _validate(taskset, options, offsets)
        self.taskset = taskset
        slows = options.contention
        alone = [_alone(task, taskset.platform) if slows else task for task in taskset]
        parts = [_segments(task, taskset, options.sections) for task in alone]
        flat = [segment for part in parts for segment in part]
        self.segments: CData = ffi.new("struct gpurt_sim_segment[]", flat)
        self.tasks: CData = ffi.new("struct gpurt_sim_task[]", len(taskset))
        numbers = {task.name: number for number, task in enumerate(taskset, 1)}
        first, shared, threads, processes = 0, _shared(taskset), list(taskset.threads), list(taskset.processes)
        takers = _takers(taskset)
        for index, task in enumerate(taskset):
            waiting = options.waiting or task.waiting
            form = task.form_in(waiting) if options.form is None else options.form
            home = task.partition
            self.tasks[index] = {
                "cpu": task.cpu, "part": taskset.part_of(task),
                "priority": task.priority, "gpu_priority": task.segment_priority,
                "busy": waiting.spins, "form": int(form),
                "period": task.period, "deadline": task.deadline, "jitter": task.jitter,
                "max_period": task.max_period or 0,
                "offset": offsets[index] if offsets else 0,
                "first": first, "count": len(parts[index]),
                "slice": _slice(task, taskset),
                "level": LEVELS[home.interleave or "low"] if home else LEVELS["low"],
                "shared": shared.get(task.name, 0),
                "process": processes.index(task.process or "") + 1 if _together(task, taskset) else 0,
                "intensity": INTENSITIES[task.intensity] if slows and task.intensity and not task.best_effort
                else lib.GPURT_INTENSITY_NONE,
                "conflict": _factor(task.conflict, f"{task.name}: conflict") if slows else lib.GPURT_FACTOR_ONE,
                **_served(task, threads), "turns": task.name in takers,
                "by_deadline": home is not None and home.shared is Sharing.DEADLINE,
                **_forked(task, taskset, numbers),
            }  # fmt: skip
            first += len(parts[index])
        platform = taskset.platform
        horizon = options.horizon if options.horizon is not None else default_horizon(taskset)
        self.parts: CData = ffi.new(
            "struct gpurt_sim_part[]", [_part(part, platform, options.policy) for part in taskset.parts]
        )
        self.resources: CData = ffi.new("struct gpurt_sim_resource[]", [
            {"protocol": PROTOCOLS[one.protocol], "ceiling": ceiling_of(one, taskset)} for one in taskset.resources
        ])  # fmt: skip
        at = {name: number - 1 for name, number in numbers.items()}
        links = [{"from": at[one], "to": at[name]} for name, of in taskset.triggers.items() for one in of]
        self.links: CData = ffi.new("struct gpurt_sim_link[]", links)
        self.chains: CData = ffi.new("struct gpurt_sim_chain[]", [
            {"count": len(one.tasks), "event": one.event, "limit": 2**64 - 1,
             "ages": taskset.tasks[at[one.tasks[0]]].longest_gap is not None} for one in taskset.chains
        ])  # fmt: skip
        self.chain_tasks: CData = ffi.new("u32[]", [at[name] for one in taskset.chains for name in one.tasks])
        self.config: CData = ffi.new("struct gpurt_sim_config *", {
            "parts": self.parts, "part_count": len(self.parts), "resources": self.resources,
            "resource_count": len(taskset.resources), "links": self.links, "link_count": len(links),
            "chains": self.chains, "chain_tasks": self.chain_tasks,
            "chain_count": len(taskset.chains), "cpus": platform.cpus,
            "cross": _factor(platform.cross_contention, "cross_contention") if slows else lib.GPURT_FACTOR_ONE,
            "execution": EXECUTION[options.execution], "job_cpu": options.job_cpu, "sporadic": options.sporadic,
            "boost": options.rules.published,
            "poll": options.poll, "latency": platform.cpu_latency, "yield": _yields(taskset),
            "horizon": horizon, "seed": options.seed % 2**64, "max_events": MAX_SIMULATED_STEPS,
        })  # fmt: skip
        self.stats: CData = ffi.new("struct gpurt_sim_stats[]", max(1, len(taskset)))

    def observed(self) -> dict[str, Observed]:
        """The observations by task."""
        return {
            task.name: Observed(s.jobs, s.finished, s.misses, s.worst, s.worst_release, s.sum, s.dropped)
            for task, s in zip(self.taskset, self.stats, strict=False)
        }

    def longest(self) -> dict[str, tuple[int, int, int]]:
        """The longest reaction, age and age at an output seen, ns, by chain."""
        return {one.name: tuple(raw.longest) for one, raw in zip(self.taskset.chains, self.chains, strict=False)}


def _slice(task: Task, taskset: Taskset) -> int:
    """The slice of its TSG, ns; 0: the platform's.  Begin by yield: long for the most urgent group."""
    if (found := taskset.platform.yields) is None:
        return task.partition.slice or 0 if task.partition else 0
    top = max((t.segment_priority for t in taskset.real_time if t.uses_gpu), default=0)
    return found.long if task.segment_priority == top and not task.best_effort else found.slice


def _takers(taskset: Taskset) -> set[str]:
    """Begin by turns: the tasks whose processes take turns, so that there are as many groups as the file says."""
    platform = taskset.platform
    if platform.begin != TURNS or platform.yields is None:
        return set()
    names = [task.name for task in taskset if task.best_effort and task.uses_gpu]
    return set(names[max(platform.yields.groups - 1, 0) :])


def _yields(taskset: Taskset) -> dict[str, int]:
    """The times of begin by yield; empty if segments begin otherwise.

    An update of three orders takes at most alpha, with a decision after each order and the rest of a switch.
    """
    platform = taskset.platform
    values, step = platform.yields, max(platform.alpha - platform.theta, 0) // 3
    if platform.begin == ISOLATED or values is None:
        return {}
    decision = min(values.decision, step)
    call = (step - decision) // (sum(task.uses_gpu for task in taskset) + 1)
    return {"on": 1, "lazy": values.lazy, "decision": decision, "wake": call, "call": call, "stall": values.stall}


def _forked(task: Task, taskset: Taskset, numbers: Mapping[str, int]) -> dict[str, int]:
    """The task's parent, if it is a worker, and its group, by their numbers from 1 on."""
    fork = taskset.forked.get(task.name)
    if fork is None:
        return {"parent": 0, "group": 0}
    return {"parent": 0 if task.name == fork.task else numbers[fork.task], "group": taskset.forks.index(fork) + 1}


def _part(part: Partition, platform: Platform, policy: str) -> dict[str, int]:
    alpha, theta = platform.costs(part)
    return {
        "policy": int(POLICIES[policy].number), "copy_engine": platform.copy_engine,
        "alpha": 0 if POLICIES[policy].published else alpha, "theta": theta, "slice": part.slice or platform.time_slice,
    }  # fmt: skip


def _factor(value: Fraction, name: str) -> int:
    """A slow-down in thousandths.  Raises SimulationError."""
    try:
        return thousandths(value)
    except ValueError as error:
        raise SimulationError(f"{name} {error}") from None


def _alone(task: Task, platform: Platform) -> Task:
    """The task with the times of its GPU work in its place, without conflicts.  Raises SimulationError."""
    units = units_of(task, platform)
    if not units and task.intensity and max(task.conflict, platform.cross_contention) > 1 and task.uses_gpu:
        raise SimulationError("compute_units is missing in [platform]: times without conflicts are not known")
    segments = tuple(
        replace(s, pure=replace(s.pure, worst=s.scaling.worst(units)))
        if isinstance(s, GpuSegment) and s.scaling and units
        else s
        for s in task.segments
    )
    return replace(task, segments=segments)


def _shared(taskset: Taskset) -> dict[str, int]:
    """By task, the number of the TSG that it shares with others, from 1 on."""
    homes = [home.name for home in taskset.partitions if home.shared]
    return {
        t.name: homes.index(t.partition.name) + 1
        for t in taskset
        if t.uses_gpu and t.partition and t.partition.shared
    }


def _together(task: Task, taskset: Taskset) -> bool:
    """Whether other threads of its process use the GPU, too."""
    return task in taskset.processes.get(task.process or "", ())


def _served(task: Task, threads: Sequence[str]) -> dict[str, int]:
    """The thread that serves the task and others, by its number from 1 on, and the values that decide its order."""
    if task.thread is None or task.thread.name not in threads:
        return {"thread": 0, "order": 0, "rank": 0, "timer": 0}
    return {
        "thread": threads.index(task.thread.name) + 1, "order": ORDERS[task.thread.order], "rank": task.rank,
        "timer": task.callback is Callback.TIMER,
    }  # fmt: skip


def default_horizon(taskset: Taskset) -> int:
    """20 times the longest period, ns."""
    return 20 * max((task.period for task in taskset), default=0)


def _segments(task: Task, taskset: Taskset, place: str) -> list[dict[str, int]]:
    """The pieces of its segments, and the piece in which it starts its workers, if it has any."""
    fork = taskset.forked.get(task.name)
    if fork is None or fork.task != task.name:
        return _pieces(task, taskset.resources, place)
    before, after = task.segments[: fork.after], task.segments[fork.after + fork.hold :]
    return [
        *_pieces(replace(task, segments=before), taskset.resources, place),
        {**_piece(0, 0, 0), "gpu": int(fork.hold), "fork": 1},
        *_pieces(replace(task, segments=after), taskset.resources, place),
    ]


def _pieces(task: Task, resources: Sequence[Resource], place: str) -> list[dict[str, int]]:
    """The pieces of its segments; a section of a resource is a piece, in a CPU segment that has room for it.

    Raises SimulationError if sections do not fit into CPU segments.
    """
    sections = sorted(
        (-section.time, number) for number, one in enumerate(resources, 1) for section in one.sections
        if section.task == task.name for _ in range(section.times)
    )  # fmt: skip
    found: list[list[dict[str, int]]] = []
    for s in task.segments[:: -1 if place == "end" else 1]:
        if isinstance(s, GpuSegment):
            found.append([{
                "cpu_worst": s.misc.worst, "cpu_best": s.misc.best, "ready": s.ready or 0,
                "gpu_worst": s.pure.worst, "gpu_best": s.pure.best, "gpu": 1, "resource": 0, "fork": 0,
            }])  # fmt: skip
            continue
        left, held = s.time.worst, []
        for one in list(sections):
            if -one[0] <= left:
                sections.remove(one)
                left += one[0]
                held.append(one)
        least = s.time.best - min(s.time.best, left)  # best case of its sections together
        pieces = []
        for time, number in held:
            pieces.append(_piece(-time, min(least, -time), number))
            least -= min(least, -time)
        before = PLACES[place](left) if held else 0
        rest, best = left - before, min(s.time.best, left)
        found.append([
            *([_piece(before, min(best, before), 0)] if before else []), *pieces,
            *([_piece(rest, best - min(best, before), 0)] if rest or not before else []),
        ])  # fmt: skip
    if sections:
        raise SimulationError(f"the critical sections of {task.name} do not fit into its CPU segments one by one")
    return [piece for pieces in found[:: -1 if place == "end" else 1] for piece in pieces]


def _piece(worst: int, best: int, resource: int) -> dict[str, int]:
    return {"cpu_worst": worst, "cpu_best": best, "gpu_worst": 0, "gpu_best": 0, "gpu": 0, "resource": resource,
            "fork": 0}


def _validate(taskset: Taskset, options: Options, offsets: Sequence[int] | None) -> None:
    if options.policy not in POLICIES or options.rules.units:
        there = f"{', '.join(POLICIES)}{meant_by(options.policy, POLICIES)}"
        raise SimulationError(f"no policy is called {options.policy!r}; there are {there}")
    if options.execution not in EXECUTION:
        raise SimulationError(f"execution is one of {', '.join(EXECUTION)}, not {options.execution!r}")
    horizon = options.horizon if options.horizon is not None else default_horizon(taskset)
    longest = max([horizon, *(max(task.period, task.jitter) for task in taskset), *(offsets or [])])
    if longest > MAX_VIRTUAL_NS // 4 or horizon < 0 or min(offsets or [0]) < 0:
        raise SimulationError("times, and 20 times the longest period, must be below 2^60 ns to be simulated")
    if offsets is not None and len(offsets) != len(taskset):
        raise SimulationError(f"{len(offsets)} offsets for {len(taskset)} tasks")
    if not 0 <= options.job_cpu < taskset.platform.cpus:
        raise SimulationError(f"the kernel thread's CPU {options.job_cpu} is not one of the platform")
    if taskset.platform.begin != ISOLATED:
        others = taskset.partitions or taskset.forks or taskset.processes or not options.rules.yields
        if others or taskset.platform.yields is None:
            why = "is simulated under policy segment only, without partitions, workers and processes of several threads"
            raise SimulationError(f"begin by yield {why if others else 'needs the table yield in [platform]'}")
    for fork in taskset.forks:
        if not options.rules.workers:
            raise SimulationError(f"{fork.task} has workers, which are simulated under segment and boosted only")
        for task in taskset:
            if task.name in fork.members and (options.waiting or task.waiting).spins:
                raise SimulationError(f"{task.name} is in a group and waits busily: such a group may wait for ever")
    for name in taskset.processes:
        if not options.rules.processes:
            why = "several threads use the GPU, which is simulated under segment and timesliced only"
            raise SimulationError(f"process {name}: {why}")
    for name in taskset.threads:
        if options.rules.jobs:
            raise SimulationError(f"thread {name} serves several tasks, which cannot be simulated under policy job")
    if options.contention and taskset.time_partitioned:
        raise SimulationError("what conflicts between partitions in time slow down is not known: none is counted")
    for task in taskset:
        if options.rules.jobs and task.uses_gpu and not task.best_effort and not task.spins(options.waiting):
            raise SuspensionError(
                f"{task.name}: policy job needs busy waiting, for a suspended task looks finished to the kernel thread"
            )


def _check(status: int) -> None:
    if status == -lib.GPURT_SIM_ETIME:
        raise SimulationError(f"gave up after {MAX_SIMULATED_STEPS} steps; the periods differ too much")
    if status == -lib.GPURT_SIM_ENOMEM:
        raise MemoryError
    if status:
        raise SimulationError("the simulator refused the taskset")


def _trace(taskset: Taskset, options: Options, buffer: CData, used: int, lost: int) -> Trace:
    names = [task.name for task in taskset]
    events = []
    for index in range(used):
        raw = buffer[index]
        kind = _KINDS[raw.kind]
        timed = kind in TIMED or kind is Kind.COMPLETE
        known = raw.task >= 0
        on_gpu = kind in ON_GPU
        events.append(
            Event(
                raw.time, kind, names[raw.task] if known else "", raw.job if known else None,
                raw.duration if timed else None, None if on_gpu or raw.where < 0 else raw.where,
                raw.where if on_gpu else None,
            )
        )  # fmt: skip
    events.sort(key=lambda event: event.time)
    if lost:
        events.append(Event(events[-1].time, Kind.LOST, detail=f"{lost} events did not fit"))
    waiting = options.waiting.value if options.waiting else "per task"
    meta = {"source": "simulator", "clock": "virtual", "policy": options.policy, "waiting": waiting,
            "times": traced_times(taskset), "placed": placed_of(taskset), "costs": costs_of(taskset),
            "gpus": str(len(taskset.parts))}  # fmt: skip
    about = {task.name: About(task.priority, task.deadline) for task in taskset}
    horizon = options.horizon if options.horizon is not None else default_horizon(taskset)
    return Trace(meta, tuple(events), about, horizon)
