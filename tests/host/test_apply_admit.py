# SPDX-License-Identifier: GPL-2.0
"""`gpurt apply --admit`: a task beside those that run; nobody loses a guarantee, and nothing is half applied."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from links import SocketClient
from processes import StartHost

from analysis.taskset import load
from pycontrol import cli
from pycontrol.link.control import connect

NAME = Path("/proc/self/comm").read_text().strip()
#: Its updates are allowed more time than a slow machine takes for them.
FILE = """[platform]
cpus = 4
epsilon = "100s"
policy = "segment"
compute_units = 24
[[partition]]
name = "a"
compute_units = 8
[[task]]
name = "{name}"
cpu = 0
priority = 9
period = "10000s"
partition = "a"
segments = [{{ misc = "0ns", gpu = {{ parallel = "16000s" }} }}]
"""
TASK = """[[task]]
name = "{name}"
cpu = {cpu}
priority = 7
period = "10000s"
segments = [{{ misc = "0ns", gpu = {{ parallel = "{time}" }} }}]
"""
#: Starts `gpurt apply` on a host: exit code, stdout, stderr.
Apply = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file whose task is this process, and files of tasks that have room beside it (small), and that do not."""
    for name, time in (("small", "16000s"), ("large", "128000s"), ("huge", "240000s")):
        (tmp_path / f"{name}.toml").write_text(TASK.format(name=name, cpu=1, time=time))
    path = tmp_path / "set.toml"
    path.write_text(FILE.format(name=NAME))
    return path


@pytest.fixture
def apply(capsys: pytest.CaptureFixture[str]) -> Apply:
    def call(host: Path, file: Path, task: str, out: object = "out.toml", *more: str) -> tuple[int, str, str]:
        words = ["--admit", str(file.with_name(f"{task}.toml")), "-o", str(file.parent / str(out)), *more]
        code = cli.run(["--device", str(host), "apply", str(file), *words])
        return code, *capsys.readouterr()

    return call


def priority(host: Path) -> list[int | None]:
    """The priorities that the control plane has set for this process's clients."""
    with connect(str(host)) as control:
        return [one.set_priority for one in control.clients() if one.pid == os.getpid()]


def test_a_task_is_admitted_beside_what_runs(start_host: StartHost, file: Path, apply: Apply) -> None:
    """Each takes 2,000 + 300 s on the 8 units of a."""
    host = start_host()
    with SocketClient(host) as client:
        client.begin()
        code, out, _ = apply(host, file, "small")
        assert (code, priority(host)) == (0, [9])
        assert "small is admitted to a: an existing partition of the same size" in out
        assert "small is not running yet: start it" in out
    written = load(file.with_name("out.toml")).taskset
    assert [(task.name, task.partition and task.partition.name) for task in written] == [(NAME, "a"), ("small", "a")]


def test_a_new_partition_needs_a_gpu_of_the_host(start_host: StartHost, file: Path, apply: Apply) -> None:
    """large takes 8,000 s on 16 units, and misses beside the other on 8."""
    one, two = start_host(), start_host("--gpus=2")
    with SocketClient(one) as client, SocketClient(two) as other:
        client.begin()
        other.begin()
        code, out, _ = apply(one, file, "large", "out.toml", "--json")
        told = json.loads(out)
        assert (code, told["applied"], told["admitted"], told["partition"]) == (1, False, False, None)
        assert "in 2 partitions, each for a GPU of its own, and the host orders 1 GPU" in told["why"]
        assert (priority(one), file.with_name("out.toml").exists()) == ([None], False)
        code, out, _ = apply(two, file, "large", "out.toml", "--json")
        told = json.loads(out)
        assert (code, told["way"], told["partition"]) == (0, "a new partition", "p1")
        assert told["tasks"][NAME]["pids"] == [os.getpid()]
        assert priority(two) == [9]


def test_what_has_no_place_changes_nothing(start_host: StartHost, file: Path, apply: Apply) -> None:
    """On all 24 units as one partition `between` would fit, but programs that run keep theirs."""
    host = start_host("--gpus=2")
    (file.with_name("between.toml")).write_text(TASK.format(name="between", cpu=1, time="170000s"))
    with SocketClient(host) as client:
        client.begin()
        for task in ("huge", "between"):
            code, out, _ = apply(host, file, task)
            assert (code, out.splitlines()[0]) == (1, f"NOT ADMITTED: {task} has no place")
            assert "programs that run keep the units that they were started with" in out
        assert (priority(host), file.with_name("out.toml").exists()) == ([None], False)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [(f'"{NAME}"', '"other"', "is real time and no task of the file"),
     ('policy = "segment"', 'policy = "boosted"', "the file is for policy boosted, the host runs segment"),
     ('epsilon = "100s"', 'epsilon = "0.5ms"', "a runlist update and a context switch takes 0.7 ms"),
     ("compute_units = 8", "compute_units = 1", "a would miss deadlines on its units")],
)  # fmt: skip
def test_a_host_on_which_somebody_has_no_guarantee(
    start_host: StartHost, file: Path, apply: Apply, old: str, new: str, why: str
) -> None:
    host = start_host("--platform=alpha=0.5ms,theta=0.2ms")
    file.write_text(file.read_text().replace(old, new))
    with SocketClient(host) as client:
        client.begin(priority=5)
        code, out, _ = apply(host, file, "small")
        assert (code, why in out) == (1, True), out
        assert (priority(host), file.with_name("out.toml").exists()) == ([None], False)


