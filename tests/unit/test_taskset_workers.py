# SPDX-License-Identifier: GPL-2.0
"""Workers of tasks in a taskset file: what is read, each mistake with its line and its cure, and who refuses them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from calls import everywhere
from click.testing import CliRunner
from fit_cases import VIRTUAL, Fake, under, updates
from texts import mistakes, taskset_of

from analysis.model import MS, CpuSegment, Fork, Span
from analysis.taskset import json_schema, load
from analysis.taskset.text import tomllib
from analysis.traces.trace import Event, Kind
from analysis.traces.trace import load_trace as load_trace
from gpurt.errors import TasksetError
from pycontrol import cli
from pycontrol.link.control import connect
from pycontrol.observe.fit import fit
from pycontrol.observe.judge.judge import Judge

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/every-key-of-workers.toml"
#: The refusal of commands that know nothing of workers: what, where, and what to do.
REFUSED = (
    "every-key-of-workers.toml:22: task planner: workers: no plan is for them, and `gpurt run FILE` starts none ("
    "`gpurt run --group` does); analyze, apply, attack, margins, report, simulate, trace check and watch know them"
)
GOOD = """[platform]
cpus = 2
epsilon = "1ms"
[[task]]
name = "plan"
cpu = 0
priority = 20
gpu_priority = 30
period = "100ms"
deadline = "90ms"
group = "plan"
segments = [{ cpu = "1ms" }, { workers = ["left", "right"] }, { cpu = "2ms" }]
[[task]]
name = "left"
cpu = 1
priority = 10
segments = [{ misc = "1ms", gpu = "3ms" }]
[[task]]
name = "right"
cpu = 0
priority = 9
segments = [{ cpu = "3ms" }]
"""


def test_workers_have_the_period_the_deadline_the_level_and_the_group_of_their_task(tmp_path: Path) -> None:
    (path := tmp_path / "set.toml").write_text(GOOD)
    file = load(path)
    plan, left, right = file.taskset
    assert file.taskset.forks == (Fork("plan", 1, ("left", "right")),)
    assert plan.segments == (CpuSegment(Span.exactly(MS)), CpuSegment(Span.exactly(2 * MS)))
    for one in (plan, left, right):
        assert (one.period, one.deadline, one.segment_priority) == (100 * MS, 90 * MS, 30)
        assert file.launch[one.name].group == "plan"
    assert file.unmodelled == ()


def test_copies_before_and_after_the_workers_are_segments_of_their_own(tmp_path: Path) -> None:
    segments = '[{ copy = "1ms" }, { workers = ["left", "right"] }, { copy = "2ms" }]'
    text = GOOD.replace('[{ cpu = "1ms" }, { workers = ["left", "right"] }, { cpu = "2ms" }]', segments)
    system = taskset_of(tmp_path / "set.toml", text)
    assert [s.pure.worst for s in system.tasks[0].gpu_segments] == [MS, 2 * MS]
    assert system.forks[0].after == 1


def test_the_schema_takes_the_example() -> None:
    jsonschema.validate(tomllib.loads(EXAMPLE.read_text()), json_schema())


WRONG = [
    ('"right"] }', '"rihgt"] }', [(12, 'workers: no [[task]] is called "rihgt"'),
                                  (18, 'task[3]: "period" is missing: minimum time between releases')]),
    ('"right"] }', '"left"] }', [(12, "workers: left is a worker of plan already"),
                                 (18, 'task[3]: "period" is missing: minimum time between releases')]),
    ('"right"] }', '"right", "plan"] }', [(12, "workers: plan cannot be its own worker")]),
    ('group = "plan"\n', "", [(11, 'workers: plan and its workers own the GPU as a group: name it, group = "plan"')]),
    ("priority = 10", 'priority = 10\nperiod = "1ms"', [(17, "period: left is a worker of plan: leave it out")]),
    ("priority = 10", 'priority = 10\ngroup = "x"', [(17, "group: left is a worker of plan: leave it out")]),
    ("priority = 10", "priority = 10\njitter = '1ms'", [(17, "jitter: left is a worker of plan: leave it out")]),
    ("priority = 10", "priority = 0", [(12, "workers: left is best effort: only real-time tasks have or are workers")]),
    ('{ cpu = "3ms" }', '{ workers = ["left"] }', [
        (12, "workers: right has workers itself: no bound is known for nested forks"),
        (22, "workers: left is a worker of plan already"),
    ]),
    ('"left", "right"] }, { cpu = "2ms" }', '"left"] }, { workers = ["right"] }',
     [(12, "workers: plan starts workers more than once in a job: no bound is known")]),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "found"), WRONG)
def test_each_mistake_has_a_line_and_a_cure(
    tmp_path: Path, good: str, bad: str, found: list[tuple[int, str]]
) -> None:
    assert GOOD.count(good) == 1
    assert mistakes(tmp_path / "set.toml", GOOD.replace(good, bad)) == found


def test_a_wrong_period_is_told_once(tmp_path: Path) -> None:
    assert [line for line, _ in mistakes(tmp_path / "set.toml", GOOD.replace('"100ms"', "100"))] == [9]


def test_a_worker_is_in_no_chain(tmp_path: Path) -> None:
    chain = '[[chain]]\nname = "c"\ntasks = ["left", "plan"]\n'
    assert mistakes(tmp_path / "set.toml", GOOD + chain) == [(25, "tasks: left is a worker of plan: name that task")]


def test_another_task_in_the_group_has_no_bound(tmp_path: Path) -> None:
    keys = 'name = "x"\ncpu = 1\npriority = 1\nperiod = "100ms"\ngroup = "plan"\nsegments = [{ cpu = "1ms" }]'
    (path := tmp_path / "set.toml").write_text(f"{GOOD}[[task]]\n{keys}\n")
    (problem,) = load(path).unmodelled
    assert "task x: group plan: no bound is known for groups, except of a task and its workers" in problem.message


def test_a_group_has_the_highest_priority_of_its_members_unless_stated(tmp_path: Path) -> None:
    """A host that is told nothing else gives it that one, and bounds must be of the same."""
    text = EXAMPLE.read_text().replace("gpu_priority = 20", "").replace("priority = 20", "priority = 25", 3)
    (path := tmp_path / "set.toml").write_text(text.replace("priority = 25", "priority = 20", 1))
    with pytest.raises(TasksetError, match=r"state it, gpu_priority = 25") as error:
        load(path)
    assert len(error.value.problems) == 1


def test_copies_and_kernels_of_a_group_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No command that refuses workers is proposed as a cure."""
    text = EXAMPLE.read_text().replace("[platform]\n", "[platform]\ncompute_units = 8\n")
    text = text.replace('{ misc = "0.5ms", gpu = "3ms" }', '{ kernel = "1ms", overhead = "0ms" }, { kernel = "1ms" }')
    (path := tmp_path / "set.toml").write_text(text)
    assert cli.run(["analyze", str(path)]) == 1
    out = capsys.readouterr().out
    assert "no bound for copies and kernels in a row in a group of workers, as right has" in out
    assert "plan modes" not in out
    assert "margins" not in out


