# SPDX-License-Identifier: GPL-2.0
"""Answers about a file under another policy than its own hold for the file with that policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.answers.choose import choices
from analysis.answers.elsewhere import of_policies
from analysis.answers.shared import Shared
from analysis.answers.verdict import answer
from analysis.model import Taskset, Waiting
from analysis.papers import registry
from analysis.rta.result import Reason
from analysis.simulation.simulate import Options, simulate
from analysis.taskset.file import load, parse
from pycontrol import cli
from pycontrol.commands.modes import _write

PLATFORM = """\
[platform]
cpus = 2
policy = "segment"
epsilon = "100us"
theta = "0ns"
time_slice = "1ms"
compute_units = 8
"""
TASK = """\
[[task]]
name = "{}"
cpu = {}
priority = {}
period = "{}ms"
segments = [{{ cpu = "{}ms" }}, {{ misc = "1ms", gpu = "{}ms" }}]
"""
THREE = [("a", 0, 3, 30, 5, 3), ("b", 0, 2, 40, 2, 5), ("c", 1, 1, 60, 2, 4)]


def read(text: str) -> Taskset:
    return parse(Path("set.toml"), text).taskset


def in_partition(own: str, other: str = 'policy = "segment"\n', beside: str = "") -> str:
    """Three tasks in partition v, which says ``own``, and partition w, which says ``other``, with ``beside``."""
    said = {"v": own, "w": other}
    homes = (f'[[partition]]\nname = "{name}"\ncompute_units = 4\n{text}\n' for name, text in said.items())
    tasks = "".join(TASK.format(*one) + 'partition = "v"\n' for one in THREE)
    return PLATFORM + "".join(homes) + tasks + beside


def with_best_effort(factor: str, segments: str = "") -> str:
    """A task of 4 ms that conflicts with best effort of its intensity, where that executes beside it."""
    task = TASK.format("a", 0, 3, 40, 1, 4) + f'intensity = "memory"\nconflict = {factor}\n'
    if segments:
        task = task.replace('{ misc = "1ms", gpu = "4ms" }', segments)
    return PLATFORM + task + TASK.format("be", 1, 0, 100, 1, 50) + 'intensity = "memory"\n'


@pytest.mark.parametrize("own", ["", 'policy = "segment"', 'policy = "timesliced"', 'policy = "lock-priority"'])
def test_what_is_chosen_holds_once_it_is_written(tmp_path: Path, own: str) -> None:
    """A partition keeps its own policy, whatever [platform] says: no mix of modes was true under another one."""
    path = tmp_path / "set.toml"
    path.write_text(in_partition(own))
    system = load(path).taskset
    best = choices(system)[0]
    assert best.schedulable
    _write(path, system, best)
    written = load(path).taskset
    assert written.policies == (best.policy,)
    again = registry.find(registry.find(best.test).base).run(written)
    assert {name: again.wcrt(name) for name in "abc"} == {name: best.result.wcrt(name) for name in "abc"}
    assert answer(written).schedulable


def test_no_lock_is_chosen_where_best_effort_of_another_partition_would_have_it() -> None:
    """Partition w would have the lock, too, whose updates nothing bounds."""
    beside = TASK.format("be", 1, 0, 100, 1, 5) + 'partition = "w"\n'
    found = choices(read(in_partition('policy = "lock-priority"', "", beside)))
    assert [choice.test for choice in found if choice.policy == "lock-priority"] == []


def test_best_effort_slows_a_task_down_under_timesliced_alone() -> None:
    """4 ms three times over are 12 slices, between which best effort has one of 1.024 each: 1 + 1 + 12 + 12.288."""
    other, own = read(with_best_effort("3")), read(with_best_effort("3").replace("segment", "timesliced", 1))
    assert (other.tasks[0].pure_time, own.tasks[0].pure_time) == (4_000_000, 12_000_000)
    test = registry.find("tsg-rr-suspend")
    assert test.run(other).wcrt("a") == test.run(own).wcrt("a") == 26_288_000
    (said,) = [choice.result.wcrt("a") for choice in choices(other) if choice.test == test.name]
    assert said == 26_288_000
    assert registry.find("gcaps-suspend").run(other).wcrt("a") < 7_000_000


def test_no_policy_is_named_for_times_of_another_one() -> None:
    """Under `segment` the task fails by its updates, and under `timesliced` by what best effort slows it down."""
    text = with_best_effort("9").replace('epsilon = "100us"', 'epsilon = "20ms"')
    assert not answer(read(text)).schedulable
    assert "policy timesliced" not in [one.system for one in of_policies(read(text))]
    apart = read(text.replace("conflict = 9", "conflict = 1"))
    assert "policy timesliced" in [one.system for one in of_policies(apart)]


def test_kernels_that_best_effort_would_slow_down_have_no_bound_under_timesliced() -> None:
    system = read(with_best_effort("3", '{ kernel_times = ["4ms"] }'))
    result = registry.find("tsg-rr-suspend").run(system)
    assert {failure.reason for failure in result.failures} == {Reason.PARTITIONS}
    assert "best effort slows tasks down" in result.why
    assert {choice.policy for choice in choices(system)} >= {"segment", "boosted"}
    assert "timesliced" not in {choice.policy for choice in choices(system)}


def test_tasks_in_time_partitions_share_their_units_and_conflict() -> None:
    """As without partitions, and as virtual GPUs count it: the name of a partition in time changes no cache."""
    alone = PLATFORM.replace("segment", "timesliced", 1)
    tasks = [TASK.format(name, at, 2 - at, 90, 1, 6) + 'intensity = "memory"\nconflict = 2\n'
             for at, name in enumerate("xy")]  # fmt: skip
    homes = [f'[[partition]]\nname = "{name}"\ninterleave = "low"\n' for name in "xy"]
    inside = [f'{one}partition = "{name}"\n' for one, name in zip(tasks, "xy", strict=True)]
    parted = alone + "".join([*homes, *inside])
    whole, apart = read(alone + "".join(tasks)), read(parted)
    assert [task.pure_time for task in apart] == [task.pure_time for task in whole] == [12_000_000] * 2
    bounds = registry.find("supply-fp").run(apart)
    seen = simulate(whole, Options("timesliced", contention=True, horizon=1))
    for name in "xy":
        wcrt = bounds.wcrt(name)
        assert wcrt is not None
        assert seen.tasks[name].worst <= wcrt
    halved = read(parted.replace("conflict = 2\n", ""))
    short = registry.find("supply-fp").run(halved)
    assert any(seen.tasks[name].worst > (short.wcrt(name) or 0) for name in "xy")


@pytest.mark.parametrize("policy", ["timesliced", "lock-priority", "lock-fifo"])
def test_a_simulation_shows_no_bound_that_lacks_the_cost_of_a_switch(policy: str) -> None:
    """As `gpurt analyze`: with epsilon alone these bounds took every switch to be free."""
    text = PLATFORM.replace("segment", policy) + "".join(TASK.format(*one) for one in THREE)
    known, unknown = (Shared(read(one), Options(policy)) for one in (text, text.replace('theta = "0ns"\n', "")))
    assert known.bounds().keys() == set("abc")
    assert not known.notes
    assert "theta" in answer(unknown.taskset).why
    assert unknown.bounds() == {}
    assert "theta is missing" in unknown.notes[0]
    assert Shared(unknown.taskset, Options("segment")).bounds().keys() == set("abc")


def test_a_simulation_has_the_times_of_its_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 ms of GPU work beside best effort, which executes at once under `timesliced` only."""
    path = tmp_path / "set.toml"
    path.write_text(with_best_effort("3"))
    worst = {}
    for policy in ("segment", "timesliced"):
        assert cli.run(["simulate", str(path), "--policy", policy, "--runs", "20", "--json"]) == 0
        seen = json.loads(capsys.readouterr().out)["tasks"]["a"]
        assert seen["mort_ns"] <= seen["wcrt_ns"]
        worst[policy] = seen["mort_ns"]
    assert worst["segment"] < 7_000_000 < 14_000_000 <= worst["timesliced"]


