# SPDX-License-Identifier: GPL-2.0
"""Contention within and across partitions: the simulator and the emulator against the naive model, and the bounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from builders import MS, gpu, ms, task, taskset
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.model import CpuSegment, GpuSegment, Intensity, Kernel, Partition, Platform, Sharing, Span, Task, Taskset
from analysis.model.conflicts import Neighbours
from analysis.simulation.simulate import INTENSITIES, Options, SimulationError, simulate
from analysis.taskset.file import load
from gpurt._gpurt import ffi, lib
from gpurt.enums import Policy
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.whole import alike

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
from divided import Divided, Part
from effort import tries

A, B, C = Partition(4, name="a"), Partition(4, name="b"), Partition(4, name="c")
DYNAMIC = Options(policy="timesliced", horizon=1, contention=True)
KINDS = st.sampled_from([None, Intensity.COMPUTE, Intensity.MEMORY, Intensity.MEMORY])
FACTORS = st.sampled_from([1000, 1500, 2300, 7919, 64000]) | st.integers(1000, 3000)
#: Tasks: partition, work, when it begins, intensity, factor.
TASKS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 14), st.integers(0, 12), KINDS, FACTORS), min_size=1, max_size=7
)
COSTS = {"slice_": st.integers(1, 6), "theta": st.integers(0, 3), "cross": FACTORS}


def model(tasks: list[Any], slice_: int, theta: int, cross: int) -> list[int]:
    """When the work of each task is done, by the naive model."""
    divided = Divided([Part(slice_, theta, 0) for _ in range(3)], cross)
    done: dict[int, int] = {}
    while len(done) < len(tasks):
        for index, (part, work, begin, kind, factor) in enumerate(tasks):
            if begin == divided.now:
                divided.submit(part, index, work, INTENSITIES.get(kind, lib.GPURT_INTENSITY_NONE), factor)
        divided.step()
        done = {client: when for _, client, _, when in divided.done}
    return [done[index] for index in range(len(tasks))]


@settings(max_examples=tries(80), deadline=None)
@given(tasks=TASKS, **COSTS)
def test_the_simulator_is_as_the_model(tasks: list[Any], slice_: int, theta: int, cross: int) -> None:
    tasks = sorted(tasks, key=lambda one: one[2])  # the model has them wait in the order in which they come
    assert simulated(tasks, slice_, theta, cross) == model(tasks, slice_, theta, cross)


def simulated(tasks: list[Any], slice_: int, theta: int, cross: int) -> list[int]:
    """When the work of each task is done, by the simulator."""
    system = Taskset(
        Platform(len(tasks), 0, theta, slice_, compute_units=12, cross_contention=Fraction(cross, 1000)),
        tuple(
            Task(
                f"t{i}", i, i + 1, 10**6, 10**6, (GpuSegment(Span.exactly(0), Span.exactly(work)),),
                partition=(A, B, C)[part], intensity=kind, conflict=Fraction(factor, 1000),
            )
            for i, (part, work, _, kind, factor) in enumerate(tasks)
        ),
        (A, B, C),
    )  # fmt: skip
    begins = [begin for _, _, begin, _, _ in tasks]
    seen = simulate(system, replace(DYNAMIC, horizon=max(begins) + 1), begins)
    return [seen.tasks[f"t{i}"].worst + begin for i, begin in enumerate(begins)]


class Emulated:
    """The emulator's GPUs with a clock of their own, and a client with a TSG for each task."""

    def __init__(self, shape: Shape, cross: int) -> None:
        self.now, self.done = 0, dict[Any, int]()
        layout = alike(shape, int(Policy.TIMESLICED), 3, (4, 4, 4), cross)
        self.gpus = [
            VirtualGpu(index, one, policy, self.tell, lambda: self.now, whole=whole)
            for index, (one, policy, whole) in enumerate(
                zip(layout.shapes, layout.policies, layout.wholes(), strict=True)
            )
        ]
        self.clients = 0

    def tell(self, _gpu: Any, client: Any, kind: Any, when: int, *_: Any) -> None:
        if kind == lib.GPURT_EVENT_WORK:
            self.done[client.id] = when

    def client(self, gpu: int) -> Any:
        self.clients += 1
        client = self.gpus[gpu].join(self.clients, ffi.NULL, False)
        self.gpus[gpu].open_tsg(client, lambda _number: None)
        return client

    def pass_time(self, until: int) -> None:
        """As the host's loop: whichever GPU has something to do does it."""
        while (due := min(one.times()[0] for one in self.gpus)) <= until:
            self.now = max(self.now, due)
            for one in self.gpus:
                if one.times()[0] <= self.now:
                    one.advance(self.now)
        self.now = until