def test_equal_levels_within_a_group_are_no_remark(tmp_path: Path) -> None:
    (path := tmp_path / "set.toml").write_text(GOOD)
    assert not any("same priority for the GPU" in note for note in load(path).notes)


@pytest.mark.parametrize(
    "command",
    [["run"], ["plan", "modes"], ["plan", "priorities"], ["plan", "units"], ["plan", "partitions"]],
)
def test_commands_that_know_nothing_of_workers_refuse_them(command: list[str]) -> None:
    done = CliRunner().invoke(cli.cli, [*command, str(EXAMPLE)])
    assert isinstance(done.exception, TasksetError)
    assert str(done.exception).endswith(REFUSED)


@pytest.mark.parametrize("command", [["analyze"], ["simulate", "--runs", "3"], ["margins"]])
def test_commands_that_know_workers(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*command, str(EXAMPLE)]) == 0
    assert "planner" in capsys.readouterr().out


@pytest.mark.parametrize(("longest", "code"), [(200_000, 0), (5_000_000, 1)])
def test_measured_updates_are_those_of_a_file_that_states_them(
    longest: int, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One question has one answer: bounds and exit code are what `analyze` says of a file with that alpha."""
    virtual = replace(VIRTUAL, alpha_ns=0, theta_ns=0, normal_priorities=30)
    host = under("boosted", virtual, latency=[updates(longest)])
    everywhere(monkeypatch, fit.ask, lambda *_: host)
    everywhere(monkeypatch, connect, lambda *_: Fake(host))
    (path := tmp_path / "set.toml").write_text(EXAMPLE.read_text().replace('"0.2ms"', f'"{longest}ns"'))
    words = (["analyze", str(EXAMPLE), "--measured", "--margin", "0%"], ["analyze", str(path)])
    measured, stated = [(cli.run([*one, "--json"]), json.loads(capsys.readouterr().out)) for one in words]
    assert measured[0] == stated[0] == code
    assert [measured[1][key] for key in ("tests", "why", "schedulable")] == [
        stated[1][key] for key in ("tests", "why", "schedulable")
    ]
    assert measured[1]["objections"] == []
    assert measured[1]["tests"] or code


@pytest.mark.parametrize(("hold", "beyond"), [("", 16 * MS), (", hold = true", 20 * MS)])
def test_traces_are_checked_from_the_release_of_a_task_to_its_end(
    hold: str, beyond: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker's jobs count from that release, too, and one of which nothing was seen is missed nowhere."""
    run, late, path = tmp_path / "run.json", tmp_path / "late.json", tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text().replace('"right"] }', f'"right"]{hold} }}'))
    assert any(fork.hold for fork in load(path).taskset.forks) == bool(hold)
    assert cli.run(["simulate", str(path), "--runs", "1", "-o", str(run)]) == 0
    trace = load_trace(run)
    seen = tuple(one for one in trace.events if one.task != "right")
    replace(trace, events=seen).save(run)
    capsys.readouterr()
    assert cli.run(["trace", "check", str(run), str(path)]) == 0
    assert "right" not in capsys.readouterr().out
    last = max(seen, key=lambda one: one.time if (one.task, one.kind) == ("left", Kind.COMPLETE) else 0)
    assert last.duration is not None
    more = beyond - last.duration
    events = (*(one for one in seen if one is not last), replace(last, time=last.time + more, duration=beyond))
    replace(trace, events=tuple(sorted(events, key=lambda one: one.time))).save(late)
    assert cli.run(["trace", "check", str(late), str(path)]) == 1
    assert "NO: left exceeded its bound" in capsys.readouterr().out


