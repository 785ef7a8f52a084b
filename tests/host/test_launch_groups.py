# SPDX-License-Identifier: GPL-2.0
"""Tasks of a file that own the GPU together: `gpurt run` has their programs join their group, at one level."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from processes import StartHost

from analysis import taskset
from analysis.answers.loading import analysable
from analysis.traces.trace import load_trace
from gpurt.errors import TasksetError
from pycontrol.act.run import crew, launch, task_program
from pycontrol.act.run.emulator import Emulator
from pycontrol.act.run.loadable import names_gpurt
from pycontrol.link.events import Listener
from pycontrol.machine.placement import place_cpus
from pycontrol.observe.judge.check import judged
from pycontrol.observe.judge.finding import What

FILE = """
[platform]
cpus = 1
epsilon = "10us"

[[task]]
name = "engine"
cpu = 0
priority = 20
gpu_priority = 40
period = "20ms"
group = "llm"
segments = [{ cpu = "100us" }, { misc = "10us", gpu = "1ms" }]

[[task]]
name = "worker"
cpu = 0
priority = 10
period = "50ms"
group = "llm"
segments = [{ cpu = "100us" }, { misc = "10us", gpu = "1ms" }]

[[task]]
name = "other"
cpu = 0
priority = 5
period = "50ms"
segments = [{ misc = "10us", gpu = "1ms" }]
"""


@pytest.fixture
def file(tmp_path: Path) -> taskset.TasksetFile:
    path = tmp_path / "set.toml"
    path.write_text(FILE)
    return taskset.load(path)


def test_its_programs_and_stand_ins_join_and_have_the_highest_level_of_its_tasks(
    file: taskset.TasksetFile, tmp_path: Path
) -> None:
    with Emulator(file.taskset.platform) as host, Listener(str(host.socket)) as listener:
        run = launch.launch(file, crew.CrewOptions(0.5, str(host.socket), "segment"))
        seen = {(one.comm.split("-")[0], one.group) for one in listener.records() if one.client}
        levels = {one.priority for one in listener.records() if one.group and one.kind.word == "begin"}
    assert seen == {("engine", "llm"), ("worker", "llm"), ("other", "")}
    assert levels == {40}
    run.trace.save(tmp_path / "run.json")
    kept = {event.group for event in load_trace(tmp_path / "run.json").events if event.task == "worker"}
    assert "llm" in kept
    assert not [one for one in judged(run.trace, file).findings if one.task == "worker" and one.what is What.PRIORITY]


def test_a_program_of_the_users_is_told_its_group(tmp_path: Path) -> None:
    path, told = tmp_path / "set.toml", tmp_path / "told"
    program = f"printf %s $GPURT_GROUP > {told}.new; mv {told}.new {told}; exec sleep 99"
    path.write_text(FILE.replace('group = "llm"\n', f'group = "llm"\ncommand = ["sh", "-c", "{program}"]\n', 1))
    file = taskset.load(path)
    with Emulator(file.taskset.platform) as host:
        options = crew.CrewOptions(1, str(host.socket), "segment")
        with crew.Crew(
            file, options, place_cpus(file.taskset), False, tmp_path, task_program.find_task_program()
        ) as made:
            made.start()
            eventually(told.exists)
    assert told.read_text() == "llm"


def test_no_command_bounds_or_simulates_it(file: taskset.TasksetFile) -> None:
    with pytest.raises(TasksetError) as refused:
        analysable(file.path)
    assert [one.message for one in refused.value.problems] == [
        f"task {name}: group llm: no bound is known for groups, except of a task and its workers; `gpurt run` has "
        "their programs join them"
        for name in ("engine", "worker")
    ]


def test_a_program_in_a_group_runs_another_one_in_another_group(
    tmp_path: Path, start_host: StartHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, told = start_host(), tmp_path / "told"
    monkeypatch.setenv("GPURT_GROUP", "outer")
    monkeypatch.setenv("GPURT_DEVICE", str(host))
    command = [sys.executable, "-m", "pycontrol", "run", "--group", "inner", "--", "sh", "-c"]
    for script, hint in ((f"echo $GPURT_GROUP > {told}", True), ("exit # which gpurt knows", False)):
        done = subprocess.run([*command, script], check=True, timeout=PATIENCE, stderr=subprocess.PIPE)
        assert (b"run --group NAME --auto makes them" in done.stderr) == hint
    assert told.read_text() == "inner\n"


def test_what_a_program_is_given_is_no_pipe_to_wait_for_and_no_model_to_read(tmp_path: Path) -> None:
    pipe, model, script = tmp_path / "pipe", tmp_path / "model", tmp_path / "script"
    os.mkfifo(pipe)
    for file in (model, script):
        file.write_bytes(b"gpurt")
    os.truncate(model, 1 << 40)
    assert [names_gpurt(["true", str(one)]) for one in (pipe, model, script)] == [False, False, True]


def test_no_units_are_planned_for_it(file: taskset.TasksetFile) -> None:
    file.path.write_text(FILE.replace("[platform]", "[platform]\ncompute_units = 8"))
    command = [sys.executable, "-m", "pycontrol", "plan", "units", str(file.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    assert "no bound is known for groups" in done.stderr