def test_a_file_that_cannot_be_written_puts_priorities_back(
    start_host: StartHost, file: Path, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder goes away after it was looked at."""
    host = start_host()
    monkeypatch.setattr("gpurt.files.check_writable", lambda path: None)
    with SocketClient(host) as client:
        client.begin()
        code, out, err = apply(host, file, "small", "gone/out.toml")
        assert (code, out, "cannot be written" in err, priority(host)) == (3, "", True, [None])


def test_a_program_that_was_started_elsewhere_is_not_in_its_partition(
    start_host: StartHost, file: Path, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = start_host()
    small = file.with_name("small.toml")
    small.write_text(small.read_text().replace('"small"', f'"{NAME}"'))
    text = file.read_text().replace(f'"{NAME}"', '"other"')
    file.write_text(text.replace("compute_units = 8\n", 'compute_units = 8\ncu_mask = "0xff"\n'))
    with SocketClient(host) as client:
        client.begin()
        for place in (None, "a", "a 4 cu_mask=0xf"):
            monkeypatch.setattr("pycontrol.act.plan.admit.partition_of", {os.getpid(): place}.get)
            code, out, _ = apply(host, file, "small")
            assert code == 1
            assert f"process {os.getpid()} was not started in partition a 8 cu_mask=0xff, which cannot be given" in out
        monkeypatch.setattr("pycontrol.act.plan.admit.partition_of", {os.getpid(): "a 8 cu_mask=0xff"}.get)
        assert apply(host, file, "small")[0] == 0


def test_a_partition_is_one_gpu_that_runs_its_policy(start_host: StartHost, file: Path, apply: Apply) -> None:
    host = start_host("--gpus=2")
    text = file.read_text().replace("compute_units = 8\n", 'compute_units = 8\npolicy = "boosted"\n')
    more = TASK.format(name="b", cpu=2, time="4000s") + 'partition = "b"\n'
    file.write_text(f'{text}{more}[[partition]]\nname = "b"\ncompute_units = 8\n')
    with SocketClient(host) as client:
        client.begin()
        code, out, _ = apply(host, file, "small")
        assert (code, "partition a is for policy boosted, its GPU 0 runs segment" in out) == (1, True), out
        file.write_text(file.read_text().replace('policy = "boosted"\n', ""))
        client.begin(gpu=1)
        code, out, _ = apply(host, file, "small")
        assert (code, "partition a has clients on GPUs 0 and 1, and is one GPU" in out) == (1, True), out


def test_tasks_that_share_a_cpu_are_bounded_together(start_host: StartHost, file: Path, apply: Apply) -> None:
    """A CPU segment of 7,000 s above the task that runs leaves it no time, though the partitions have room."""
    host = start_host("--gpus=2")
    small = file.with_name("small.toml")
    small.write_text(small.read_text().replace("cpu = 1", "cpu = 0"))
    with SocketClient(host) as client:
        client.begin()
        code, out, _ = apply(host, file, "small", "out.toml", "--json")
        told = json.loads(out)
        assert (code, told["test"], told["admitted"]) == (0, "gcaps-suspend", True)
        above = small.read_text().replace("priority = 7", "priority = 12")
        small.write_text(above.replace("segments = [", 'segments = [{ cpu = "7000s" }, '))
        code, out, _ = apply(host, file, "small", "other.toml", "--json")
        assert (code, json.loads(out)["admitted"], file.with_name("other.toml").exists()) == (1, False, False)
        file.write_text(file.read_text().replace('"segment"', '"boosted"'))
        code, out, err = apply(host, file, "small", "other.toml")
        assert (code, out, "share CPU 0" in err, "policy segment" in err) == (2, "", True, True)


def test_two_admissions_at_once_know_of_each_other(start_host: StartHost, file: Path) -> None:
    host = start_host()
    for at in (0, 1):
        file.with_name(f"{at}.toml").write_text(TASK.format(name=f"n{at}", cpu=at, time="8000s"))
    base = [sys.executable, "-m", "pycontrol", "--device", host, "apply", file, "-o", file, "--admit"]
    with SocketClient(host) as client:
        client.begin()
        both = [subprocess.Popen([*base, file.with_name(f"{at}.toml")]) for at in (0, 1)]
        assert [one.wait() for one in both] == [0, 0]
    assert sorted(task.name for task in load(file).taskset) == sorted([NAME, "n0", "n1"])


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--admit", "x"], "--admit and -o go together"), (["-o", "x"], "--admit and -o go together"),
     (["--admit", "x", "-o", "y", "--force"], "--admit goes without --force"),
     (["--admit", "x", "-o", "y", "--ignore-missing"], "--admit goes without")],
)  # fmt: skip
def test_options_that_do_not_go_together(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.run(["apply", str(file), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_wrong_task_and_a_file_without_partitions(start_host: StartHost, file: Path, apply: Apply) -> None:
    host = start_host()
    small = file.with_name("small.toml")
    small.write_text(small.read_text().replace('"10000s"', '"10000"'))
    code, out, err = apply(host, file, "small")
    assert (code, out, err.startswith(f"gpurt: {small}:5: ")) == (3, "", True)
    head, _, tables = file.read_text().partition("[[partition]]")
    file.write_text(head + tables[tables.index("[[task]]") :].replace('partition = "a"\n', ""))
    code, out, err = apply(host, file, "large")
    assert (code, out, "has no [[partition]]" in err) == (2, "", True)
