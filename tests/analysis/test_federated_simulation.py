# SPDX-License-Identifier: GPL-2.0
"""`gpurt simulate --policy federated`: tasks own units, copies go by the core's bus, and no bound is exceeded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rtgpu_sets import EXAMPLE_A, EXAMPLE_B, copy, cpu, fixed, ms, part, task

from analysis.model import Partition, Platform, Task, Taskset, Waiting
from analysis.simulation.federated import Federated
from analysis.simulation.simulate import Options, SimulationError
from analysis.taskset import load as load_file
from analysis.traces.trace import Kind, load_trace, traced_times
from pycontrol import cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/federated.toml"
FEDERATED = Options("federated")


def on(taskset: Taskset, **units: int) -> Taskset:
    """The taskset with units for its tasks."""
    given = [replace(one, partition=Partition(units[one.name])) if one.name in units else one for one in taskset]
    return Taskset(replace(taskset.platform, compute_units=sum(units.values())), tuple(given))


def test_example_a_to_the_ns() -> None:
    """The trace of the specification's 9.2, and a job of t1 in time for the second CPU segment of t2."""
    own = Federated.of(on(EXAMPLE_A, t1=1, t2=1), replace(FEDERATED, horizon=ms(40)))
    trace = own.trace(100)
    assert trace.observed_worst() == {"t1": ms(12), "t2": ms(23.5)}
    assert [(job.job, job.release) for job in trace.responses()["t1"]] == [(0, 0), (1, ms(20))]
    copies = [(e.task, e.time, e.duration) for e in trace.events if e.kind is Kind.COPY]
    assert copies[:4] == [("t1", ms(2), ms(1)), ("t2", ms(5), ms(2)), ("t1", ms(9), ms(1)), ("t2", ms(16.5), ms(2))]
    assert {e.detail for e in trace.events if e.kind is Kind.GPU} == {"1 unit"}
    seen = own.worst_over_offsets(1)
    assert {name: (one.worst, one.jobs, one.misses) for name, one in seen.tasks.items()} == {
        "t1": (ms(12), 2, 0), "t2": (ms(23.5), 1, 0)
    }  # fmt: skip


def test_a_copy_that_has_begun_is_not_preempted() -> None:
    """Both are released at 0: the lower one copies first, and the urgent one waits for all of that copy."""
    system = on(Taskset(Platform(2), (
        task("urgent", 2, 100, 100, cpu(1), part(copy(1), fixed(1))),
        replace(task("low", 1, 100, 100, part(copy(10), fixed(1))), cpu=1),
    )), urgent=1, low=1)  # fmt: skip
    own = Federated.of(system, replace(FEDERATED, horizon=ms(100)))
    assert own.trace(100).observed_worst() == {"urgent": ms(12), "low": ms(11)}
    assert own.bounds()["urgent"] >= ms(12)


def test_the_worst_response_may_be_that_of_any_job() -> None:
    """Only the first job of `low` waits for `high`."""
    system = on(Taskset(Platform(1), (task("high", 2, 300, 300, cpu(5)), task("low", 1, 100, 100, cpu(3)))))
    seen = Federated.of(system, replace(FEDERATED, horizon=ms(300))).worst_over_offsets(1).tasks["low"]
    assert (seen.jobs, seen.worst) == (3, ms(8))


@pytest.mark.parametrize("waiting", [None, Waiting.BUSY])
@pytest.mark.parametrize("execution", ["worst", "random"])
def test_nothing_exceeds_the_bounds_of_its_own_units(waiting: Waiting | None, execution: str) -> None:
    for taskset, units in ((EXAMPLE_A, {"t1": 1, "t2": 2}), (EXAMPLE_B, {"t1": 2, "t2": 1, "t3": 2})):
        options = Options("federated", waiting, execution, sporadic=execution == "random", seed=3)
        own = Federated.of(on(taskset, **units), options)
        bounds, seen = own.bounds(), own.worst_over_offsets(100)
        assert bounds
        for name, bound in bounds.items():
            assert 0 < seen.tasks[name].worst <= bound
            assert seen.tasks[name].finished == seen.tasks[name].jobs > 100


def test_misses_are_counted_also_of_jobs_that_never_begin() -> None:
    overloaded = on(Taskset(Platform(1), (task("t", 1, 10, 10, cpu(30)),)))
    seen = Federated.of(overloaded, replace(FEDERATED, horizon=ms(1000))).worst_over_offsets(1).tasks["t"]
    assert seen.jobs == seen.misses == 100
    assert 30 < seen.finished < 100


def test_each_job_is_released_by_its_own_number_also_while_others_wait() -> None:
    overloaded = on(Taskset(Platform(1), (task("t", 1, 10, 10, cpu(30)),)))
    trace = Federated.of(overloaded, replace(FEDERATED, horizon=ms(60))).trace(100)
    releases = [(event.job, event.time) for event in trace.events if event.kind is Kind.RELEASE]
    assert releases == [(job, ms(10 * job)) for job in range(6)]


