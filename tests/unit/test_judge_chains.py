# SPDX-License-Identifier: GPL-2.0
"""The judge of chains: hand-made jobs with what is wrong in them, and simulations of random files, which have nothing.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from attack_search import ways
from calls import Gpurt, caller
from random_tasksets import random_taskset

from analysis import taskset
from analysis.answers import registry
from analysis.chains.bounds import bound_of
from analysis.chains.observed import MEASURE_KEYS, Observed, observed
from analysis.model import Chain, Taskset
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import TasksetFile
from analysis.traces.trace import Event, Kind, Trace
from pycontrol.observe.judge.check import Judged, judged, task_lines, why_no
from pycontrol.observe.judge.finding import Finding, Sort, What
from pycontrol.observe.judge.judge import Judge

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/chains.toml"
MANY = 20 if os.environ.get("GPURT_LONG") else 1
MS = 1_000_000
TEST = registry.find_test("boosted-suspend")

TEXT = """[platform]
cpus = 2
epsilon = "0ms"
[[task]]
name = "a"
cpu = 0
priority = 9
period = "10ms"
releases = "periodic"
segments = [{ cpu = "2ms" }]
[[task]]
name = "b"
cpu = 1
priority = 8
period = "10ms"
releases = "periodic"
segments = [{ cpu = "2ms" }]
[[chain]]
name = "c"
tasks = ["a", "b"]
max_reaction = "25ms"
max_age = "25ms"
max_age_at_output = "15ms"
"""
TRIGGERED = TEXT.replace('tasks = ["a", "b"]', 'tasks = ["a", "b"]\nlinks = ["triggered"]').replace(
    'priority = 8\nperiod = "10ms"\nreleases = "periodic"', 'priority = 8\nperiod = "10ms"'
)


def file(text: str = TEXT) -> TasksetFile:
    return taskset.parse(Path("tasks.toml"), text)


def job(task: str, number: int, release: float, start: float, end: float) -> list[Event]:
    """The events of a job; times in ms."""
    times = [int(time * MS) for time in (release, start, end)]
    return [
        Event(times[0], Kind.RELEASE, task, number),
        Event(times[1], Kind.START, task, number, times[1] - times[0], detail=f"{task}-1"),
        Event(times[2], Kind.COMPLETE, task, number, times[2] - times[0], detail=f"{task}-1"),
    ]


def ordered(*jobs: list[Event]) -> list[Event]:
    return sorted((event for one in jobs for event in one), key=lambda event: event.time)


def well(count: int = 4) -> list[list[Event]]:
    """a from 0 to 2 and b from 5 to 7 of each 10 ms: b reads what a wrote 3 ms before."""
    return [one for n in range(count) for one in (
        job("a", n, 10 * n, 10 * n, 10 * n + 2), job("b", n, 10 * n + 5, 10 * n + 5, 10 * n + 7),
    )]  # fmt: skip


def found(
    loaded: TasksetFile, events: Iterable[Event], until: float = 0, bounds: dict[str, int] | None = None
) -> tuple[list[Finding], dict[str, int]]:
    judge = Judge(loaded, bounds or {})
    told = [one for event in events for one in judge.feed(event)]
    told += judge.advance(int(until * MS))
    (chain,) = judge.chains
    return [one for one in told if one.what is What.CHAIN], {key: value // MS for key, value in chain.seen.items()}


def test_what_is_measured_of_jobs() -> None:
    """An event just after a's start at 0 is in the output at 17; that at 7 is of 0, and is replaced at 17."""
    told, seen = found(file(), ordered(*well()))
    assert (told, seen) == ([], {"max_reaction": 17, "max_age": 17, "max_age_at_output": 7})


def test_an_event_that_releases_the_first_task_counts_from_there() -> None:
    text = TEXT.replace("max_reaction", 'stimulus = "event"\nmax_reaction')
    jobs = well()
    jobs[2] = job("a", 1, 10, 12, 14)
    assert found(file(text), ordered(*jobs))[1]["max_reaction"] == 7


def test_a_late_consumer_breaks_the_age_once_and_before_it_is_over() -> None:
    """Nothing replaces the output at 7, of the event at 0: at 25 it is too old."""
    jobs = [*well(1), *(job("a", n, 10 * n, 10 * n, 10 * n + 2) for n in (1, 2, 3))]
    told, seen = found(file(), ordered(*jobs), 32)
    assert [(one.what.sort, one.text) for one in told] == [
        (Sort.PROMISE, "chain c: max_age was 30 ms, and the file allows 25 ms")
    ]
    assert "max_age" not in seen  # no output has come yet
    told, seen = found(file(), ordered(*jobs, job("b", 1, 35, 35, 37)), 37)
    assert [one.text for one in told] == [
        "chain c: max_age was 30 ms, and the file allows 25 ms",
        "chain c: max_reaction was 37 ms, and the file allows 25 ms",  # a's start at 0, or just after it
    ]
    assert seen["max_age"] == 37