#: The same in times of which work may be made: a microsecond and more.
LONGER = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1000, 90_000), st.integers(0, 60_000), KINDS, FACTORS),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=tries(60), deadline=None)
@given(tasks=LONGER, slice_=st.integers(1000, 30_000), theta=st.integers(0, 5000), cross=FACTORS)
def test_the_emulator_is_as_the_simulator(tasks: list[Any], slice_: int, theta: int, cross: int) -> None:
    tasks = sorted(tasks, key=lambda one: one[2])
    made = Emulated(Shape(0, theta, slice_), cross)
    flags = {None: 0, Intensity.COMPUTE: lib.GPURT_SUBMIT_COMPUTE, Intensity.MEMORY: lib.GPURT_SUBMIT_MEMORY}
    clients = [made.client(part) for part, *_ in tasks]
    for client, (part, work, begin, kind, factor) in zip(clients, tasks, strict=True):
        made.pass_time(begin)
        call = {"duration_ns": work, "flags": flags[kind], "conflict": factor if kind else 0}
        made.gpus[part].submit(client, ffi.new("struct gpurt_submit *", call))
    made.pass_time(10**9)
    assert [made.done[client.id] for client in clients] == simulated(tasks, slice_, theta, cross)


def conflicting(*tasks: Task, cross: Fraction = Fraction(1)) -> Taskset:
    """Tasks of partitions a, b and c; all are memory intensive."""
    made = taskset(*(replace(one, intensity=Intensity.MEMORY) for one in tasks))
    return replace(
        made, platform=replace(made.platform, compute_units=12, cross_contention=cross), partitions=(A, B, C)
    )


def test_a_bound_for_no_contention_across_partitions_breaks_where_there_is_some() -> None:
    """Alone 6 ms; while the other partition executes, 9 ms, unless that is declared: then 9 ms is what is counted."""
    pair = replace(task("h", 0, 9, 8, gpu(0, 6)), partition=A), replace(task("l", 1, 1, 100, gpu(0, 6)), partition=B)
    options = Options(horizon=1, contention=True)
    assert simulate(conflicting(*pair), options).missed == []
    slowed = simulate(conflicting(*pair, cross=Fraction(3, 2)), options)
    assert slowed.missed == ["h"]
    assert [one.worst for one in slowed.tasks.values()] == [ms(9), ms(9)]


def test_a_preempted_task_slows_the_other_down_while_its_work_is_queued() -> None:
    """l begins at 0 and h at 2, factor 2: h takes 8 ms, l did 2 of 6 before and takes 4 alone from 10 on."""
    high = replace(task("h", 0, 9, 100, gpu(0, 4)), partition=A, conflict=Fraction(2))
    low = replace(task("l", 1, 1, 100, gpu(0, 6)), partition=A, conflict=Fraction(3))
    seen = simulate(conflicting(high, low), Options(horizon=ms(2) + 1, contention=True), [ms(2), 0])
    assert [one.worst for one in seen.tasks.values()] == [ms(8), ms(14)]