TURNS = """\
[platform]
cpus = 2
policy = "timesliced"
epsilon = "0ns"
theta = "0ns"
time_slice = "1ms"
[[partition]]
name = "p"
MORE
[[task]]
name = "a"
cpu = 0
priority = 2
period = "100ms"
deadline = "11ms"
segments = [{ misc = "0ms", gpu = "5ms" }]
[[task]]
name = "b"
cpu = 1
priority = 1
period = "100ms"
partition = "p"
segments = [{ misc = "0ms", gpu = "20ms" }]
"""


@pytest.mark.parametrize(
    ("more", "test"),
    [('slice = "10ms"\ninterleave = "high"', "tsg-rr-suspend"), ('shared = "deadline"', "gcaps-suspend"),
     ('shared = "deadline"', "supply-fp")],
)  # fmt: skip
def test_no_answer_is_about_other_turns_than_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, test: str
) -> None:
    """Between two of a's slices of 1 ms b has 10: with one slice for all a would be done in time."""
    path = tmp_path / "set.toml"
    path.write_text(TURNS.replace("MORE", more))
    assert cli.run(["analyze", str(path), "--test", test, "--json"]) == 1
    why = json.loads(capsys.readouterr().out)["why"]
    assert why == f"{test} is about other slices, levels and shared TSGs than the file's"
    path.write_text(TURNS.replace("MORE", 'interleave = "low"').replace('partition = "p"\n', ""))
    cli.run(["analyze", str(path), "--test", test, "--json"])
    assert json.loads(capsys.readouterr().out)["tests"][0]["schedulable"]


