# SPDX-License-Identifier: GPL-2.0
"""`gpurt apply` of a file with several partitions: each is a GPU of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from links import SocketClient
from processes import StartHost, at_priority

from pycontrol import cli

#: Its updates are allowed more time than a slow machine takes for them.
FILE = """[platform]
cpus = 2
epsilon = "100s"
policy = "segment"
compute_units = 24
[[partition]]
name = "a"
compute_units = 12
[[partition]]
name = "b"
compute_units = 12
[[task]]
name = "{name}"
cpu = 0
priority = 9
period = "100000s"
partition = "a"
segments = [{{ misc = "0ns", gpu = "{time}" }}]
[[task]]
name = "other"
cpu = {cpu}
priority = 8
period = "100000s"
partition = "b"
segments = [{{ misc = "0ns", gpu = "2000s" }}]
"""
NAME = Path("/proc/self/comm").read_text().strip()


def written(path: Path, time: str = "2000s", cpu: int = 1) -> str:
    file = path / "set.toml"
    file.write_text(FILE.format(name=NAME, time=time, cpu=cpu))
    return str(file)


def test_each_partition_needs_a_gpu_of_the_host(
    start_host: StartHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, file = start_host(), start_host("--gpus=2"), written(tmp_path)
    with SocketClient(one) as client, SocketClient(two) as other:
        with at_priority(9):
            client.begin()
            other.begin()
        assert cli.run(["--device", str(one), "apply", file]) == 1
        assert "in 2 partitions, each for a GPU of its own, and the host orders 1 GPU" in capsys.readouterr().out
        assert cli.run(["--device", str(two), "apply", file, "--ignore-missing", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["schedulable"], answer["tasks"][NAME]["gpu_priority"]) == (True, 9)
        assert cli.run(["--device", str(one), "apply", file, "--force", "--ignore-missing"]) == 0
        assert "applied by force, without a proof: the file has tasks in 2 partitions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("time", "cpu", "why"),
    [("99900s", 1, "no bound below the deadline of 100000000"),
     ("99800s", 0, "no bound below the deadline of 100000000")],
)  # fmt: skip
def test_partitions_that_do_not_hold(
    start_host: StartHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], time: str, cpu: int, why: str
) -> None:
    host, file = start_host("--gpus=2"), written(tmp_path, time, cpu)
    assert cli.run(["--device", str(host), "apply", file]) == 1
    out = capsys.readouterr().out
    assert "not applied: under policy segment" in out
    assert why in out


def test_partitions_that_share_a_cpu_are_bounded(
    start_host: StartHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, file = start_host("--gpus=2"), written(tmp_path, cpu=0)
    assert cli.run(["--device", str(host), "apply", file, "--ignore-missing", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schedulable"] is True
