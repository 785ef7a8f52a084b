# SPDX-License-Identifier: GPL-2.0
"""`gpurt trace check` says yes only of a trace of this system that shows everything, and nothing wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from placed import COUPLED

from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load as load_taskset
from analysis.traces.trace import HOST, About, Event, Kind, Trace, costs_of
from pycontrol.observe.judge.check import Judged, TaskCheck, why_no

ROOT = Path(__file__).resolve().parents[2]
TWO = ROOT / "examples/two-programs.toml"
TEST = ("--test", "boosted-suspend")


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


@pytest.fixture(scope="module")
def run() -> Trace:
    trace = simulate(load_taskset(TWO).taskset, Options("boosted", horizon=2 * 10**9), events=100_000).trace
    assert trace
    return trace


def checked(gpurt: Gpurt, trace: Trace, path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    trace.save(path)
    code, out, err = gpurt("trace", "check", path, TWO, "--json", *options)
    assert err == ""
    document = json.loads(out)
    assert (code == 0, code == 1) == (document["in_time"], document["why"] is not None)
    return code, document


def test_a_run_of_the_system_in_which_all_is_well(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    for options in ((), TEST):
        assert checked(gpurt, run, tmp_path / "run.json", *options)[0] == 0


def test_a_missed_deadline_is_told_before_another_tasks_bound() -> None:
    above, missed = TaskCheck("a", 1, 9, 8, 20, 0, False, 1, None), TaskCheck("b", 1, 30, 8, 20, 1, False, 1, None)
    assert why_no(Judged((above, missed), ())) == "b missed a deadline"
    assert why_no(Judged((above,), ())) == "a exceeded its bound"


def test_a_trace_of_another_taskset_is_refused(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    known, detector = run.tasks, run.tasks["detector"]
    others = {
        "has task \\x1b[31m, which the file lacks": replace(run, tasks={**known, "\x1b[31m": About(1, 5)}),
        "lacks the file's task mapper": replace(run, tasks={"detector": detector}),
        "priority 3 there": replace(run, tasks={**known, "detector": replace(detector, priority=3)}),
        "deadline of 0.000001 ms there": replace(run, tasks={**known, "detector": replace(detector, deadline=1)}),
        "other periods or worst-case times": replace(run, meta={**run.meta, "times": "0123456789abcdef"}),
    }
    path = tmp_path / "run.json"
    for why, trace in others.items():
        trace.save(path)
        for options in ((), TEST, ("--json",)):
            code, out, err = gpurt("trace", "check", path, TWO, *options)
            assert (code, out, err.count("\n")) == (3, "", 1), why
            assert why in (json.loads(err)["error"]["message"] if options == ("--json",) else err)
            assert "record it again" in err


def test_a_run_in_another_waiting_mode_than_the_files(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """As `gpurt simulate --waiting busy` writes it: all in time, and of another system."""
    for waiting, well in (("suspend", True), ("busy", False), ("per task", True)):
        code, told = checked(gpurt, replace(run, meta={**run.meta, "waiting": waiting}), tmp_path / "run.json")
        assert (code == 0) == well
        assert well or told["why"].startswith("in the run every task waited in mode busy, the file says otherwise")


LOCK = """[[resource]]
name = "map"
protocol = "inheritance"
sections = [{ task = "mapper", time = "1us" }]
"""


@pytest.mark.parametrize(("key", "old", "new"), [
    ("form", "priority = 10\n", 'priority = 10\nform = "owner"\n'), ("cpu", "cpu = 1", "cpu = 0"),
    ("GPU priority", "priority = 10\n", "priority = 10\ngpu_priority = 30\n"),
    ("waiting mode", 'waiting = "suspend"\n', 'waiting = "busy"\n'),
    ("jitter", "priority = 10\n", 'priority = 10\njitter = "1ms"\n'),
    ("process", "priority = 10\n", 'priority = 10\nprocess = "one"\n'),
    ("resource", "[platform]\n", f"{LOCK}[platform]\n"),
])  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
def test_a_run_of_tasks_in_other_places_is_of_another_system(
    gpurt: Gpurt, tmp_path: Path, key: str, old: str, new: str, before: bool
) -> None:
    """Each met its deadline there because the other one was on another CPU, or was less urgent on the GPU."""
    one, other, path = tmp_path / "one.toml", tmp_path / "other.toml", tmp_path / "run.json"
    text = TWO.read_text()
    assert old in text, key
    one.write_text(text)
    other.write_text(text.replace(old, new))
    ran, now = (one, other) if before else (other, one)
    trace = simulate(load_taskset(ran).taskset, Options("boosted", horizon=2 * 10**9), events=100_000).trace
    assert trace
    trace.save(path)
    assert gpurt("trace", "check", path, ran)[0] in (0, 1)
    code, out, err = gpurt("trace", "check", path, now)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "other CPUs, GPU priorities, partitions or waiting modes than the file's, or have other" in err


YIELD = 'begin = "yield"\nyield = { slice = "500us", groups = 1, decision = "50us", stall = "0us" }\n'


@pytest.mark.parametrize(("policy", "one", "other"), [
    ("segment", "", YIELD), ("timesliced", 'slice = "1ms"', 'slice = "2ms"'),
    ("timesliced", 'slice = "1ms"', 'slice = "1ms"\ninterleave = "high"'),
])  # fmt: skip
def test_a_run_whose_tasks_share_the_gpu_otherwise_is_of_another_system(
    gpurt: Gpurt, tmp_path: Path, policy: str, one: str, other: str
) -> None:
    files = [tmp_path / "one.toml", tmp_path / "other.toml"]
    for file, what in zip(files, (one, other), strict=True):
        text = TWO.read_text().replace("[platform]\n", f'[platform]\npolicy = "{policy}"\n', 1)
        if policy == "segment":
            text = text.replace("[platform]\n", f"[platform]\n{what}", 1)
        else:
            text = text.replace("priority = 10\n", 'priority = 10\npartition = "p"\n')
            text += f'\n[[partition]]\nname = "p"\n{what}\n'
        file.write_text(text)
        trace = simulate(load_taskset(file).taskset, Options(policy, horizon=2 * 10**9), events=100_000).trace
        assert trace
        trace.save(file.with_suffix(".json"))
    for file in files:
        assert [gpurt("trace", "check", run.with_suffix(".json"), file)[0] == 3 for run in files] == [
            run != file for run in files
        ]


@pytest.mark.parametrize(("policy", "one", "other"), [
    ("boosted", "", 'alpha = "2ms"\ntheta = "300us"'), ("boosted", "", 'region = "3ms"'),
    ("boosted", "", 'cpu_latency = "1ms"'), ("segment", 'region = "200us"', 'region = "201us"'),
    ("timesliced", 'time_slice = "1ms"', 'time_slice = "2ms"'),
])  # fmt: skip
def test_a_run_in_which_updates_or_switches_cost_less_is_of_another_system(
    gpurt: Gpurt, tmp_path: Path, policy: str, one: str, other: str
) -> None:
    """A simulation has the costs of its file: that it kept the bounds of another one shows nothing."""
    files = [tmp_path / "one.toml", tmp_path / "other.toml"]
    for file, what in zip(files, (one, other), strict=True):
        text = TWO.read_text().replace("[platform]\n", f'[platform]\npolicy = "{policy}"\n{what}\n', 1)
        if "alpha" in what:
            text = re.sub('epsilon = "1ms".*\ntheta.*\n', "", text)
        file.write_text(text)
        gpurt("simulate", file, "--runs", 1, "-o", file.with_suffix(".json"))
    for file in files:
        assert [gpurt("trace", "check", run.with_suffix(".json"), file)[0] == 3 for run in files] == [
            run != file for run in files
        ]


def test_a_run_with_other_chunks_of_copies_is_of_another_system(gpurt: Gpurt, tmp_path: Path) -> None:
    file, other, path = ROOT / "examples/federated.toml", tmp_path / "other.toml", tmp_path / "run.json"
    other.write_text(file.read_text().replace("[platform]", '[platform]\nbus_chunk = "500us"'))
    for simulated, code in ((file, False), (other, True)):
        gpurt("simulate", simulated, "--runs", 1, "-o", path)
        assert (gpurt("trace", "check", path, file)[0] == 3) is code


def test_programs_that_ended_early_are_no_evidence_for_the_rest_of_the_run(
    gpurt: Gpurt, run: Trace, tmp_path: Path
) -> None:
    gone = replace(run.tasks["detector"], ended=run.end // 2)
    events = tuple(one for one in run.events if one.task != "detector" or one.time < run.end // 2)
    short = replace(run, events=events, tasks={**run.tasks, "detector": gone})
    code, document = checked(gpurt, short, tmp_path / "run.json", *TEST)
    assert (code, document["why"]) == (1, "jobs of detector are missing: the program ended before the run did")


def test_a_simulation_that_stands_still_is_not_over(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """Nothing happens any more after a deadlock, and jobs are late all the same."""
    stuck = min(one.time for one in run.events if one.kind is Kind.BEGIN and one.time > run.end // 2)
    events = tuple(one for one in run.events if one.time <= stuck)
    code, document = checked(gpurt, replace(run, events=events), tmp_path / "run.json")
    assert (code, document["why"]) == (1, "detector missed a deadline")


def test_a_file_with_larger_times_was_not_what_executed(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """Its deadlines and priorities are the same, and nothing that was seen exceeds its times."""
    slower, path = tmp_path / "slower.toml", tmp_path / "run.json"
    slower.write_text(TWO.read_text().replace('worst = "8ms"', 'worst = "9ms"'))
    run.save(path)
    assert gpurt("trace", "check", path, TWO)[0] == 0
    assert gpurt("trace", "check", path, slower)[0] == 3
    for fact in ("policy", "waiting", "times", "placed", "costs"):
        replace(run, meta={key: value for key, value in run.meta.items() if key != fact}).save(path)
        code, _, err = gpurt("trace", "check", path, TWO)
        assert (code, f"it does not say {fact}" in err) == (3, True)
    for lacks in ({"tasks": {}}, {"meta": run.meta | {"clock": "CLOCK_MONOTONIC", HOST: "{}"}}):  # how it was placed
        replace(run, **lacks).save(path)
        assert gpurt("trace", "check", path, TWO)[0] == 3


@pytest.mark.parametrize(("key", "value", "why"), [
    ("policy", "segment", "under policy segment"), ("policy", "", "under policy unknown"),
    ("placement", "folded", "folded"), ("scheduling", "default class", "not permitted SCHED_FIFO"),
    ("waiting", "busy", "waited in mode busy"),
])  # fmt: skip
def test_bounds_are_not_compared_with_another_kind_of_run(
    gpurt: Gpurt, run: Trace, tmp_path: Path, key: str, value: str, why: str
) -> None:
    other = replace(run, meta={**run.meta, key: value})
    code, document = checked(gpurt, other, tmp_path / "run.json", *TEST)
    assert (code, document["comparable"]) == (1, False)
    assert re.match(rf"not compared with the bounds of boosted-suspend: .*{why}", document["why"])
    assert all(one["wcrt_ns"] is None for one in document["tasks"].values())
    code, document = checked(gpurt, other, tmp_path / "run.json")  # its deadlines were met, perhaps by that alone
    assert (code, document["comparable"], why in document["why"]) == (1, False, True)
    if key == "policy":
        assert document["why"] == f"the run was under policy {value or 'unknown'}, the file says boosted"


def test_bounds_of_partitions_are_for_a_gpu_each(gpurt: Gpurt, tmp_path: Path) -> None:
    file, path = tmp_path / "set.toml", tmp_path / "run.json"
    file.write_text(COUPLED)
    loaded = load_taskset(file).taskset
    policy = loaded.policies[0]
    trace = simulate(loaded, Options(policy, horizon=10**9), events=100_000).trace
    assert trace
    assert trace.meta["gpus"] == str(len(loaded.parts)) != "1"
    replace(trace, meta={**trace.meta, "gpus": "1"}).save(path)
    code, out, _ = gpurt("trace", "check", path, file, "--test", "gcaps-suspend", "--json")
    assert (code, json.loads(out)["comparable"]) == (1, False)
    assert "in 2 partitions, each for a GPU of its own, and the host orders 1 GPU" in json.loads(out)["why"]


def test_what_was_not_seen_is_no_yes(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    path, middle = tmp_path / "run.json", run.end // 2
    lost = Event(middle, Kind.LOST, detail="7 events lost")
    back = replace(run.events[-1], time=run.end + 3 * 10**9)
    traces = {
        "7 events lost": tuple(sorted((*run.events, lost), key=lambda event: event.time)),
        "the events' clock went back by": (*run.events[:20], back, *run.events[20:]),
        "no job of mapper was seen": tuple(event for event in run.events if event.task != "mapper"),
        "no job of detector, mapper was seen": (),
    }  # fmt: skip
    for why, events in traces.items():
        for options in ((), TEST):
            code, document = checked(gpurt, replace(run, events=events), path, *options)
            assert code == 1
            assert why in document["why"]
            assert document["why"].startswith("no job" if why.startswith("no job") else "not everything was seen: ")
    late = Event(run.end, Kind.COMPLETE, "detector", 999, 21_000_000)  # a miss is one, whatever else was lost
    missed = replace(run, events=(lost, *run.events, late))
    assert checked(gpurt, replace(run, events=(*run.events, lost, late)), path)[1]["why"].startswith("not everything")
    events = tuple(sorted(missed.events, key=lambda event: event.time))
    assert checked(gpurt, replace(run, events=events), path)[1]["why"] == "detector missed a deadline"


def test_two_runs_in_one_trace(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """One after the other they go back in time; in order of time the jobs of one are released when the other's are."""
    path = tmp_path / "run.json"
    code, document = checked(gpurt, replace(run, events=(*run.events, *run.events)), path)
    assert code == 1
    assert document["why"].startswith("not everything was seen: the events' clock went back by")
    later = tuple(replace(event, time=event.time + 10**6) for event in run.events)
    both = tuple(sorted((*run.events, *later), key=lambda event: event.time))
    code, document = checked(gpurt, replace(run, events=both), path)
    assert (code, "period" in {one["finding"] for one in document["findings"]}) == (1, True)
    run.save(path)
    path.write_bytes(path.read_bytes() * 2)
    code, out, err = gpurt("trace", "check", path, TWO)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "is not a complete JSON file: Extra data" in err