@pytest.mark.parametrize(("group", "told"), [("planner", ""), (None, "one of no group"), ("x", "one of group x")])
def test_a_segment_outside_the_group_is_told(group: str | None, told: str) -> None:
    judge = Judge(load(EXAMPLE), {})
    found = judge.feed(Event(MS, Kind.BEGIN, "left", gpu=0, group=group))
    texts = [one.text for one in found if "the file says group planner" in one.text]
    assert len(texts) == bool(told)
    assert all(told in text for text in texts)


def test_a_segment_in_another_users_group_of_that_name_is_told() -> None:
    judge = Judge(load(EXAMPLE), {})
    found = [
        one for at, (task, user) in enumerate([
            ("plan", None), ("plan", "ann"), ("left", "ann"), ("right", "bob"), ("left", None)
        ])
        for one in judge.feed(Event(at, Kind.BEGIN, task, gpu=0, group="planner", user=user))
        if "the file says group planner" in one.text
    ]  # fmt: skip
    assert [(one.task, "user bob's group" in one.text) for one in found] == [("right", True)]


def test_a_tiny_file_is_compared_with_all_its_schedules(tmp_path: Path) -> None:
    text = GOOD.replace("100ms", "20ms").replace("90ms", "20ms").replace('"1ms"\n[[task]]', '"1ms"\n[[task]]')
    (path := tmp_path / "set.toml").write_text(text.replace("epsilon", 'time_slice = "1ms"\nepsilon'))
    done = CliRunner().invoke(cli.cli, ["attack", str(path)])
    assert done.exit_code == 0, done.output
    assert "EXCEEDED" not in done.output
