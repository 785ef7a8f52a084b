# SPDX-License-Identifier: GPL-2.0
"""Threads in a taskset file: what is read, and each mistake with its line and its cure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from texts import mistakes, taskset_of

from analysis.answers import registry
from analysis.answers.verdict import answer
from analysis.model.callbacks import Callback, Order, Thread
from analysis.taskset import json_schema, load
from analysis.taskset.text import tomllib
from analysis.taskset.write import write_values
from pycontrol import cli
from pycontrol.act.run.crew import Crew, CrewOptions, stand_ins
from pycontrol.machine.placement import Placement
from pycontrol.machine.programs import fingerprint, tasks_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/every-key-of-threads.toml"

GOOD = """[platform]
cpus = 2
epsilon = "1ms"
[[thread]]
name = "executor"
cpu = 1
priority = 10
gpu_priority = 20
order = "ros2-live-timers"
[[task]]
name = "tick"
thread = "executor"
rank = 0
kind = "timer"
period = "100ms"
segments = [{ cpu = "3ms" }]
[[task]]
name = "scan"
thread = "executor"
rank = 1
kind = "subscription"
period = "100ms"
segments = [{ misc = "3ms", gpu = "4ms" }]
"""


def test_tasks_have_what_their_thread_has(tmp_path: Path) -> None:
    tick, scan = taskset_of(tmp_path / "a.toml", GOOD).tasks
    assert tick.thread == scan.thread == Thread("executor", Order.LIVE_TIMERS)
    assert [(t.cpu, t.priority, t.gpu_priority, t.rank) for t in (tick, scan)] == [(1, 10, 20, 0), (1, 10, 20, 1)]
    assert (tick.callback, scan.callback) == (Callback.TIMER, Callback.SUBSCRIPTION)
    jsonschema.validate(tomllib.loads(GOOD), json_schema())


TOGETHER = GOOD + """[[task]]
name = "log"
cpu = 0
priority = 5
process = "node"
period = "100ms"
segments = [{ misc = "3ms", gpu = "4ms" }]
"""


def test_threads_of_a_process_are_together_and_have_no_bound_elsewhere(tmp_path: Path) -> None:
    """As tasks of several processes, one beside the other, they have one."""
    text = TOGETHER.replace("priority = 10", 'priority = 10\nprocess = "node"', 1)
    taskset = taskset_of(tmp_path / "a.toml", text)
    assert {name: [t.name for t in tasks] for name, tasks in taskset.processes.items()} == {"node": ["scan", "log"]}
    assert "no bound for a process of which several threads use the GPU, as node is" in answer(taskset).why
    apart = taskset_of(tmp_path / "b.toml", TOGETHER)
    assert not apart.processes
    assert answer(apart).schedulable


def test_one_command_starts_all_threads_of_a_process(tmp_path: Path) -> None:
    """The task that has no GPU segment is executed by a stand-in, which cannot be a thread of the process."""
    path = tmp_path / "a.toml"
    path.write_text(TOGETHER.replace('order =', 'process = "node"\norder =', 1))
    refused = CliRunner().invoke(cli.cli, ["run", str(path)])
    assert refused.exit_code != 0
    assert "threads of process node are started by one command, and of its tasks none has one" in str(refused.exception)
    assert [task.name for task in stand_ins(load(path))] == ["tick", "scan", "log"]
    path.write_text(path.read_text().replace('name = "log"', 'name = "log"\ncommand = ["node"]'))
    assert [task.name for task in stand_ins(load(path))] == ["tick"]


@pytest.mark.parametrize("priority", [1, 99])
def test_a_thread_has_any_gpu_priority(priority: int, tmp_path: Path) -> None:
    text = GOOD.replace("gpu_priority = 20", f"gpu_priority = {priority}")
    assert {task.gpu_priority for task in taskset_of(tmp_path / "a.toml", text).tasks} == {priority}


MISTAKES = [
    (GOOD.replace("rank = 0", "rank = 0\npriority = 4"), 14, "priority: goes into its [[thread]]"),
    (GOOD.replace("rank = 0", "rank = 0\ncpu = 4"), 14, "cpu: goes into its [[thread]]"),
    (GOOD.replace("rank = 0", 'rank = 0\ncommand = ["a"]'), 14, "command: goes into its [[thread]]"),
    (GOOD.replace("rank = 1", "rank = 0"), 20, 'rank: 0 is taken by task "tick" already'),
    (GOOD.replace("rank = 1\n", ""), 17, '"rank" is missing: its place in its thread\'s order ros2-live-timers'),
    (GOOD.replace('kind = "timer"\n', ""), 10, '"kind" is missing: order ros2-live-timers looks at timers before'),
    (GOOD.replace("rank = 0", "rank = 2"), 13, 'rank: order ros2-live-timers has timers before "scan", which is none'),
    (GOOD.replace("ros2-live-timers", "fifo"), 13, "rank: order fifo serves jobs as they are released; leave it out"),
    (GOOD.replace("ros2-live-timers", "lifo"), 9, 'order: expected "fifo" or "priority" or "ros2" or'),
    (GOOD.replace('thread = "executor"', 'thread = "other"', 1), 12, 'no [[thread]] is called "other"; there are exec'),
    (GOOD.replace('"timer"', '"action"'), 14, 'kind: expected "timer" or "subscription"'),
    (GOOD.replace("cpu = 1", "cpu = 2"), 6, "cpu: the platform has CPUs 0 to 1, got 2"),
    (GOOD.replace("priority = 10", "priority = 0", 1), 8, "gpu_priority: only a real-time thread has one"),
    (GOOD + '[[thread]]\nname = "none"\ncpu = 0\npriority = 1\norder = "fifo"\n', 24, 'thread "none" serves no task'),
    (GOOD + '[[thread]]\nname = "executor"\ncpu = 0\npriority = 1\norder = "fifo"\n', 25, "taken by thread 1 already"),
    (GOOD.replace('{ cpu = "3ms" }', '{ misc = "1ms", gpu = "3ms" }') + 'waiting = "busy"\n', 24,
     'waiting: tasks of thread "executor" that use the GPU have one waiting together'),
    (GOOD.replace('{ cpu = "3ms" }', '{ misc = "1ms", gpu = "3ms" }').replace("rank = 0", 'rank = 0\nwaiting = "busy"'),
     18, 'waiting: tasks of thread "executor" that use the GPU have one waiting together'),
    (GOOD + '[[task]]\nname = "x"\ncpu = 0\npriority = 1\nrank = 3\nperiod = "1s"\nsegments = [{ cpu = "1ms" }]\n', 28,
     'rank: goes with thread = "...", the name of a [[thread]]'),
    (GOOD.replace('thread = "executor"\nrank = 0', 'cpu = 0\npriority = 1\nexecutor = "x"'), 14,
     'unknown key "executor": an executor is a [[thread]], whose order says'),
    (GOOD.replace('thread = "executor"\nrank = 0', "cpu = 0\npriority = 1\nzz = 1"), 14, "clocks, thread, rank, kind"),
    (GOOD.replace("[[thread]]", "[thread]"), 4, "write [[thread]], with two brackets, for each thread"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES, ids=lambda value: str(value)[:30])
def test_each_mistake_has_its_line_and_its_cure(text: str, line: int, message: str, tmp_path: Path) -> None:
    found = mistakes(tmp_path / "a.toml", text)
    assert any(at == line and message in said for at, said in found), found


@pytest.mark.parametrize("own", [True, False])
def test_best_effort_needs_no_period(own: bool, tmp_path: Path) -> None:
    """No bound counts its jobs."""
    text = GOOD.replace('period = "100ms"\n', "").replace("\npriority = 10", "\npriority = 0")
    text = text.replace("gpu_priority = 20\n", "")
    if own:
        text = text.replace('thread = "executor"\nrank = 0\nkind = "timer"', "cpu = 1\npriority = 0")
    assert [task.period for task in taskset_of(tmp_path / "a.toml", text)] == [10**9] * 2


def test_all_tasks_and_threads_above_the_hosts_are_named(tmp_path: Path) -> None:
    text = GOOD.replace("\npriority = 10", "\npriority = 60").replace("gpu_priority = 20\n", "")
    text += '[[task]]\nname = "x"\ncpu = 0\npriority = 50\nperiod = "1s"\nsegments = [{ cpu = "1ms" }]\n'
    (tmp_path / "a.toml").write_text(text)
    (note,) = [one for one in load(tmp_path / "a.toml").notes if "priorities 1 to" in one]
    assert "thread executor has 60 and x has 50" in note


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("rank = 1", "rank = 0").replace("cpu = 1", "cpu = 9").replace('"100ms"', '"0ms"', 1)
    assert {line for line, _ in mistakes(tmp_path / "a.toml", text)} == {6, 15, 20}


def test_the_tasks_of_a_thread_are_no_equals_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(GOOD.replace("gpu_priority = 20\n", ""))
    assert load(path).notes == ()


def test_a_thread_is_given_one_gpu_priority_for_all_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(GOOD.replace("gpu_priority = 20\n", "") + '[[task]]\nname = "x"\ncpu = 0\npriority = 4\n'
                    'period = "100ms"\nsegments = [{ misc = "0ms", gpu = "1ms" }]\n')  # fmt: skip
    assigned = registry.find_test("boosted-suspend").assign(load(path).taskset).priorities
    assert assigned == {"x": 4, "scan": 10}
    write_values(path, {"gpu_priority": {"x": 4, "scan": 33}, "waiting": {"tick": "suspend", "scan": "suspend"}})
    tick, scan, x = load(path).taskset.tasks
    assert (tick.gpu_priority, scan.gpu_priority, x.gpu_priority) == (33, 33, 4)
    assert path.read_text().count("gpu_priority") == 2
    write_values(path, {"gpu_priority": {"scan": 34}})
    assert load(path).taskset.tasks[0].gpu_priority == 34


REFUSED = [
    ["plan partitions", "--units", "4"], ["simulate", "--policy", "federated"],
    ["simulate", "--policy", "job"],
    ["analyze", "--test", "boosted-busy"],
]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_knows_nothing_of_threads_refuses_them_by_name(words: list[str]) -> None:
    done = CliRunner().invoke(cli.cli, [*words[0].split(), str(EXAMPLE), *words[1:]], standalone_mode=False)
    said = str(done.exception or "") + done.output
    assert "executor" in said
    assert "several tasks" in said


def test_a_process_with_other_arguments_is_no_task_by_its_programs_name(tmp_path: Path) -> None:
    """`python3 other.py` is not the task of `python3 camera.py`.  A script's process has its interpreter in front."""
    path = tmp_path / "a.toml"
    path.write_text(GOOD.replace("priority = 10", 'priority = 10\ncommand = ["python3", "node.py"]', 1))
    file = load(path)

    def found(name: str, *command: str) -> list[str]:
        return tasks_of(file, name, fingerprint(command, name))

    assert found("python3", "python3", "node.py") == found("python3", "/usr/bin/python3", "node.py") == ["tick"]
    assert found("python3", "python3", "other.py") == found("python3", "python3", "node.py", "-x") == []
    assert found("python3") == ["tick"]  # its command is not known
    file = replace(file, launch={name: replace(one, command=("./node.py", "-x")) for name, one in file.launch.items()})
    assert found("node.py", "/usr/bin/python3", "-u", "./node.py", "-x") == found("x", "/a/node.py", "-x") == ["tick"]
    assert found("node.py", "/usr/bin/python3", "./node.py") == found("grep", "grep", "./node.py", "-x") == []


def test_run_starts_one_program_for_all_tasks_of_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(GOOD.replace("priority = 10", 'priority = 10\ncommand = ["/opt/node", "-x"]', 1))
    file = load(path)
    assert tasks_of(file, "node", fingerprint(["/opt/node", "-x"])) == tasks_of(file, "node") == ["tick"]
    with Crew(file, CrewOptions(1), Placement({0: 0, 1: 0}, 1, False), False, tmp_path, Path("/bin/true")) as crew:
        crew.start()
        assert [child.task.name for child in crew.children] == ["tick"]