def test_a_producer_that_fails_to_write_in_time_makes_the_output_old() -> None:
    jobs = well()
    jobs[2] = job("a", 1, 10, 10, 15.5)  # after b's start
    told, seen = found(file(), ordered(*jobs))
    assert [one.text for one in told] == [
        "chain c: max_age_at_output was 17 ms, and the file allows 15 ms",
        "chain c: max_reaction was 27 ms, and the file allows 25 ms",
        "chain c: max_age was 27 ms, and the file allows 25 ms",
    ]
    assert seen == {"max_reaction": 27, "max_age": 27, "max_age_at_output": 17}


def test_bounds_are_compared_as_well_as_limits() -> None:
    told, _ = found(file(), ordered(*well()), bounds={"a": MS, "b": MS})
    assert [one.text for one in told if "max_age_at_output" not in one.text] == []
    late, _ = found(file(), ordered(job("a", 0, 0, 0, 2), job("b", 0, 5, 5, 19)), bounds={"a": 2 * MS, "b": 2 * MS})
    assert [one.text for one in late] == [
        "chain c: max_age_at_output was 19 ms, and its bound is 14 ms",
        "chain c: max_age_at_output was 19 ms, and the file allows 15 ms",
    ]


def test_a_triggered_job_is_the_one_that_its_producer_released_however_late_that_says_it_is_over() -> None:
    """The program of a tells b at 1.5, and b is over before a's mark comes."""
    jobs = [one for n in range(3) for one in (
        job("a", n, 10 * n, 10 * n, 10 * n + 2), job("b", n, 10 * n + 1.5, 10 * n + 1.6, 10 * n + 1.9),
    )]  # fmt: skip
    _, seen = found(file(TRIGGERED), ordered(*jobs))
    assert seen == {"max_reaction": 11, "max_age": 11, "max_age_at_output": 1}
    _, seen = found(file(), ordered(*jobs))  # sampled: b reads what a wrote at 2
    assert seen == {"max_reaction": 21, "max_age": 21, "max_age_at_output": 11}


def test_a_triggered_job_is_of_the_producers_job_of_its_number() -> None:
    """b is told so late that a's next job has started: only the numbers say which of them released it."""
    def of(numbers: int) -> dict[str, int]:
        jobs = [one for n in range(4) for one in (
            job("a", n, 10 * n, 10 * n, 10 * n + 2), job("b", n + numbers, 10 * n + 11, 10 * n + 11, 10 * n + 12),
        )]  # fmt: skip
        return found(file(TRIGGERED), ordered(*jobs))[1]

    assert of(0) == {"max_reaction": 22, "max_age": 22, "max_age_at_output": 12}
    assert of(7) == {"max_reaction": 12, "max_age": 12, "max_age_at_output": 12}  # a's numbers are other ones


