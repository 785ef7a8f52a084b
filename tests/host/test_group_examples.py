# SPDX-License-Identifier: GPL-2.0
"""The examples of the manual's page on groups: each waits for ever without a group, and ends with one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from links import PATIENCE, SocketClient
from processes import StartHost

from gpurt.enums import EventKind
from pycontrol.link.control import connect as control

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/groups"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
#: How each joins; the others inherit the name.
JOINED = {"engine": [sys.executable, "-m", "pycontrol", "run", "--group", "g", "--"]}


def started(name: str, host: Path, group: str = "") -> subprocess.Popen[str]:
    command = [*(JOINED.get(name, []) if group else []), sys.executable, str(EXAMPLES / f"{name}.py")]
    command += ["--group"] if group and name == "two_gpus" else []
    inherited = {"GPURT_GROUP": group} if group and name in ("loader", "nodes") else {}
    return subprocess.Popen(
        command, env={**os.environ, "GPURT_DEVICE": str(host), **inherited}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def host(start_host: StartHost) -> Path:
    return start_host("--gpus=2", "--bound=stuck=100ms")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_stuck_without_a_group_and_ends_with_one(name: str, host: Path) -> None:
    with control(str(host)) as plane:
        told = plane.events(PATIENCE)
        alone = started(name, host)
        event = next(one for one in told if one.kind is EventKind.STUCK)
        assert "gpurt set group NAME" in event.detail
        assert alone.poll() is None
        os.killpg(alone.pid, signal.SIGKILL)
        alone.communicate(timeout=PATIENCE)
    levels = {"p", "q"} if name == "two_gpus" else {"g"}
    clients = [member(host, group) for group in levels]
    joined = started(name, host, "g")
    output, _ = joined.communicate(timeout=PATIENCE)
    assert (joined.returncode, output.endswith(" done\n")) == (0, True), output
    for client in clients:
        client.close()


def member(host: Path, group: str) -> SocketClient:
    """A member of a group, for which a level is set: the group is real-time, and owns the GPUs alone."""
    client = SocketClient(host)
    assert client.join(group) == 0
    for gpu in (0, 1):
        client.tsg(gpu=gpu)
    with control(str(host)) as plane:
        plane.set_priority(os.getpid(), 10)
    return client