def test_broken_assumptions_are_no_yes(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    slow = Event(run.end, Kind.COMMIT, "", None, 10**9, gpu=0, detail="begin")
    code, document = checked(gpurt, replace(run, events=(*run.events, slow)), tmp_path / "run.json")
    assert code == 1
    assert document["why"].startswith("epsilon: a runlist update (begin) on GPU 0 took longer")
    code, out, err = gpurt("trace", "check", tmp_path / "run.json", TWO)
    assert (code, out.splitlines()[-1]) == (1, f"NO: {document['why']}")
    assert "an assumption of the analysis was broken" in err


def test_a_task_that_the_test_does_not_bound_is_no_yes(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    tight, path = tmp_path / "tight.toml", tmp_path / "run.json"
    tight.write_text(TWO.read_text().replace('epsilon = "1ms"', 'epsilon = "40ms"'))
    replace(run, meta={**run.meta, "costs": costs_of(load_taskset(tight).taskset)}).save(path)
    assert gpurt("trace", "check", path, tight)[0] == 0
    code, out, _ = gpurt("trace", "check", path, tight, *TEST, "--json")
    assert (code, json.loads(out)["why"]) == (1, "boosted-suspend has no bound of detector, mapper")


def test_a_response_above_a_bound_is_a_no_of_check_and_of_report(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """No deadline is missed; without a test named, too."""
    ends = [event for event in run.events if event.kind is Kind.COMPLETE and event.task == "detector"]
    late = [
        replace(event, time=event.time + 4 * 10**6, duration=(event.duration or 0) + 4 * 10**6)
        if event is ends[-2] else event
        for event in run.events
    ]  # fmt: skip
    trace, path = replace(run, events=tuple(sorted(late, key=lambda event: event.time))), tmp_path / "run.json"
    code, document = checked(gpurt, trace, path)
    assert (code, document["test"], document["tasks"]["detector"]["verdict"]) == (1, "boosted-suspend", "above-bound")
    assert document["why"] == "detector exceeded its bound", document["findings"]
    assert gpurt("report", TWO, "--trace", path, "--elsewhere", "-o", tmp_path / "page.html")[0] == 1


def test_a_job_that_is_not_done_within_its_bound_is_a_no(gpurt: Gpurt, run: Trace, tmp_path: Path) -> None:
    """Its deadline is yet to come, and its bound of 13.1 ms is over; no test is named."""
    hung = Event(run.end, Kind.RELEASE, "detector", 99_999)
    for after, well in ((13, True), (14, False)):
        trace = replace(run, events=(*run.events, hung), until=run.end + after * 10**6)
        code, document = checked(gpurt, trace, tmp_path / "run.json")
        assert (code == 0, document["why"]) == (well, None if well else "detector exceeded its bound")