def test_a_job_that_ends_sooner_than_its_best_case_breaks_what_the_bound_of_the_next_rests_on() -> None:
    """b's jobs come as far apart as a's take at least; the run of another file with the same worst cases shows less."""
    best = '{ worst = "2ms", best = "1ms" }'
    loaded = file(TRIGGERED.replace('cpu = "2ms"', f"cpu = {best}", 1))
    events = ordered(job("a", 0, 0, 0, 1), job("b", 0, 1, 1, 3), job("a", 1, 10, 10, 10.9), job("b", 1, 10.9, 11, 13))
    judge = Judge(loaded, {"a": 2 * MS, "b": 5 * MS // 2})
    told = [one for event in events for one in judge.feed(event)]
    assert [(one.what, one.task, one.job) for one in told] == [(What.CPU_TIME, "a", 1)]
    assert "sooner than the best cases" in told[0].text
    assert told[0].line().endswith(": 0.900000 ms, not 1.000000 ms at least")
    sampled = Judge(file(TEXT.replace('cpu = "2ms"', f"cpu = {best}", 1)), {})
    assert not [one for event in events if event.task == "a" for one in sampled.feed(event)]


def test_what_was_lost_is_not_judged() -> None:
    """Else b at 45 would rest on a at 0."""
    lost = [Event(8 * MS, Kind.LOST)]
    told, seen = found(file(), ordered(*well(1), lost, job("b", 4, 45, 45, 47)), 50)
    assert (told, seen) == ([], {"max_age_at_output": 7})
    gone = [Event(8 * MS, Kind.GONE, "b", detail="b-1")]
    assert found(file(), ordered(*well(1), gone), 50)[0] == []
    stranger = [Event(8 * MS, Kind.GONE, "x", detail="x-1")]
    assert len(found(file(), ordered(*well(1), stranger), 50)[0]) == 1


def test_the_answer_is_no_where_nothing_of_a_limited_chain_was_seen() -> None:
    def of(events: Iterable[Event]) -> str:
        judge = Judge(file(), {})
        told = [one for event in events for one in judge.feed(event)]
        return why_no(Judged(task_lines(judge, {}), told, judge.chains))

    assert of(ordered(*well())) == ""
    assert of(ordered(job("b", 0, 5, 5, 7), job("a", 0, 10, 10, 12))) == (
        "chain c: no max_reaction was seen, for no output with a whole chain behind it was"
    )


def with_a_chain(rng: random.Random) -> Taskset | None:
    """A random taskset that the test bounds, whose tasks are periodic, with a chain of two or three of them."""
    made = random_taskset(rng)
    real = list(made.real_time)
    if len(real) < 2 or not TEST.run(made).schedulable:
        return None
    chain = Chain("c", tuple(t.name for t in rng.sample(real, rng.randint(2, min(3, len(real))))))
    return replace(made, tasks=tuple(replace(t, max_period=t.period) for t in made), chains=(chain,))


def test_simulations_of_random_files_are_within_their_bounds_and_not_within_less() -> None:
    """The joint: what is seen, taken for the limit, holds, and 1 ns less is exceeded, by exactly what was seen."""
    rng, looked, planted = random.Random("judged chains"), 0, 0
    for _ in range(40 * MANY):
        made = with_a_chain(rng)
        if made is None:
            continue
        options = replace(next(iter(ways(TEST, made, rng))), sporadic=False)
        trace = simulate(made, options, [rng.randrange(t.period) for t in made], events=20_000).trace
        assert trace is not None
        seen = observed(made.chains[0], trace, made)
        loaded = TasksetFile(Path("x.toml"), made)
        answer = judged(trace, loaded, TEST)
        assert not [one for one in answer.findings if one.what is What.CHAIN], (made, answer.findings)
        assert Observed(**answer.chains[0].seen) == seen
        latencies = bound_of(made.chains[0], made, TEST.run(made)).latencies
        assert answer.chains[0].bounds == {key: one.bound for key, one in latencies.items()}
        looked += 1
        for key in MEASURE_KEYS:
            value = getattr(seen, key)
            if value is None or value < 2:
                continue
            allowed = {key: value}
            less = {key: value - 1}
            for limits, broken in ((allowed, False), (less, True)):
                limited = replace(made, chains=(replace(made.chains[0], **limits),))
                told = judged(trace, replace(loaded, taskset=limited), None)
                late = [one for one in told.findings if one.what is What.CHAIN and one.time <= last_end(trace, made)]
                assert bool(late) == broken, (key, value, limited)
            planted += 1
    assert (looked >= 8 * MANY, planted >= 15 * MANY) == (True, True), (looked, planted)


def last_end(trace: Trace, made: Taskset) -> int:
    """After that the last output gets older than any before it."""
    last = made.chains[0].tasks[-1]
    return max(event.time for event in trace.events if event.kind is Kind.COMPLETE and event.task == last)


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def test_trace_check_and_report_say_what_was_seen_of_a_chain(gpurt: Gpurt, tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    path = tmp_path / "tasks.toml"
    path.write_text(EXAMPLE.read_text())
    made = simulate(taskset.load(path).taskset, Options("boosted", horizon=400 * MS), events=100_000).trace
    assert made is not None
    made.save(trace)
    code, out, _ = gpurt("trace", "check", trace, path, "--json")
    document = json.loads(out)
    seen = document["chains"]["brake"]["max_age"]
    assert (code, seen["holds"], seen["allowed_ns"], seen["bound_ns"]) == (0, True, 90 * MS, 83_400_000)
    assert any("no event says which value" in note for note in document["notes"])
    path.write_text(EXAMPLE.read_text().replace('max_age = "90ms"', f'max_age = "{seen["seen_ns"] - 1}ns"'))
    code, out, _ = gpurt("trace", "check", trace, path)
    assert code == 1
    assert "EXCEEDED" in out
    assert "NO: chain: chain brake: max_age was" in out
