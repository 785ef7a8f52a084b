# SPDX-License-Identifier: GPL-2.0
"""`gpurt emulate` with partitions: those of a taskset file, and options that are wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from links import client_of

from gpurt._gpurt import ffi, lib
from gpurt.enums import Policy
from pycontrol.link.control import connect

MS = 1_000_000
FILE = """
[platform]
cpus = 1
compute_units = 12
epsilon = "3ms"
cross_contention = 1.5
[[partition]]
name = "a"
compute_units = 8
policy = "boosted"
[[partition]]
name = "b"
compute_units = 4
[[task]]
name = "t"
cpu = 0
priority = 1
period = "1s"
partition = "b"
intensity = "memory"
segments = [{ misc = "1ms", gpu = "1ms" }]
"""


def test_each_partition_of_a_file_is_a_gpu(start_host: Callable[..., Path], tmp_path: Path) -> None:
    (file := tmp_path / "tasks.toml").write_text(FILE, encoding="utf-8")
    host = start_host(f"--taskset={file}")
    with connect(str(host)) as plane:
        gpus = plane.status()
        assert [one.policy for one in gpus] == [Policy.BOOSTED, Policy.SEGMENT]
        assert all(0 < one.alpha_ns < 3 * MS for one in gpus)  # what the host itself takes comes on top
    handle, tsg = ffi.new("struct gpurt_handle **"), ffi.new("uint32_t *")
    work, when = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    assert lib.gpurt_open(handle, str(host).encode()) == 0
    assert lib.gpurt_use_gpu(handle[0], 1) == 0
    assert lib.gpurt_tsg_open(handle[0], tsg) == 0
    times = []
    with client_of(host) as holder:  # until both kernels are there
        holder.begin(gpu=1, priority=99)
        assert lib.gpurt_segment_begin(handle[0], 0, 5) >= 0
        for flags in (0, lib.GPURT_SUBMIT_PARALLEL):
            assert lib.gpurt_submit_kernel(handle[0], tsg[0], flags, 0, 40 * MS, work) == 0
        holder.end(gpu=1)
    for item in (1, 2):
        assert lib.gpurt_work_wait(handle[0], tsg[0], item, lib.GPURT_FOREVER, when) == 0
        times.append(when[0])
    assert times[1] - times[0] == 10 * MS  # on four units
    query = ffi.new("struct gpurt_query *")
    assert lib.gpurt_query_host(handle[0], query) == 0
    assert query.epsilon_ns >= gpus[1].alpha_ns
    lib.gpurt_close(handle[0])


def test_a_gpu_without_partitions_is_none(start_host: Callable[..., Path], tmp_path: Path) -> None:
    head, _, tail = FILE.partition("[[partition]]")
    task = tail.partition("[[task]]")[2].replace('partition = "b"\n', "")
    (file := tmp_path / "tasks.toml").write_text(f"{head}[[task]]{task}", encoding="utf-8")
    with connect(str(start_host(f"--taskset={file}"))) as plane:
        assert [one.partition_of for one in plane.status()] == [None]


OWNED = """
[platform]
cpus = 1
policy = "federated"
compute_units = 3
epsilon = "0ns"
[[partition]]
name = "a"
compute_units = 2
[[partition]]
name = "b"
compute_units = 1
[[task]]
name = "first"
cpu = 0
priority = 2
period = "500ms"
partition = "a"
segments = [{ cpu = "1ms" }, { kernel_times = ["60ms", "30ms"] }, { cpu = "1ms" }]
[[task]]
name = "second"
cpu = 0
priority = 1
period = "500ms"
partition = "b"
segments = [{ cpu = "1ms" }, { kernel_times = ["60ms", "30ms"] }, { cpu = "1ms" }]
"""


def test_tasks_that_own_units_run_on_a_gpu_each(start_host: Callable[..., Path], tmp_path: Path) -> None:
    """Policy federated: nothing is said against the host, and the trace is compared with the bounds of such tasks."""
    (file := tmp_path / "own.toml").write_text(OWNED, encoding="utf-8")
    host = start_host(f"--taskset={file}", policy=None)
    with connect(str(host)) as plane:
        assert [one.policy for one in plane.status()] == [Policy.TIMESLICED] * 2

    def gpurt(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "pycontrol", f"--device={host}", *words, "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=600).stdout)

    trace = str(tmp_path / "run.json")
    found = gpurt("run", str(file), "--policy", "federated", "--duration", "1s", "-o", trace)
    assert found["policy"] == "federated"
    assert not {"policy", "units", "partitions"} & {one["code"] for one in found["objections"]}
    command = [sys.executable, "-m", "pycontrol", "trace", "check", trace, str(file), "--test", "rtgpu", "--json"]
    judged = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=600).stdout)
    assert judged["comparable"] or {one["code"] for one in judged["objections"]} & {"cpus", "fifo"}
    assert set(judged["tasks"]) == {"first", "second"}
    alone = OWNED.replace('partition = "b"', "").replace('partition = "a"', "")
    file.write_text(alone[:alone.index("[[partition]]")] + alone[alone.index("[[task]]"):], encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pycontrol", f"--device={host}", "run", str(file)],
                          capture_output=True, text=True, check=False, timeout=600)  # fmt: skip
    assert done.returncode == 2
    assert "first has no units of its own: gpurt plan units FILE -o OWN" in done.stderr


def test_programs_use_the_gpu_of_their_partition(start_host: Callable[..., Path], tmp_path: Path) -> None:
    """The file's only task is in its second partition; a job a second."""
    (file := tmp_path / "tasks.toml").write_text(FILE.replace('"boosted"', '"segment"'), encoding="utf-8")
    host = start_host(f"--taskset={file}")
    command = [sys.executable, "-m", "pycontrol", f"--device={host}", "run", str(file), "--duration=2s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert "all programs use GPU 0" not in done.stdout + done.stderr
    with connect(str(host)) as plane:
        updates = [one.updates for one in plane.status()]
    assert updates[0] == 0 < updates[1], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--platform=partitions=4,0"], 2, "'4,0' is not a list of numbers of units"),
        (["--platform=partitions="], 2, "'partitions=' is not KEY=VALUE"),
        (["--platform=copy_engine="], 2, "'copy_engine=' is not KEY=VALUE"),
        (["--platform=alpha=1ms,theta=1"], 2, """theta: "1" has no unit"""),
        ([f"--platform=partitions={','.join('1' * 17)}"], 2, "17 partitions are too many"),
        (["--platform=cross_contention=0.999"], 2, "cross_contention: is 1 to 64 on virtual GPUs, not 0.999"),
        (["--platform=cross_contention=64.001"], 2, "cross_contention: is 1 to 64 on virtual GPUs, not 64.001"),
        (["--platform=cross_contention=-2"], 2, "'-2' is not a factor"),
        (["--platform=slice=2ms"], 2, "'slice=2ms' is not KEY=VALUE with a key of alpha, theta, time_slice"),
        (["--platform=time_slice=0s"], 2, "--platform time_slice must be longer than 0"),
        (["--taskset={file}", "--platform=alpha=1ms"], 2, "--platform alpha: the file of --taskset says it"),
        (["--taskset={file}", "--gpus=3"], 2, "--gpus 3: the file of --taskset has 2"),
        (["--taskset={file}x"], 3, "No such file"),
        (["--taskset={large}"], 2, "cross_contention is 1 to 64 on virtual GPUs, not 70"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: list[str], code: int, said: str) -> None:
    file, large = tmp_path / "tasks.toml", tmp_path / "large.toml"
    file.write_text(FILE, encoding="utf-8")
    large.write_text(FILE.replace("1.5", "70"), encoding="utf-8")
    words = [option.format(file=file, large=large) for option in options]
    command = [sys.executable, "-m", "pycontrol", "emulate", f"--socket={tmp_path / 'host.sock'}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr
