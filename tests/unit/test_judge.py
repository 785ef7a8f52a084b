# SPDX-License-Identifier: GPL-2.0
"""The judge of observed jobs: each finding from hand-made events, and none in simulations of what files describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from placed import COUPLED

from analysis import taskset
from analysis.answers.registry import find_test
from analysis.model import Chain, Waiting
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import TasksetFile
from analysis.traces.trace import Event, Kind, Trace, load_trace
from gpurt.enums import EventKind
from pycontrol.link.control import EventRecord
from pycontrol.link.events import to_events
from pycontrol.observe.judge import subject
from pycontrol.observe.judge.check import judged, notes, why_no
from pycontrol.observe.judge.due import MIN_ENTRIES_SWEPT
from pycontrol.observe.judge.finding import Finding, Sort, What
from pycontrol.observe.judge.judge import JUMP, Judge
from pycontrol.observe.judge.seen import MOST_OPEN
from pycontrol.observe.judge.strangers import MAX_STRANGERS
from pycontrol.observe.observed import observed_data
from pycontrol.observe.trace.record import assemble_events

MS = 1_000_000
#: The facts in the head of a recording.
META = {"source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": "segment", "gpus": "1"}
FILE = """[platform]
cpus = 2
alpha = "200us"
theta = "100us"
policy = "segment"
[[task]]
name = "fast"
cpu = 0
priority = 20
period = "10ms"
segments = [{ cpu = "1ms" }, { misc = "0.5ms", gpu = "2ms" }]
[[task]]
name = "slow"
cpu = 0
priority = 10
period = "100ms"
segments = [{ cpu = "2ms" }, { misc = "1ms", gpu = "10ms" }, { misc = "0ms", gpu = "1ms" }]
command = ["/opt/slow"]
[[task]]
name = "idle"
cpu = 1
priority = 0
period = "1s"
segments = [{ misc = "1ms", gpu = "1ms" }]
"""


@pytest.fixture
def file(tmp_path: Path) -> TasksetFile:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    return taskset.load(path)


def job(task: str, number: int, release: int, end: int, executed: int | None = None) -> list[Event]:
    """A job as a program tells of it, with times in us."""
    release, end = release * 1000, end * 1000
    return [Event(release, Kind.RELEASE, task, number), Event(release, Kind.START, task, number, 0),
            Event(end, Kind.COMPLETE, task, number, end - release, executed=executed)]  # fmt: skip


def segment(task: str, begin: int, end: int) -> list[Event]:
    """A segment that owns the GPU at once, with times in us."""
    return [Event(at * 1000, kind, task, gpu=0) for kind, at in
            ((Kind.BEGIN, begin), (Kind.GRANT, begin), (Kind.END, end))]  # fmt: skip


def found(judge: Judge, events: Iterable[Event], priority: int | None = None) -> list[Finding]:
    ordered = sorted(events, key=lambda event: event.time)
    return [one for event in ordered for one in judge.feed(event, priority)]


def kinds(findings: Iterable[Finding]) -> list[tuple[What, str, int | None]]:
    return [(one.what, one.task, one.job) for one in findings]


def test_what_the_file_describes_is_no_finding(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    waits = Event(MS, Kind.BEGIN, "fast", gpu=0)
    events = [*job("fast", 0, 0, 8000, 1500 * 1000), waits, *segment("fast", 5000, 7500)[1:],
              *job("fast", 1, 10_000, 11_000)]  # fmt: skip
    assert found(judge, events) == []
    seen = judge.tally("fast")
    assert (seen.jobs, seen.mort, seen.misses, seen.segments, seen.longest) == (2, 8 * MS, 0, 1, 2500 * 1000)


def test_a_program_that_ends_in_the_middle_of_a_recording_is_missed(file: TasksetFile) -> None:
    """Jobs of slow go on, which fast would have delayed."""
    for gone, missed in ((19, True), (91, False)):
        events = [*job("fast", 0, 0, 8000), Event(gone * MS, Kind.GONE, "fast", gpu=0), *job("slow", 0, 0, 40_000),
                  *job("slow", 1, 100_000, 140_000)]  # fmt: skip
        trace = Trace(META, tuple(sorted(events, key=lambda event: event.time)), {}, 150 * MS)
        assert ("jobs of fast are missing" in why_no(judged(trace, file))) == missed


def test_each_segment_of_a_recording_is_held_against_its_own_priority(file: TasksetFile, tmp_path: Path) -> None:
    """The highest one of the trace was right."""
    first = EventRecord(EventKind.BEGIN, 10**12, 0, 3, 77, "fast", 20, None, 0, 0)
    later = replace(first, priority=5, time_ns=10**12 + 9 * MS)
    ended = replace(first, kind=EventKind.END, time_ns=10**12 + MS)
    assemble_events([first, ended, later], META).save(tmp_path / "run.json")
    findings = judged(load_trace(tmp_path / "run.json"), file).findings
    said = "fast: its segment has GPU priority 5, the file says 20"
    assert [one.line() for one in findings if one.what is What.PRIORITY] == [said]


def timed(judge: Judge, count: int, executed: int) -> list[str]:
    """What is found of jobs of 3 ms, each with a segment that owns the GPU for 2.5 ms; ``executed`` in us."""
    events: list[Event] = []
    for n, at in enumerate(range(0, count * 10_000, 10_000)):
        events += [*job("fast", n, at, at + 3000, executed * 1000), *segment("fast", at, at + 2500)]
    return [one.text for one in found(judge, events) if one.what is What.WAITING]


def test_a_thread_that_spins_though_it_is_said_to_suspend(file: TasksetFile) -> None:
    (told,) = timed(Judge(file, {}), 3, 2900)  # once
    assert told.startswith("its thread slept for 0.1 ms, and its GPU work took ")
    assert told.endswith(" ms at least: it waits busily, and the file says that it suspends")
    assert timed(Judge(file, {}), 3, 500) == []
    assert timed(Judge(file, {}, policy="timesliced"), 3, 2900) == []


@pytest.mark.parametrize(("executed", "unsure"), [(500, set()), (2500, {"fast"})])
def test_a_thread_that_may_have_spun_in_its_segment_and_slept_elsewhere(
    file: TasksetFile, executed: int, unsure: set[str]
) -> None:
    """It sleeps for as long as its GPU work takes, of a job of 6 ms: nothing says when."""
    events = [*job("fast", 0, 0, 6000, executed * 1000), *segment("fast", 0, 2500)]
    judge = Judge(file, {})
    found(judge, events)
    assert judge.slept.unsure == unsure


@pytest.mark.parametrize(("owned", "long"), [(30_000, False), (90_000, True)])
def test_a_segment_that_all_other_work_cannot_have_delayed(tmp_path: Path, owned: int, long: bool) -> None:
    """How much less delays an owner that waits for a mutex is not known."""
    path = tmp_path / "tasks.toml"
    section = '{ task = "slow", time = "1ms" }, { task = "fast", time = "0.5ms" }'
    path.write_text(f'{FILE}[[resource]]\nname = "m"\nprotocol = "ceiling"\nsections = [{section}]\n')
    events = [*job("fast", 0, 0, 95_000), *segment("fast", 0, owned)]
    told = found(Judge(taskset.load(path), {}), events)
    assert [one.what for one in told if one.what is What.SEGMENT] == [What.SEGMENT] * long


@pytest.mark.parametrize("begin", ["yield", "turns"])
def test_lengths_of_segments_that_begin_by_yield(tmp_path: Path, begin: str) -> None:
    """Others execute beside one until they are off: for 1.4 ms here, and an update."""
    path = tmp_path / "tasks.toml"
    measured = 'yield = { slice = "0.5ms", groups = 2, decision = "50us", stall = "0us" }'
    path.write_text(FILE.replace('"segment"', f'"segment"\nbegin = "{begin}"\n{measured}'))
    file = taskset.load(path)
    for owned, long in ((4100, False), (4300, True)):
        events = [*job("fast", 0, 0, 8000), *segment("fast", 0, owned)]
        assert kinds(found(Judge(file, {}), events)) == [(What.SEGMENT, "fast", 0)] * long
    for seed in range(5):
        options = Options("segment", None, "random", horizon=10**9, seed=seed)
        trace = simulate(file.taskset, options, events=20_000).trace
        assert trace
        result = judged(trace, file)
        assert [one.line() for one in result.findings if one.what.sort is not Sort.PROMISE] == []
        assert all(line.segments for line in result.lines)


def test_a_thread_that_is_off_its_cpu_outside_its_segments(file: TasksetFile) -> None:
    """No bound has a thread that sleeps there; a more urgent task may have its CPU."""
    judge = Judge(file, {})
    calm = [*job("fast", 0, 0, 4200, 1500 * 1000), *segment("fast", 0, 2500)]
    assert found(judge, calm) == []
    events = [one for n, at in enumerate((20_000, 30_000, 40_000, 50_000), 1)
              for one in (*job("fast", n, at, at + 8000, 1500 * 1000), *segment("fast", at, at + 2500))]  # fmt: skip
    (told,) = found(judge, events)
    text = "was off its CPU for 3.4 ms outside its GPU segments, of which other tasks of the file take 2.4 ms at most"
    assert (told.what, told.job, text in told.text) == (What.WAITING, 3, True)
    asleep = found(judge, [*job("slow", 1, 100_000, 190_000, 3000 * 1000), *segment("slow", 100_000, 110_000)])
    assert kinds(asleep) == [(What.WAITING, "slow", 1)]
    # 12 ms outside, of which it executed 3: fast may have had the rest.
    slow = [*segment("slow", 12_000, 22_000), *segment("slow", 22_000, 23_000)]
    assert found(Judge(file, {}), [*job("slow", 0, 0, 23_100, 3000 * 1000), *slow]) == []


def test_threads_of_simulated_jobs_are_off_their_cpus_for_no_longer_than_the_file_allows() -> None:
    """The simulator does not say how long jobs executed: their time on CPUs does."""
    for name in ("case-study", "two-programs", "every-key-of-threads"):
        for policy in ("segment", "boosted"):
            file = taskset.load(Path(f"examples/{name}.toml"))
            trace = simulate(file.taskset, Options(policy, horizon=10**9), events=20_000).trace
            assert trace
            events = with_times(trace.events)
            assert len(events) > len(trace.events)
            told = found(Judge(file, {}, policy=policy), events)
            assert [one.line() for one in told if one.what is What.WAITING] == []


def with_times(events: Iterable[Event]) -> list[Event]:
    """The events of a simulation, with the begins of jobs and how long each executed."""
    starts: dict[tuple[str, int | None], int] = {}
    times = Counter[tuple[str, int | None]]()
    for event in events:
        if event.kind is Kind.CPU and event.duration:
            starts.setdefault((event.task, event.job), event.time)
            times[event.task, event.job] += event.duration
    told = []
    for event in events:
        key = event.task, event.job
        if event.kind is Kind.COMPLETE and key in starts and event.duration is not None:
            release = event.time - event.duration
            told += [Event(starts[key], Kind.START, event.task, event.job, starts[key] - release)]
            event = replace(event, executed=times[key])
        told.append(event)
    return sorted(told, key=lambda event: event.time)


def test_a_thread_that_sleeps_though_it_is_said_to_spin(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE.replace('name = "fast"', 'name = "fast"\nwaiting = "busy"'))
    busy = taskset.load(path)
    assert timed(Judge(busy, {}), 9, 500) == timed(Judge(busy, {}), 20, 1000) == []
    (told,) = timed(Judge(busy, {}), 20, 500)
    assert "in 10 jobs in a row: it suspends, and the file says that it waits busily" in told


def test_a_response_above_its_bound_or_deadline(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    late, bound = found(judge, job("fast", 3, 0, 10_001))
    assert kinds([late, bound]) == [(What.BOUND, "fast", 3), (What.DEADLINE, "fast", 3)]
    assert (late.seen, late.allowed) == (10_001_000, 8 * MS)
    assert {late.what.sort, bound.what.sort} == {Sort.PROMISE}
    assert late.because == ()
    assert found(judge, job("fast", 4, 20_000, 28_000)) == []  # exactly the bound


def test_a_job_that_does_not_end_is_late_before_it_ends(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS}, patience=MS)
    assert found(judge, job("fast", 0, 0, 1)[:2]) == []
    assert judge.advance(9 * MS) == []
    assert kinds(judge.advance(9 * MS + 1)) == [(What.BOUND, "fast", 0)]
    assert kinds(judge.advance(12 * MS)) == [(What.DEADLINE, "fast", 0)]
    assert judge.advance(10**12) == []
    assert found(judge, [Event(15 * MS, Kind.COMPLETE, "fast", 0, 15 * MS)]) == []  # was told
    assert (judge.tally("fast").misses, judge.tally("fast").mort) == (1, 15 * MS)


def test_an_exceeded_worst_case_is_no_broken_bound(file: TasksetFile) -> None:
    """Until the system is idle, what follows from it is told as its consequence."""
    judge = Judge(file, {"fast": 8 * MS, "slow": 50 * MS})
    waits = Event(0, Kind.BEGIN, "fast", gpu=0)
    events = [*job("slow", 0, 0, 60_000), *job("fast", 0, 0, 9000, 1500 * 1000 + 1), waits,
              *segment("fast", 5400, 7900)[1:], *job("slow", 1, 100_000, 160_000)]  # fmt: skip
    cpu, fast, slow, alone = found(judge, events)
    assert kinds([cpu]) == [(What.CPU_TIME, "fast", 0)]
    assert cpu.what.sort is Sort.ASSUMPTION
    assert [one.because for one in (fast, slow, alone)] == [(What.CPU_TIME,), (What.CPU_TIME,), ()]
    assert "assumptions were broken before: cpu-time" in fast.line()
    assert "no assumption was seen broken" in alone.line()


def test_a_segment_that_takes_too_long_is_seen_when_it_makes_another_task_late(file: TasksetFile) -> None:
    """slow, whose segment has 10 ms, has owned the GPU for 60 as fast's bound passes, and owns it on."""
    judge = Judge(file, {"fast": 8 * MS})
    begun = [*job("slow", 0, 0, 99_000), *segment("slow", 1000, 90_000)]
    long, late, missed = found(judge, [*begun, *job("fast", 0, 53_000, 64_000)])
    assert kinds([long, late, missed]) == [
        (What.SEGMENT, "slow", 0), (What.BOUND, "fast", 0), (What.DEADLINE, "fast", 0),
    ]  # fmt: skip
    assert (long.time, long.seen) == (64 * MS, 63 * MS)  # it is not told again as it ends
    assert late.because == missed.because == (What.SEGMENT,)


def test_a_job_that_waited_for_its_thread_tells_late_that_the_system_was_not_idle(file: TasksetFile) -> None:
    """slow's segment was too long; fast's job, released in it, is told of when it begins, after slow's end."""
    judge = Judge(file, {"fast": 8 * MS})
    (long,) = found(judge, [*job("slow", 0, 0, 99_000), *segment("slow", 1000, 90_000)])
    fast = job("fast", 0, 95_000, 109_000)
    late, missed = (one for event in fast for one in judge.feed(event))
    assert (long.what, late.because, missed.because) == (What.SEGMENT, (What.SEGMENT,), (What.SEGMENT,))


def test_segments_against_their_declared_worst_cases(file: TasksetFile) -> None:
    judge = Judge(file, {})
    fast = 2500 + 300  # worst case, and one update
    assert found(judge, [*job("fast", 0, 0, 5000), *segment("fast", 1000, 1000 + fast)]) == []
    assert kinds(found(judge, [*job("fast", 1, 10_000, 15_000), *segment("fast", 11_000, 11_001 + fast)])) == [
        (What.SEGMENT, "fast", 1)
    ]
    # the more urgent task of its CPU executes 1.5 ms, and has two updates, in each of three periods; the second segment
    # is the shorter one
    slow = 11_000 + 300 + 3 * 2100
    events = [*job("slow", 0, 100_000, 160_000), *segment("slow", 110_000, 110_000 + slow)]
    assert found(judge, [*events, *segment("slow", 140_000, 141_300 + 2 * 2100)]) == []
    events = [*job("slow", 1, 200_000, 260_000), *segment("slow", 210_000, 210_001 + slow)]
    assert kinds(found(judge, [*events, *segment("slow", 240_000, 241_000)])) == [(What.SEGMENT, "slow", 1)]
    three = [one for at in (301_000, 302_000, 303_000) for one in segment("slow", at, at + 500)]
    assert [one.text for one in found(judge, [*job("slow", 2, 300_000, 320_000), *three])] == [
        "had 3 GPU segments, the file declares 2"
    ]


def test_time_without_the_gpu_is_no_part_of_a_segment(file: TasksetFile) -> None:
    begin, grant, end = segment("fast", 1000, 9000)
    away = [Event(2 * MS, Kind.PREEMPT, "fast", gpu=0), Event(8 * MS, Kind.RESUME, "fast", gpu=0)]
    judge = Judge(file, {})
    assert found(judge, [begin, grant, *away, end]) == []
    assert judge.tally("fast").longest == 2 * MS


def test_other_assumptions(file: TasksetFile) -> None:
    judge = Judge(file, {})
    assert kinds(found(judge, [*job("fast", 0, 0, 1), *job("fast", 1, 9999, 10_001)])) == [(What.PERIOD, "fast", 1)]
    told = found(judge, [
        Event(20 * MS, Kind.COMMIT, "", None, 200_000, gpu=0, detail="begin"),
        Event(21 * MS, Kind.COMMIT, "", None, 200_001, gpu=0, detail="policy"),
        Event(22 * MS, Kind.COMMIT, "", None, 1, gpu=0, detail="reset"),
        Event(23 * MS, Kind.OVERRUN, "fast", gpu=0), Event(24 * MS, Kind.LATE, "Xorg-7", gpu=0),
    ])  # fmt: skip
    assert kinds(told) == [(What.EPSILON, "", None), (What.POLICY, "", None), (What.RESET, "", None),
                           (What.OVERRUN, "fast", None), (What.LATE, "", None)]  # fmt: skip
    judge = Judge(file, {})
    assert kinds(found(judge, segment("fast", 30_000, 31_000), priority=20)) == []
    assert kinds(found(judge, segment("fast", 40_000, 41_000), priority=9)) == [(What.PRIORITY, "fast", None)]


