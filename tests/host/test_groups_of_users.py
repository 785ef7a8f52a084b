# SPDX-License-Identifier: GPL-2.0
"""Two users have a group of one name each: an administrator's view keeps them apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from processes import StartHost

from analysis.traces.trace import Trace, load_trace
from pycontrol.link import stuck
from pycontrol.link.control import ClientInfo, connect
from pycontrol.link.events import Listener
from pycontrol.observe.clients import budgets, clients_table, listed

NOBODY = 65534
MEMBER = """
import os, sys, gpurt
with gpurt.Client() as client:
    client.join("before")  # whatever it imports, as the user who may read it
os.setuid(int(sys.argv[1]))
with gpurt.Client() as client:
    client.join("llm")
    client.open_tsg()
    client.begin()
    client.end()
    print("in", flush=True)
    sys.stdin.read()
"""
Start = Callable[[int], int]


@pytest.fixture
def host(start_host: StartHost) -> Iterator[Path]:
    """A host in a folder that every user may enter."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to act as another user")
    with tempfile.TemporaryDirectory(prefix="gpurt-test-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "host.sock"
        start_host(f"--socket={path}", "--allow=everybody")
        yield path


@pytest.fixture
def start(host: Path) -> Iterator[Start]:
    """Starts a member of group llm as that user; its pid."""
    running: list[subprocess.Popen[str]] = []

    def begin(user: int) -> int:
        member = subprocess.Popen(
            [sys.executable, "-c", MEMBER, str(user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "GPURT_DEVICE": str(host)},
        )  # fmt: skip
        running.append(member)
        assert member.stdout
        assert member.stdout.readline() == "in\n"
        return member.pid

    yield begin
    for member in running:
        member.communicate()


@pytest.fixture
def clients(host: Path, start: Start) -> dict[int, ClientInfo]:
    pids = [start(0), start(0), start(NOBODY)]
    with connect(str(host)) as control:
        found = {one.pid: one for one in control.clients()}
    assert [found[pid].group for pid in pids] == ["llm"] * 3
    return {pid: found[pid] for pid in pids}


def test_the_owner_is_one_users_group(clients: dict[int, ClientInfo]) -> None:
    mine, also, other = clients.values()
    owner = stuck.stuck_owner(clients.values(), mine.client, mine.pid, mine.comm, "llm")
    assert {*owner.names} == {mine.pid, also.pid}
    owner = stuck.stuck_owner(clients.values(), other.client, other.pid, other.comm, "llm")
    assert {*owner.names} == {other.pid}


def test_set_group_shows_those_that_joined(host: Path, clients: dict[int, ClientInfo]) -> None:
    (*_, other) = clients
    done = subprocess.run(
        [sys.executable, "-m", "pycontrol", "--device", str(host), "set", "group", "llm", str(other), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [one["pid"] for one in json.loads(done.stdout)["clients"]] == [other]


def test_no_group_is_of_two_users(host: Path, clients: dict[int, ClientInfo]) -> None:
    pids = [*clients][1:]
    done = subprocess.run(
        [sys.executable, "-m", "pycontrol", "--device", str(host), "set", "group", "both", *map(str, pids)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "users 0, 65534" in done.stderr) == (5, True)
    assert done.stderr.count("\n") == 1


def test_the_cure_of_an_owner_that_is_stuck_names_processes_of_its_user(clients: dict[int, ClientInfo]) -> None:
    mine, also, other = clients.values()
    alone = stuck.Owner(mine.client, ("", ""), {mine.pid: mine.comm})
    assert f"set group NAME {mine.pid} {also.pid}" in stuck.cure(alone, [also, other])
    assert stuck.cure(alone, [also, other]).endswith(str(also.pid))
    assert "set group" not in stuck.cure(alone, [other])
    assert "as one user" in stuck.cure(alone, [other])


def test_clients_of_other_users_have_their_user_beside_them(host: Path, clients: dict[int, ClientInfo]) -> None:
    *mine, other = clients.values()
    assert "nobody" in clients_table([*mine, other])
    assert " user " not in clients_table(mine)


def test_clients_that_the_host_does_not_name_are_said_to_be_another_users(clients: dict[int, ClientInfo]) -> None:
    hidden = replace(next(iter(clients.values())), pid=0, comm="")
    assert re.search(r"0 +- +another user's", clients_table([hidden]))
    assert re.search(r"\n +- +another user's", budgets([hidden]))
    assert listed([hidden]) == "another user's"


def test_traces_have_the_user_of_each_group(host: Path, start: Start, tmp_path: Path) -> None:
    with Listener(str(host)) as listener:
        pids = [start(0), start(NOBODY)]
        trace = Trace({}, tuple(listener.events({pid: f"user{n}" for n, pid in enumerate(pids)})))
    trace.save(tmp_path / "run.json")
    seen = {(one.task, one.group, one.user) for one in load_trace(tmp_path / "run.json").events if one.group == "llm"}
    assert seen == {("user0", "llm", "0"), ("user1", "llm", str(NOBODY))}
