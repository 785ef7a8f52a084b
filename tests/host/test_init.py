# SPDX-License-Identifier: GPL-2.0
"""`gpurt init`: a first file from running processes, which no command takes before each ? is replaced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import SocketClient

from analysis import taskset
from gpurt.errors import TasksetError
from pycontrol import cli
from pycontrol.act.run.first_file import Process, text_of
from pycontrol.machine.placement import fifo_permitted

ME = os.getpid()
#: The value that replaces the ? of each key.
VALUES = {"policy": '"segment"', "cpu": "0", "priority": "9", "period": '"1s"', "deadline": '"1s"',
          "waiting": '"suspend"', "alpha": '"1ms"', "theta": '"0ns"'}  # fmt: skip


def filled(text: str) -> str:
    """With each ? replaced; within segments by a time."""
    text = re.sub(r'^(\w+) = "\?"', lambda found: f"{found[1]} = {VALUES[found[1]]}", text, flags=re.MULTILINE)
    return re.sub(r'(\w+) = "\?"', r'\1 = "1ms"', text)


@pytest.fixture
def gpurt(host: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("GPURT_DEVICE", str(host))

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        return cli.run([str(one) for one in arguments]), *capfd.readouterr()

    return call


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with arguments that TOML must escape, on one CPU."""
    words = ['"; x = 1 #', "\\", "\x1b[31m\x7f", "ä\u202e", "two\nlines"]
    program = "import os,time; os.sched_setaffinity(0,{max(os.sched_getaffinity(0))}); print(flush=1); time.sleep(999)"
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_the_host_s_clients_become_tasks(gpurt, host: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "first.toml"
    with SocketClient(host) as client:
        client.begin(priority=5)
        assert gpurt("set", "priority", 44, ME)[0] == 0
        code, out, err = gpurt("init", "-o", path)
        assert (code, err) == (0, "")
        assert '1 tasks; replace each "?"' in out
    text = path.read_text()
    assert "gpu_priority = 44" in text
    assert 'policy = "segment"' in text
    assert f"process {ME}; 1 GPU segments were seen" in text
    assert "updates that the host has seen took" in text
    for command in ("analyze", "margins", "plan priorities", "plan modes", "simulate"):
        code, out, err = gpurt(*command.split(), path, "--json")
        assert (code, out) == (3, "")
        lines = [problem["line"] for problem in json.loads(err)["error"]["problems"]]
        blank = [at for at, line in enumerate(text.splitlines(), 1) for _ in re.findall(r'= "\?"', line)]
        assert lines == blank
        assert len(blank) >= 9
    path.write_text(filled(text))
    loaded = taskset.load(path)
    (task,) = loaded.taskset.tasks
    assert (task.segment_priority, task.eta, loaded.taskset.platform.cpus) == (44, 1, os.cpu_count())
    assert gpurt("analyze", path)[0] == 0


def test_processes_without_a_host(gpurt, sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = gpurt("--device", tmp_path / "none", "init", "--pid", sleeper.pid, "--pid", ME, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["pids"] == [sleeper.pid, ME]
    assert found["notes"][0].startswith("no host"), found["notes"]
    path = tmp_path / "first.toml"
    path.write_text(filled(found["taskset"]))
    loaded = taskset.load(path)
    first, second = loaded.taskset.tasks
    assert loaded.launch[first.name].command == tuple(sleeper.args)
    assert first.cpu == max(os.sched_getaffinity(sleeper.pid))
    assert second.name != first.name


#: A main thread on one CPU, and threads of the priorities 3 and 7, or as given, on another.
THREADS = """import os, sys, threading, time
def work(priority, cpus):
    os.sched_setaffinity(0, cpus)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    ready.wait()
    time.sleep(999)
all_of_them = sorted(os.sched_getaffinity(0))
ready = threading.Barrier(len(sys.argv))
for word in sys.argv[1:]:
    threading.Thread(target=work, args=(int(word), all_of_them[1:2]), daemon=True).start()
os.sched_setaffinity(0, all_of_them[:1])
ready.wait()
print(flush=True)
time.sleep(999)
"""


@pytest.mark.skipif(not fifo_permitted(7), reason="needs the right to SCHED_FIFO")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_task_is_the_threads_with_a_priority(gpurt, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for words, priority, last in ((("7",), 7, 1), (("3", "7"), None, 1), ((), None, 0)):
        process = subprocess.Popen([sys.executable, "-c", THREADS, *words], stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        code, out, _ = gpurt("--device", tmp_path / "none", "init", "--pid", process.pid)
        process.kill()
        process.communicate()
        assert code == 0
        assert f"\ncpu = {sorted(os.sched_getaffinity(0))[last]}\n" in out
        assert f"\npriority = {priority}\n" in out if priority else '\npriority = "?"' in out
        assert ("its threads have 3, 7" in out) == (len(words) == 2)


def test_what_cannot_be_a_file(gpurt, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    mine = tmp_path / "mine.toml"
    mine.write_text("filled in\n")
    for arguments, code, words in (
        (["init"], 4, "no client"), (["init", "--pid", 4194304], 5, "no process with pid 4194304"),
        (["init", "--pid", ME, "-o", mine], 2, "is there already"),
        (["--device", tmp_path / "none", "init"], 4, "no host"),
        (["init", "--pid", ME, "-o", "/proc/x/y"], 3, "cannot be"),
    ):  # fmt: skip
        got, out, err = gpurt(*arguments)
        assert (got, out, err.count("\n")) == (code, "", 1), err
        assert words in err, err
    assert mine.read_text() == "filled in\n"


@given(st.lists(st.builds(Process, st.integers(1, 4 * 10**6), st.text(max_size=80), st.lists(st.text()).map(tuple),
                          st.sets(st.integers(1, 99), max_size=3).map(tuple),
                          st.sets(st.integers(0, 7), min_size=1).map(tuple),
                          st.none() | st.integers(0, 9), st.none() | st.integers(1, 99)),
                min_size=1, max_size=3, unique_by=lambda one: (one.pid, one.name)))  # fmt: skip
def test_any_process_makes_a_file_that_is_refused_until_it_is_filled_in(processes: list[Process]) -> None:
    text = text_of(processes, None, [])
    with pytest.raises(TasksetError) as error:
        taskset.parse(Path("first.toml"), text)
    problems = error.value.problems
    assert len(problems) == text.count('= "?"')
    assert all("is still to be replaced" in one.message for one in problems), problems
    whole = taskset.parse(Path("first.toml"), filled(text).replace("cpus = ", "cpus = 8 # "))
    for one, task in zip(processes, whole.taskset.tasks, strict=True):
        kept = whole.launch[task.name].command
        assert kept == one.command if one.command and "\0" not in "".join(one.command) else kept is None


def test_a_process_that_has_loaded_ros_2_is_said_to_be_a_thread() -> None:
    text = text_of([Process(7, "node", ("/n",), (9,), (0,), 4, executes=True)], "segment", [])
    assert "it has loaded ROS 2: write a [[thread]], and a [[task]] for each callback\n" in text