def jittered(file: TasksetFile, jitter: int) -> TasksetFile:
    """The file with jitter for each task, in ns."""
    tasks = tuple(replace(task, jitter=jitter) for task in file.taskset)
    return replace(file, taskset=replace(file.taskset, tasks=tasks))


def test_releases_within_their_jitter_are_no_finding(file: TasksetFile) -> None:
    """The first is late by 4 ms, and the second comes in time: 6 ms later with a period of 10."""
    judge = Judge(jittered(file, 4 * MS), {})
    releases = (4000, 10_000, 24_000, 30_000)
    assert found(judge, [event for n, at in enumerate(releases) for event in job("fast", n, at, at + 1)]) == []


def test_releases_that_drift_are_found_although_no_two_are_too_close(file: TasksetFile) -> None:
    """Each is 1 ms early, and the file allows 4: arrivals explain the first five."""
    judge = Judge(jittered(file, 4 * MS), {})
    events = [event for n in range(6) for event in job("fast", n, 4000 + 9000 * n, 4001 + 9000 * n)]
    (drift,) = found(judge, events)
    assert (drift.what, drift.job, drift.seen, drift.allowed) == (What.PERIOD, 5, 9 * MS, 10 * MS)
    assert "jitter allowed for" in drift.text


def test_arrivals_too_far_apart_are_found_where_a_chain_rests_on_them(file: TasksetFile) -> None:
    """The third comes 12 ms after the second, and the fourth 24 after the third, of which 1 may be its jitter."""
    late = jittered(file, 1 * MS)
    tasks = tuple(replace(task, max_period=12 * MS) for task in late.taskset)
    chains = (Chain("c", ("fast", "slow")),)
    releases = (4000, 14_000, 26_000, 50_000)
    events = [event for n, at in enumerate(releases) for event in job("fast", n, at, at + 1)]
    assert found(Judge(replace(late, taskset=replace(late.taskset, tasks=tasks)), {}), events) == []
    (gap,) = found(Judge(replace(late, taskset=replace(late.taskset, tasks=tasks, chains=chains)), {}), events)
    assert (gap.what, gap.job, gap.seen, gap.allowed) == (What.PERIOD, 3, 23 * MS, 12 * MS)
    assert "not 12.000000 ms at most" in gap.line()


def test_clients_that_no_task_declares(file: TasksetFile) -> None:
    judge = Judge(file, {})
    assert found(judge, segment("slow-77", 0, 1), priority=10) == []  # the command's program
    assert found(judge, segment("Xorg-7", 1, 2), priority=0) == []  # best effort: off while real-time ones run
    (one,) = found(judge, segment("rogue-8", 3, 4), priority=30)
    assert (one.what, "rogue-8 uses the GPU at GPU priority 30" in one.text) == (What.UNDECLARED, True)
    assert found(judge, segment("rogue-8", 5, 6), priority=30) == []  # told once
    sliced = Judge(file, {}, policy="timesliced")
    assert kinds(found(sliced, segment("Xorg-7", 1, 2), priority=0)) == [(What.UNDECLARED, "", None)]
    hostile = found(judge, segment("a\x1b[2J", 7, 8))
    assert "\x1b" not in hostile[0].line()


@pytest.mark.parametrize("policy", ["lock-priority", "lock-fifo"])
def test_under_locks_a_best_effort_client_delays_real_time_ones(file: TasksetFile, policy: str) -> None:
    """It keeps the GPU until its segment ends, which no bound has."""
    judge = Judge(file, {}, policy=policy)
    assert kinds(found(judge, segment("stranger-77", 0, 400_000), priority=0)) == [(What.UNDECLARED, "", None)]
    assert found(judge, segment("idle", 500_000, 500_001), priority=0) == []