def test_best_effort_slows_nobody_down_as_in_the_analyses() -> None:
    high = replace(task("h", 0, 9, 100, gpu(0, 4)), partition=A, conflict=Fraction(2))
    rest = replace(task("l", 1, 0, 100, gpu(0, 6)), partition=A, conflict=Fraction(2))
    other = replace(task("m", 2, 0, 100, gpu(0, 6)), partition=B)
    system = conflicting(high, rest, other, cross=Fraction(2))
    seen = simulate(system, Options(horizon=1, contention=True))
    assert [one.worst for one in seen.tasks.values()] == [ms(4), ms(10), ms(6)]


@pytest.mark.parametrize(
    ("other", "policy", "slowed"),
    [
        (None, "segment", False), ((A, 1, Intensity.MEMORY), "segment", True),
        ((A, 1, Intensity.COMPUTE), "segment", False), ((A, 1, None), "segment", True),
        ((B, 1, Intensity.MEMORY), "segment", False), ((None, 1, Intensity.MEMORY), "segment", True),
        ((A, 0, Intensity.MEMORY), "segment", False), ((A, 0, Intensity.MEMORY), "timesliced", True),
        ((B, 0, Intensity.MEMORY), "timesliced", False),
    ],
)  # fmt: skip
def test_a_task_conflicts_with_others_of_its_intensity_on_its_units(
    other: tuple[Partition | None, int, Intensity | None] | None, policy: str, slowed: bool
) -> None:
    tasks = [replace(task("a", 0, 9, 100, gpu(0, 4)), partition=A, intensity=Intensity.MEMORY, conflict=Fraction(3))]
    if other:
        part, priority, intensity = other
        tasks.append(replace(task("b", 1, priority, 100, gpu(0, 6)), partition=part, intensity=intensity))
    made = taskset(*tasks)
    around = Neighbours(replace(made, platform=replace(made.platform, policy=policy), partitions=(A, B)))
    assert (around.conflict(tasks[0]), around.factor(tasks[0])) == (slowed, 3 if slowed else 1)


FILE = """
[platform]
cpus = 4
compute_units = 12
cross_contention = 1.5
[[partition]]
name = "a"
compute_units = 8
[[partition]]
name = "b"
compute_units = 4
"""
TASK = """
[[task]]
name = "{name}"
cpu = {cpu}
priority = {priority}
period = "{period}us"
partition = "{partition}"
intensity = "{kind}"
conflict = {conflict}
segments = [{{ cpu = "{work}us" }}, {{ misc = "1us", gpu = {{ parallel = "{parallel}us", serial = "{serial}us" }} }}]
"""


@settings(max_examples=tries(60), deadline=None)
@given(
    tasks=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from(["memory", "compute"]), st.sampled_from(["1", "1.2", "2.3", "3"]),
            st.integers(5, 40), st.integers(0, 30), st.integers(1, 10), st.integers(0, 400),
        ), min_size=2, max_size=4,
    ),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_what_happens_takes_no_longer_than_what_is_counted(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[Any], seed: int
) -> None:
    """Each task on a CPU of its own, no update costs: a job is no longer than if conflicts counted all the time.

    One ns more for each GPU segment, and for each job of another task that delays it, where work was slowed down.
    """
    text = FILE + "".join(
        TASK.format(
            name=f"t{i}", cpu=i, priority=len(tasks) - i, period=2000 + 100 * i, partition=partition, kind=kind,
            conflict=conflict, parallel=parallel, serial=serial, work=work,
        )
        for i, (partition, kind, conflict, parallel, serial, work, _) in enumerate(tasks)
    )  # fmt: skip
    path = tmp_path_factory.mktemp("contention") / "tasks.toml"
    path.write_text(text, encoding="utf-8")
    system = load(path).taskset
    offsets = [offset * 1000 for *_, offset in tasks]
    counted = simulate(system, Options(seed=seed), offsets)
    seen = simulate(system, Options(seed=seed, contention=True), offsets)
    highest: set[str] = set()
    for index, (partition, *_) in enumerate(tasks):
        name = f"t{index}"
        if partition not in highest:  # nobody delays it: no anomaly can make it later
            assert seen.tasks[name].worst <= counted.tasks[name].worst + 1
            highest.add(partition)
        alone = Kernel.linear(tasks[index][3] * 1000, tasks[index][4] * 1000).worst(8 if partition == "a" else 4)
        assert seen.tasks[name].worst >= tasks[index][5] * 1000 + alone