def test_updates_of_best_effort_have_a_cost_that_the_file_says() -> None:
    """Under lock-* best effort updates the runlist on its CPU, which holds up a task that uses no GPU: 1 ms, or 6."""
    text = PLATFORM.replace("segment", "lock-priority").replace("100us", "5ms") + TASK.format("be", 0, 0, 50, 1, 5)
    text += '[[task]]\nname = "c"\ncpu = 0\npriority = 1\nperiod = "50ms"\nsegments = [{ cpu = "1ms" }]\n'
    system = read(text)
    seen = simulate(system, Options("lock-priority", horizon=2_000_000), [0, 1_000_001]).tasks["c"].worst
    assert seen > 5_900_000
    assert answer(system).result.wcrt("c") == 6_000_000
    unknown = parse(Path("set.toml"), text.replace('epsilon = "5ms"\n', ""))
    assert [(problem.line, "epsilon is missing" in problem.message) for problem in unknown.lacks] == [(1, True)]
    assert not parse(Path("set.toml"), text[: text.index("[[task]]")] + text[text.rindex("[[task]]") :]).lacks


def test_a_simulation_in_one_mode_shows_the_bounds_of_the_forms_that_it_has() -> None:
    """No test is about fence and owner together, also if --waiting says again that all wait busily."""
    busy = 'waiting = "busy"\nform = "{}"\n'
    text = PLATFORM.replace("segment", "boosted")
    forms = zip(THREE, ("fence", "owner", "owner"), strict=True)
    text += "".join(TASK.format(*one) + busy.format(form) for one, form in forms)
    system = read(text)
    assert not answer(system).schedulable
    assert Shared(system, Options("boosted", Waiting.BUSY)).bounds() == {}
    assert Shared(read(text.replace("fence", "owner")), Options("boosted", Waiting.BUSY)).bounds().keys() == set("abc")
    assert Shared(system, Options("boosted", Waiting.SUSPEND)).bounds().keys() == set("abc")  # forms self and owner