def test_a_program_that_ends_in_a_job(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    events = [*job("fast", 5, 0, 1)[:2], Event(2 * MS, Kind.GONE, "fast", gpu=0)]
    assert kinds(found(judge, events)) == [(What.ENDED, "fast", 5)]
    assert judge.advance(20 * MS) == []  # told already; it counts as a miss
    assert judge.tally("fast").misses == 1


def test_a_flood_of_processes_of_one_name_takes_no_memory(file: TasksetFile) -> None:
    judge = Judge(file, {})
    begun = [Event(at, Kind.BEGIN, f"slow-{at}", gpu=0) for at in range(2 * MOST_OPEN)]
    told = [Event(at, Kind.START, "idle", at, 0, detail=f"idle-{at}") for at in range(2 * MOST_OPEN)]
    assert len(found(judge, begun)) == len(begun) - 1
    assert found(judge, told) == []  # of best effort
    assert found(judge, [Event(at, Kind.BEGIN, f"x-{at}", gpu=0) for at in range(3 * MAX_STRANGERS)])[-1].text == (
        f"{MAX_STRANGERS} clients are no task of the file; more are not named"
    )
    slow, idle = judge._tasks["slow"], judge._tasks["idle"]
    assert max(len(slow.held), len(idle.tellers), len(judge.strangers.told)) <= MOST_OPEN == MAX_STRANGERS


def test_another_process_of_that_name_that_ends_hides_no_late_job(file: TasksetFile) -> None:
    """Every process may be called as the task is."""
    judge = Judge(file, {})
    begun = [replace(one, detail="fast-7") if one.kind is Kind.START else one for one in job("fast", 5, 0, 1)[:2]]
    assert found(judge, [*begun, Event(2 * MS, Kind.GONE, "fast-8", gpu=0, detail="fast-8")]) == []
    assert kinds(judge.advance(20 * MS)) == [(What.DEADLINE, "fast", 5)]
    assert kinds(found(judge, [Event(21 * MS, Kind.GONE, "fast", detail="fast-7")])) == [(What.ENDED, "fast", 5)]


def test_after_lost_events_nothing_is_said_of_what_was_under_way(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    events = [*job("fast", 0, 0, 1)[:2], Event(MS, Kind.LOST, detail="7 events lost")]
    (lost,) = found(judge, events)
    assert (lost.what.sort, lost.line()) == (Sort.BLIND, "7 events lost; what was under way is left out")
    assert judge.advance(100 * MS) == []
    assert kinds(found(judge, job("fast", 9, 200_000, 209_000))) == [(What.BOUND, "fast", 9)]  # it sees again


def test_after_lost_events_no_state_is_believed_before_it_is_seen_again(file: TasksetFile) -> None:
    """`fast` may still be in the job and the segment that it had, or in another one."""
    judge = Judge(file, {"fast": 8 * MS, "slow": 50 * MS})
    events = [*job("fast", 0, 0, 1)[:2], *segment("fast", 1, 2)[:2], Event(MS, Kind.LOST, detail="7 events lost")]
    assert kinds(found(judge, events)) == [(What.LOST, "", None)]
    (bound,) = found(judge, job("slow", 1, 10_000, 70_000))  # all that is known is idle now
    assert bound.because == (What.LOST,)
    assert "no assumption was seen broken" not in bound.line()
    assert found(judge, segment("fast", 75_000, 76_000)) == []  # of a job whose begin was lost, perhaps
    assert found(judge, job("slow", 2, 110_000, 170_000))[0].because == (What.LOST,)  # that job may be under way
    assert found(judge, [Event(180 * MS, Kind.COMPLETE, "fast", 0, 5 * MS)]) == []  # the begin of this one was lost
    (bound,) = found(judge, job("slow", 3, 210_000, 270_000))
    assert bound.because == ()  # both were seen since: the system was idle
    assert judge.tally("fast").misses == judge.tally("fast").above == 0


def test_a_task_that_was_idle_may_have_begun_a_job_when_events_were_lost(file: TasksetFile) -> None:
    judge = Judge(file, {"slow": 50 * MS})
    found(judge, [*job("fast", 0, 0, 1), Event(MS, Kind.LOST)])
    (bound,) = found(judge, job("slow", 1, 10_000, 70_000))
    assert bound.because == (What.LOST,)


def test_tasks_that_tell_of_no_jobs_are_seen_again_by_their_segments(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    told = found(judge, [*segment("slow", 0, 1), Event(2 * MS, Kind.LOST), *segment("slow", 3000, 4000)])
    assert kinds(told) == [(What.LOST, "", None)]
    (bound,) = found(judge, job("fast", 0, 10_000, 19_000))
    assert bound.because == ()


def test_segments_outside_jobs(file: TasksetFile) -> None:
    """Only of a task that tells of jobs; what it does before its first one, and its next program, is not known."""
    judge = Judge(file, {})
    assert found(judge, segment("fast", 0, 1000)) == []
    assert found(judge, [*job("fast", 0, 10_000, 12_000), *segment("fast", 10_500, 11_500)]) == []
    (outside,) = found(judge, segment("fast", 14_000, 15_000))
    assert outside.line() == "fast: began a GPU segment outside its jobs, which no bound has"
    assert outside.what is What.SEGMENT
    assert found(judge, [Event(16 * MS, Kind.GONE, "fast"), *segment("fast", 17_000, 18_000)]) == []
    events = [*job("fast", 1, 20_000, 22_000), *segment("fast", 21_000, 23_000)]
    assert kinds(found(judge, events)) == [(What.SEGMENT, "fast", 1)]  # its end is no part of the response


def test_jobs_that_overlap_or_end_twice(file: TasksetFile) -> None:
    judge = Judge(file, {})
    first, second = job("slow", 0, 0, 120_000), job("slow", 1, 100_000, 130_000)
    assert kinds(found(judge, [*first, *second])) == [
        (What.PERIOD, "slow", 1), (What.DEADLINE, "slow", 0),
    ]  # fmt: skip
    waits = [second[0], replace(second[1], time=120 * MS, duration=20 * MS), second[2]]
    assert kinds(found(Judge(file, {}), [*first, *waits])) == [(What.DEADLINE, "slow", 0)]  # begins when it may
    judge = Judge(file, {})
    (twice,) = found(judge, [*job("fast", 0, 0, 5000), Event(6 * MS, Kind.COMPLETE, "fast", 0, 6 * MS)])
    assert "ended, and had not begun, or ended twice" in twice.text
    assert found(Judge(file, {}), [Event(6 * MS, Kind.COMPLETE, "fast", 0, 6 * MS)]) == []  # began before it watched


def test_two_processes_that_tell_of_one_task(file: TasksetFile) -> None:
    """Live and in a trace: the events say which process tells."""
    begun = EventRecord(EventKind.JOB_BEGIN, 10**12, 0, 3, 77, "fast", 20, None, 0, 0, "fast", 8)
    other = replace(begun, client=4, pid=78, comm="x\x1b", time_ns=10**12 + MS, job=9)
    gone = replace(begun, kind=EventKind.GONE, task="", job=None, time_ns=10**12 + MS - 1)
    (told,) = [
        one for one in judged(assemble_events([begun, other], META), file).findings if one.what is What.UNDECLARED
    ]
    assert told.line() == (
        "fast: x\\x1b-78 tells of its jobs, and so does process 77: one of them is not that task"
    )  # fmt: skip
    turns = [replace(one, time_ns=one.time_ns + 10 * MS * turn) for turn in range(3) for one in (begun, other)]
    known = judged(assemble_events(turns, META), file).findings
    assert [one.line() for one in known if one.what is What.UNDECLARED] == [told.line()]  # once is enough
    again = judged(assemble_events([begun, gone, other], META), file)  # a program may be started again
    assert What.UNDECLARED not in {one.what for one in again.findings}
    lost = EventRecord(EventKind.LOST, 10**12 + 1, 0, 0, 0, "", 0, None, 0, 9)  # that of its end, perhaps
    assert What.UNDECLARED not in {
        one.what for one in judged(assemble_events([begun, lost, other], META), file).findings
    }
    hidden = judged(assemble_events([replace(one, pid=0, comm="") for one in (begun, other)], META), file)
    assert What.UNDECLARED not in {one.what for one in hidden.findings}  # nothing is known of them


def test_clients_in_traces_have_priorities(file: TasksetFile) -> None:
    """So that a best-effort one is none of the analysis' business, and a real-time one is."""
    begun = EventRecord(EventKind.BEGIN, 10**12, 0, 3, 77, "Xorg", 0, None, 0, 0)
    mark = replace(begun, kind=EventKind.JOB_BEGIN, client=4, pid=78, comm="game", task="frame", job=1)
    assert judged(assemble_events([begun, mark], META), file).findings == []
    rogue = replace(begun, priority=3)
    (told,) = judged(assemble_events([rogue, mark], META), file).findings
    assert told.text == "Xorg-77 uses the GPU at GPU priority 3, and no task of the file is it"
    own = replace(begun, comm="slow", priority=30)  # the file's is 10
    (told,) = judged(assemble_events([own, mark], META), file).findings[:1]
    assert (told.what, told.text) == (What.PRIORITY, "its segment has GPU priority 30, the file says 10")
    assert judged(assemble_events([replace(own, priority=10), mark], META), file).findings == []


def test_what_no_event_tells_is_in_a_recording(file: TasksetFile) -> None:
    begun = EventRecord(EventKind.BEGIN, 10**12, 0, 3, 77, "slow", 10, None, 0, 0)
    slept = judged(assemble_events([begun], META, blind="the machine was suspended for 3.0 s"), file)
    assert [(one.what, one.text) for one in slept.findings] == [
        (What.LOST, "the machine was suspended for 3.0 s; what was under way is left out")
    ]
    late = judged(assemble_events([begun], META, failures=["GPU 0: 2 runlist updates failed"]), file)
    assert [(one.what, one.text) for one in late.findings] == [(What.LATE, "GPU 0: 2 runlist updates failed")]


def test_few_jobs_are_remarked_on(file: TasksetFile) -> None:
    """A task that tells of no job any more may be one that waits, or one that never gets its CPU."""

    def said(until: int) -> list[str]:
        trace = Trace({}, tuple(job("fast", 0, 0, 1000)), until=until * MS)
        return [one for one in notes(judged(trace, file).lines, trace) if "jobs were seen" in one]

    assert said(20) == []
    assert said(50) == ["fast: 1 jobs were seen in 0.1 s, in which its period allows 5: if it is periodic, jobs are "
                        "missing"]  # fmt: skip


def test_each_partition_has_update_costs_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    costly = COUPLED.replace('name = "two"\n', 'name = "two"\nepsilon = "3ms"\n')
    path.write_text(costly)
    loaded = taskset.load(path)
    slow = [Event(MS, Kind.COMMIT, "", None, 2 * MS, gpu=gpu, detail="begin") for gpu in (0, 1)]
    assert [one.text for one in found(Judge(loaded, {}, gpus=2), slow)] == [
        "a runlist update (begin) on GPU 0 took longer than the file's alpha"
    ]
    assert found(Judge(loaded, {}, gpus=1), slow) == []  # whose updates these are is not known
    late = segment("old", 10_000, 14_000)  # of 1.5 ms, and the updates of the other one's two jobs, on the same CPU
    late += segment("second", 20_000, 26_000)  # and 3 ms more for its own
    assert found(Judge(loaded, {}, gpus=2), late) == []
    assert [one.task for one in found(Judge(loaded, {}, gpus=2), segment("old", 10_000, 40_000))] == ["old"]


def test_a_clock_that_jumps_back(file: TasksetFile) -> None:
    judge = Judge(file, {"fast": 8 * MS})
    start = 5 * JUMP
    assert judge.feed(Event(start, Kind.RELEASE, "fast", 0)) == []
    judge.feed(Event(start, Kind.START, "fast", 0, 0))
    assert judge.feed(Event(start - JUMP, Kind.COMMIT, "", None, 0, gpu=0)) == []  # updates are told of late
    (jump,) = judge.feed(Event(start - JUMP - 1, Kind.COMMIT, "", None, 0, gpu=0))
    assert jump.line() == "the events' clock went back by 1.000000 s; what was under way is left out"
    assert judge.advance(start + JUMP) == []


def test_a_flood_of_jobs_that_end_at_once_takes_no_memory(file: TasksetFile) -> None:
    """Records of ended jobs are thrown away before the jobs' deadlines; those of jobs under way are kept."""
    judge = Judge(file, {"fast": 8 * MS})
    hung = job("slow", 7, 0, 1)[:2]
    found(judge, hung)
    most = 0
    for number in range(10_000):
        found(judge, job("fast", number, number + 1, number + 1))
        most = max(most, len(judge._due))
    assert most <= MIN_ENTRIES_SWEPT + 2
    late = [one for one in judge.advance(100 * MS + 1) if one.what is What.DEADLINE]
    assert kinds(late) == [(What.DEADLINE, "slow", 7)]


def test_what_a_client_lost_of_its_own_jobs_leaves_out_that_task_only(file: TasksetFile) -> None:
    """Both jobs end late.  The judge does not know when jobs ended whose ends were not told."""
    judge = Judge(file, {})
    for task in ("fast", "slow"):
        for event in (Event(0, Kind.RELEASE, task, 0), Event(0, Kind.START, task, 0, 0)):
            assert judge.feed(event) == []
    record = EventRecord(EventKind.JOB_BEGIN, 5 * MS, 0, 1, 7, "fast", 0, None, 0, 3, "fast", 1)
    told = [one for event in to_events(record, "fast") for one in judge.feed(event)]
    assert kinds(told) == [(What.LOST, "fast", None)]
    assert told[0].text.startswith("3 beginnings and ends of its jobs were not told")
    assert judge.feed(Event(6 * MS, Kind.COMPLETE, "fast", 1, MS)) == []
    stranger = replace(record, task="other", comm="other")
    assert [one.what for event in to_events(stranger, "other") for one in judge.feed(event)] == [What.UNDECLARED]
    assert [(one.what, one.task) for one in judge.advance(200 * MS)] == [(What.DEADLINE, "slow")]


def test_a_flood_of_jobs_that_never_end_takes_no_memory(file: TasksetFile) -> None:
    judge, told = Judge(file, {}), []
    for number in range(12_000):
        told += judge.feed(Event(10 * MS * number, Kind.RELEASE, "idle", number))
    assert len(judge._tasks["idle"].jobs) <= MOST_OPEN
    (flood,) = told
    assert flood.line() == f"idle #{MOST_OPEN}: has {MOST_OPEN} jobs under way: the oldest of them are left out"
    assert flood.what.sort is Sort.BLIND


def test_a_job_that_never_ends_is_above_its_bound_before_its_deadline(file: TasksetFile) -> None:
    """It has no response time, and its deadline is yet to come."""
    test = find_test("gcaps-suspend")
    bound = test.run(file.taskset).wcrt("slow")
    assert bound is not None
    assert bound < 100 * MS
    hung = Trace({}, (*job("slow", 0, 0, 10_000), *job("slow", 1, 100_000, 1)[:2]), until=100 * MS + bound + 1)
    result = judged(hung, file, test)
    assert kinds(result.findings) == [(What.BOUND, "slow", 1)]
    line = next(one for one in result.lines if one.task == "slow")
    assert (line.above_bound, line.failed, line.misses) == (True, True, 0)
    assert observed_data([line])["slow"]["verdict"] == "above-bound"
    on_time = judged(replace(hung, until=100 * MS + bound), file, test)
    assert not next(one for one in on_time.lines if one.task == "slow").failed


def test_a_best_effort_task_has_no_priority(file: TasksetFile) -> None:
    """With one it would delay all tasks that are less urgent, and no bound has it."""
    judge = Judge(file, {})
    assert found(judge, segment("idle", 0, 1), priority=0) == []
    assert kinds(found(judge, segment("idle", 2, 3), priority=99)) == [(What.PRIORITY, "idle", None)]


def test_a_task_without_gpu_segments_has_none(file: TasksetFile) -> None:
    """Also if its program tells of no jobs."""
    path = Path(file.path)
    plan = '[[task]]\nname = "plan"\ncpu = 1\npriority = 5\nperiod = "1s"\nsegments = [{ cpu = "1ms" }]\n'
    path.write_text(FILE + plan)
    judge = Judge(taskset.load(path), {})
    assert kinds(found(judge, segment("plan", 0, 1), priority=5)) == [(What.SEGMENT, "plan", None)]
    assert kinds(found(judge, [*job("plan", 0, 10, 20), *segment("plan", 11, 12)])) == [(What.SEGMENT, "plan", None)]


def test_two_clients_of_one_task_are_not_what_its_bound_is_for(file: TasksetFile) -> None:
    """The end of the one must not hide for how long the other owned the GPU."""
    judge = Judge(file, {})
    twins = [Event(MS, Kind.BEGIN, "slow"), Event(2 * MS, Kind.BEGIN, "slow"), Event(3 * MS, Kind.END, "slow")]
    assert kinds(found(judge, twins)) == [(What.SEGMENT, "slow", None)]
    judge = Judge(file, {})
    assert kinds(found(judge, [Event(MS, Kind.BEGIN, "slow-7"), Event(2 * MS, Kind.BEGIN, "slow-8")])) == [
        (What.SEGMENT, "slow", None)
    ]
    judge = Judge(file, {})
    first, second = job("fast", 4, 0, 1), job("fast", 9, 0, 5)
    assert kinds(found(judge, [*first[:2], *second[:2], *first[2:]])) == [(What.PERIOD, "fast", 9)]


def test_a_client_that_says_its_task_within_a_segment(file: TasksetFile) -> None:
    """Its name changes, and the segment is still the one that began."""
    judge = Judge(file, {"fast": 8 * MS})
    begin, grant, end = segment("fast-7", 0, 50), segment("fast-7", 0, 50), segment("fast", 0, 50_000)
    (long,) = found(judge, [begin[0], grant[1], end[2]])
    assert (long.what, long.seen) == (What.SEGMENT, 50 * MS)
    assert found(judge, segment("fast", 60_000, 61_000)) == []
    away = [Event(71 * MS, Kind.PREEMPT, "fast"), Event(79 * MS, Kind.RESUME, "fast")]
    assert found(judge, [*segment("fast-7", 70_000, 80_000)[:2], *away, *segment("fast", 0, 80_000)[2:]]) == []
    hers = segment("fast-8", 90_000, 140_000)
    (long,) = found(judge, [*hers[:2], Event(91 * MS, Kind.GONE, "fast-7"), hers[2]])
    assert (long.what, long.seen) == (What.SEGMENT, 50 * MS)


def test_a_recording_ends_when_it_ends_and_not_with_its_last_event(file: TasksetFile) -> None:
    """Otherwise the last job would not be late if it hung for ever, for nothing happens after it."""
    begun = EventRecord(EventKind.JOB_BEGIN, 10**12, 0, 3, 77, "fast", 20, None, 0, 0, "fast", 8)
    done = replace(begun, kind=EventKind.JOB_END, time_ns=10**12 + MS, latency_ns=MS)
    hung = replace(begun, time_ns=10**12 + 10 * MS, job=9)
    for over, misses in ((20 * MS, 0), (20 * MS + 1, 1)):
        line = judged(assemble_events([begun, done, hung], META, 10**12 + over), file).lines[0]
        assert (line.task, line.jobs, line.misses, line.failed) == ("fast", 1, misses, misses > 0)


def test_an_equal_task_of_its_cpu_lengthens_a_segment(tmp_path: Path) -> None:
    """An equal is not preempted: it may have the CPU when the GPU's work is done."""
    path = tmp_path / "set.toml"
    path.write_text(COUPLED)
    loaded = taskset.load(path)
    for execution in ("worst", "random"):
        trace = simulate(loaded.taskset, Options("segment", None, execution, horizon=10**9), events=20_000).trace
        assert trace
        result = judged(trace, loaded)
        assert result.findings == []
        assert any(event.gpu for event in trace.events)


#: The owner of 0.3 ms lets the one of 5 ms have its turn at the gate, whose CPU executes the third task's CPU segment.
AT_THE_GATE = """[platform]
cpus = 2
epsilon = "1us"
[[task]]
name = "owner"
cpu = 0
priority = 3
period = "15ms"
segments = [{ misc = "0us", gpu = "300us" }]
[[task]]
name = "passing"
cpu = 1
priority = 6
period = "100ms"
segments = [{ misc = "450us", gpu = "5ms" }]
[[task]]
name = "third"
cpu = 1
priority = 7
period = "10ms"
waiting = "busy"
segments = [{ misc = "1us", gpu = "110us" }, { cpu = "520us" }]
"""
#: Both are raised, and of equal GPU priority: one executes its G^m while the other, whose work is done, owns the GPU.
EQUALLY_RAISED = """[platform]
cpus = 1
epsilon = "1us"
[[task]]
name = "short"
cpu = 0
priority = 4
period = "17142us"
segments = [{ misc = "15us", gpu = "150us" }]
[[task]]
name = "long"
cpu = 0
priority = 4
period = "50ms"
segments = [{ misc = "248us", gpu = "496us" }]
"""


@pytest.mark.parametrize(("policy", "text"), [("segment", AT_THE_GATE), ("boosted", EQUALLY_RAISED)])
def test_an_end_waits_for_others(tmp_path: Path, policy: str, text: str) -> None:
    """Its client owns the GPU until then, though its work is done: no task executes for longer than the file says."""
    path = tmp_path / "set.toml"
    path.write_text(text)
    loaded = taskset.load(path)
    trace = simulate(loaded.taskset, Options(policy, None, "worst", horizon=300 * MS), events=20_000).trace
    assert trace
    result = judged(trace, loaded)
    assert result.findings == []
    assert all(line.segments for line in result.lines)


@pytest.mark.parametrize("policy", ["segment", "boosted", "lock-priority", "lock-fifo", "timesliced", "job"])
@pytest.mark.parametrize("execution", ["worst", "random"])
def test_simulations_break_no_assumption(file: TasksetFile, policy: str, execution: str) -> None:
    """The simulator is another piece of code; its tasks execute for no longer than the file says."""
    options = Options(policy, Waiting.BUSY if policy == "job" else None, execution, horizon=400 * MS, seed=7)
    trace = simulate(file.taskset, options, events=20_000).trace
    assert trace
    result = judged(trace, file)
    assert [one.line() for one in result.findings if one.what.sort is not Sort.PROMISE] == []
    worst = trace.observed_worst()
    assert {line.task: line.mort for line in result.lines if line.jobs} == worst
    assert sum(line.jobs for line in result.lines) == sum(map(len, trace.responses().values()))


def test_what_a_stranger_lost_of_its_own_is_no_loss_of_a_trace(file: TasksetFile) -> None:
    lost = [Event(MS, Kind.LOST, task, detail="3 of its own") for task in ("fast", "stranger-7")]
    trace = Trace({}, [*lost, Event(2 * MS, Kind.LOST, detail="4 events lost")])
    assert subject.lost(trace, file) == 2
    assert notes([], trace)[-3:] == ["fast: 3 of its own", "stranger-7: 3 of its own", "4 events lost"]


def test_a_recording_may_begin_in_the_middle_of_segments(file: TasksetFile) -> None:
    """Nothing is made up about the time before: no use of the GPU since the machine was started."""
    end = EventRecord(EventKind.END, 10**12, 0, 3, 77, "slow", 10, None, 0, 0)
    other = replace(end, client=4, pid=78, comm="fast", priority=20, time_ns=10**12 + 5 * MS)
    told = [end, replace(other, kind=EventKind.GRANT), replace(other, time_ns=10**12 + 9 * MS)]
    trace = assemble_events(told, META, 10**12 + 9 * MS)
    assert trace.end == 9 * MS
    assert all(event.time + (event.duration or 0) <= trace.end for event in trace.events)


def test_each_segment_of_a_job_is_held_to_its_own_length(file: TasksetFile) -> None:
    """The second of `slow` has 1 ms; the first, with 11 ms, is no excuse for it."""
    judge = Judge(file, {})
    events = [*job("slow", 1, 0, 60_000), *segment("slow", 2000, 12_000), *segment("slow", 20_000, 29_000)]
    assert kinds(found(judge, events)) == [(What.SEGMENT, "slow", 1)]


@pytest.mark.parametrize("policy", ["segment", "boosted"])
def test_a_task_is_no_excuse_for_itself(tmp_path: Path, policy: str) -> None:
    """Alone it may own the GPU for its segment of 2.5 ms and an update."""
    path = tmp_path / "alone.toml"
    path.write_text(FILE.partition('[[task]]\nname = "slow"')[0].replace('"segment"', f'"{policy}"'))
    judge = Judge(taskset.load(path), {})
    (told,) = found(judge, [*job("fast", 1, 0, 9000), *segment("fast", 1000, 8000)])
    assert (told.what, told.seen) == (What.SEGMENT, 7 * MS)
    assert told.allowed == 2_500_000 + 300_000


def test_a_task_is_no_excuse_for_itself_by_delaying_who_passes_it(tmp_path: Path) -> None:
    """`fast` keeps `slow`, which passes it at the gate, from its CPU: only updates of two jobs of `slow` count."""
    path = tmp_path / "passed.toml"
    path.write_text(FILE.replace("priority = 10\n", "priority = 10\ngpu_priority = 30\n", 1))
    (told,) = found(Judge(taskset.load(path), {}), [*job("fast", 1, 0, 9000), *segment("fast", 1000, 8900)])
    assert told.allowed == 2_500_000 + 300_000 + 2 * (2 * 2 * 300_000)


@pytest.mark.parametrize("resources", [False, True])
def test_wake_ups_and_resources_lengthen_what_a_segment_may_own(tmp_path: Path, resources: bool) -> None:
    """The simulator's own trace of a correct system is no broken assumption."""
    text = (Path(__file__).resolve().parents[2] / "examples/locks.toml").read_text(encoding="utf-8")
    (path := tmp_path / "set.toml").write_text(text if resources else text.partition("[[resource]]")[0], "utf-8")
    loaded = taskset.load(path)
    trace = simulate(loaded.taskset, Options("boosted", horizon=10**9), events=100_000).trace
    assert trace
    assert judged(trace, loaded, find_test("boosted-suspend")).findings == []