def response(own: int, higher: list[tuple[int, int]]) -> int | None:
    """Fixed priorities: the least R = own + sum of ceil(R / T) C, ns; None: more than a millisecond."""
    bound = own
    while bound <= MS:
        more = own + sum(-(-bound // period) * cost for period, cost in higher)
        if more == bound:
            return bound
        bound = more
    return None


@settings(max_examples=tries(60), deadline=None)
@given(
    tasks=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from(["memory", "compute"]), st.sampled_from(["1", "1.2", "2.3", "3"]),
            st.integers(5, 40), st.integers(0, 9), st.integers(1, 10), st.integers(60, 300), st.integers(0, 99),
        ), min_size=2, max_size=6,
    )
)  # fmt: skip
def test_bounds_hold_where_conflicts_come_and_go(tmp_path_factory: pytest.TempPathFactory, tasks: list[Any]) -> None:
    """Tasks of two partitions, each on a CPU of its own; bounds with the times that contain all conflicts.

    The virtual GPU may be one ns later for each segment whose pace changed.
    """
    text = FILE.replace("cpus = 4", "cpus = 6") + "".join(
        TASK.format(
            name=f"t{i}", cpu=i, priority=len(tasks) - i, period=period, partition=partition, kind=kind,
            conflict=conflict, parallel=parallel, serial=serial, work=work,
        )
        for i, (partition, kind, conflict, parallel, serial, work, period, _) in enumerate(tasks)
    )  # fmt: skip
    path = tmp_path_factory.mktemp("bounds") / "tasks.toml"
    path.write_text(text, encoding="utf-8")
    system = load(path).taskset
    seen = simulate(system, Options(contention=True), [offset * 1000 for *_, offset in tasks])
    higher: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for index, one in enumerate(system):
        partition = tasks[index][0]
        bound = response(one.gpu_time + 1, higher[partition])
        higher[partition].append((one.period, one.gpu_time + 1))
        if bound is None or one.cpu_time + bound > one.period:
            break  # its jobs may wait for each other; nothing is said of those below
        assert seen.tasks[one.name].worst <= one.cpu_time + bound


def test_what_cannot_be_known_is_refused() -> None:
    pair = [replace(task(name, 0, 1, 9, gpu(0, 1)), conflict=Fraction(2)) for name in "hl"]
    nowhere = conflicting(*pair)
    without_units = replace(nowhere, platform=replace(nowhere.platform, compute_units=0))
    with pytest.raises(SimulationError, match="compute_units is missing"):
        simulate(without_units, Options(contention=True))
    with pytest.raises(SimulationError, match="cross_contention is 1 to 64 on virtual GPUs, not 65"):
        simulate(conflicting(*pair, cross=Fraction(65)), Options(contention=True))
    shared = Partition(slice=MS, name="p", shared=Sharing.PRIORITY)
    in_time = conflicting(*(replace(one, partition=shared) for one in pair))
    with pytest.raises(SimulationError, match="partitions in time"):
        simulate(in_time, Options(contention=True))


def test_it_is_off_unless_asked_for() -> None:
    pair = [replace(task(name, at, 1 + at, 90, CpuSegment(Span.exactly(MS)), gpu(0, 4)), conflict=Fraction(2),
                    partition=A) for at, name in enumerate("hl")]  # fmt: skip
    slowed = conflicting(*pair, cross=Fraction(2))
    plain = replace(slowed, platform=replace(slowed.platform, cross_contention=Fraction(1)),
                    tasks=tuple(replace(one, intensity=None, conflict=Fraction(1)) for one in slowed))  # fmt: skip
    assert simulate(slowed, Options()).tasks == simulate(plain, Options()).tasks