def test_no_two_copies_at_once_in_the_command_s_trace(tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    assert cli.run(["simulate", str(EXAMPLE), "--policy", "federated", "--runs", "20", "-o", str(output)]) == 0
    trace = load_trace(output)
    copies = [event for event in trace.events if event.kind is Kind.COPY]
    assert len(copies) > 30
    assert all(before.time + (before.duration or 0) <= after.time for before, after in pairwise(copies))
    tracks = [e["args"]["name"] for e in json.loads(output.read_text())["traceEvents"] if e["name"] == "thread_name"]
    assert {"bus 0", "CPU 0", "GPU 0"} <= set(tracks)


def test_the_command_finds_units_and_compares_with_their_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", str(EXAMPLE), "--policy", "federated", "--runs", "50", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["given"] == {"t1": 2, "t2": 1, "t3": 1}
    assert [said["tasks"][name]["wcrt_ns"] for name in ("t1", "t2")] == [ms(21.95), ms(69)]
    assert all(0 < one["mort_ns"] <= one["wcrt_ns"] for one in said["tasks"].values())


def test_chunks_bound_what_a_lower_copy_delays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, parts, file = [], [], tmp_path / "chunks.toml"
    file.write_text(EXAMPLE.read_text().replace("[platform]", '[platform]\nbus_chunk = "500us"'))
    for found, path in ((whole, EXAMPLE), (parts, file)):
        assert cli.run(["simulate", str(path), "--policy", "federated", "--runs", "50", "--json"]) == 0
        found += [one["wcrt_ns"] for one in json.loads(capsys.readouterr().out)["tasks"].values()]
    assert parts[0] < whole[0]
    system = replace(EXAMPLE_A, platform=replace(EXAMPLE_A.platform, bus_chunk=ms(0.5)))
    own = Federated.of(on(system, t1=1, t2=1), replace(FEDERATED, horizon=ms(40)))
    lengths = {event.duration for event in own.trace(100).events if event.kind is Kind.COPY}
    assert lengths == {ms(0.5)}


def test_other_policies_say_that_they_have_no_bus(capsys: pytest.CaptureFixture[str]) -> None:
    def notes(file: Path, policy: str) -> list[str]:
        cli.run(["simulate", str(file), "--policy", policy, "--runs", "1", "--json"])
        return list(json.loads(capsys.readouterr().out)["notes"])

    assert ["without a bus" in one or "no bus" in one for one in notes(EXAMPLE, "segment")] == [True]
    assert ["without a best case" in one for one in notes(EXAMPLE, "federated")] == [True]


def test_units_are_not_found_for_a_time_on_one_number_of_units(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """8 ms on all four units may be 32 on one; with units of its own the task's time is that on them."""
    file, why = tmp_path / "plain.toml", "a has a GPU time on one number of units"
    text = (
        "[platform]\ncpus = 1\npolicy = 'federated'\nepsilon = '0ms'\ncompute_units = 4\n"
        "[[task]]\nname = 'a'\ncpu = 0\npriority = 1\nperiod = '10ms'\nsegments = [{ misc = '0ms', gpu = '8ms' }]\n"
    )
    for given in ("", "partition = { compute_units = 3 }\n"):
        file.write_text(text.replace("period", f"{given}period"))
        for command, no in ("analyze", 1), ("margins", 1), ("simulate", 2):
            code = cli.run([*command.split(), str(file)])
            assert (code, why in "".join(capsys.readouterr())) == ((0, False) if given else (no, True)), command
        assert (cli.run(["plan", "units", str(file)]), why in capsys.readouterr().out) == (1, True)


def two(**change: int) -> Taskset:
    """Two tasks with kernels, of which the second one differs."""
    second = task("t2", 1, 100, 100, part(copy(1), fixed(1)))
    return on(Taskset(Platform(1), (task("t1", 2, 100, 100, part(fixed(1))), replace(second, **change))), t1=1, t2=1)


def many() -> Taskset:
    return Taskset(Platform(1), tuple(task(f"t{i}", 1 + i % 99, 100, 100, cpu(1)) for i in range(100)))


def real_time_of_the_case_study() -> Taskset:
    """The case study without its best-effort tasks."""
    whole = load_file(ROOT / "examples/case-study.toml").taskset
    return replace(whole, tasks=whole.real_time)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: two(priority=2), "equal priority"),
        (lambda: two(waiting=Waiting.BUSY), "in one way"),
        (lambda: two(gpu_priority=7), "GPU priority"),
        (many, "100 tasks"),
        (lambda: load_file(ROOT / "examples/case-study.toml").taskset, "best effort and has kernels"),
        (real_time_of_the_case_study, "has a GPU time on one number of units"),
        (lambda: Taskset(Platform(1), (task("t", 1, 100, 100, part(fixed(1))),)), "need 1 units"),
    ],
)
def test_what_cannot_be_simulated_is_refused(make: Callable[[], Taskset], why: str) -> None:
    with pytest.raises(SimulationError, match=why):
        Federated.of(make(), FEDERATED)


def test_tasks_without_kernels_need_no_units() -> None:
    plain: Task = task("t", 1, 100, 100, cpu(2), part(copy(3)), cpu(1))
    own = Federated.of(Taskset(Platform(1), (plain,)), FEDERATED)
    assert own.given == {}
    assert own.worst_over_offsets(3).tasks["t"].worst == own.bounds()["t"] == ms(6)


def test_a_trace_is_of_the_file_that_was_simulated() -> None:
    """Also where CPU segments of 0 ns count as 1 ns."""
    own = on(Taskset(Platform(1), (task("t", 1, 20, 20, cpu(1), part(fixed(2)), cpu(0), part(fixed(1))),)), t=1)
    assert Federated.of(own, replace(FEDERATED, horizon=ms(20))).trace(100).meta["times"] == traced_times(own)
