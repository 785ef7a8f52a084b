# SPDX-License-Identifier: GPL-2.0
"""Permissions: of ordinary users, by limits of priorities, by capabilities, and in process namespaces."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from actors import Actor, in_child
from links import PATIENCE, RUNNING, Client, client_of, eventually
from messages import ask, attributes

from gpurt._gpurt import lib
from gpurt.enums import Command, EventKind, Policy
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control

ME = os.getpid()
NOBODY = 65534
CAP_SYS_NICE = 23
CLONE_NEWPID = 0x20000000
libc = ctypes.CDLL(None, use_errno=True)

SETS = {
    Command.SET_PRIORITY: {"PID": ME, "PRIORITY": 5},
    Command.SET_POLICY: {"POLICY": int(Policy.LOCK_FIFO)},
    Command.SET_BUDGET: {"PID": ME, "BUDGET_NS": 1, "PERIOD_NS": 10**9},
    Command.SET_EXEMPT: {"PID": ME, "EXEMPT": 1},
    Command.SET_BARRED: {"PID": ME, "BARRED": 1},
    Command.SET_GROUP: {"PID": ME, "GROUP": "test"},
}
GETS = (Command.GET_STATUS, Command.GET_CLIENTS, Command.GET_LATENCY, Command.GET_BUS, Command.GET_RULES)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@pytest.fixture
def opened(host: Path) -> Iterator[Path]:
    """The host, open to all users."""
    mode = host.stat().st_mode & 0o777
    host.chmod(0o666)
    yield host
    host.chmod(mode)


def limit_priorities() -> None:
    """Allows real-time priorities up to 7.  Root in a container may not raise the limit, and keeps its own."""
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_RTPRIO, (7, 7))


def limit(_client: Client) -> int:
    """The highest priority that the process may take without privilege."""
    return resource.getrlimit(resource.RLIMIT_RTPRIO)[0]


def ordinary() -> None:
    """Becomes an ordinary user."""
    limit_priorities()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def without_nice() -> None:
    """Stays root, without CAP_SYS_NICE (capset(2))."""
    limit_priorities()
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    for index in range(3):
        data[index] &= ~(1 << CAP_SYS_NICE)
    assert libc.capset(header, data) == 0


def verdicts(client: Client) -> dict[int, tuple[int, str]]:
    """The host's verdict on each command."""
    said = {int(command): ask(client.host, command) for command in GETS}
    return said | {int(command): ask(client.host, command, attributes(**body)) for command, body in SETS.items()}


def begins(client: Client, priorities: Iterable[int]) -> list[int]:
    """The result of a segment at each priority."""
    results = []
    for priority in priorities:
        results.append(client.code(lib.GPURT_IOC_BEGIN, priority=priority))
        if not results[-1]:
            client.end()
    return results


def check_refused(actor: Actor, plane: Control) -> None:
    """GET works, SET is EPERM with a reason, and nothing has changed."""
    said = actor.run(verdicts)
    assert [said[int(command)] for command in GETS] == [(0, "")] * len(GETS)
    for command in SETS:
        error, text = said[int(command)]
        assert error == errno.EPERM
        assert "CAP_SYS_NICE" in text
    assert plane.status()[0].policy is Policy.SEGMENT
    found = {(one.set_priority, one.budget_ns, one.exempt, one.barred) for one in plane.clients()}
    assert found == {(None, 0, False, False)}


def test_an_ordinary_user_may_look_but_not_set(
    opened: Path, connect: Callable[[], Client], spawn: Callable[..., Actor], plane: Control
) -> None:
    connect().begin(priority=9)
    actor = spawn(ordinary)
    actor.do("begin")
    check_refused(actor, plane)


def test_an_ordinary_user_may_not_set_even_its_own(
    opened: Path, spawn: Callable[..., Actor], plane: Control
) -> None:
    actor = spawn(ordinary)
    actor.do("begin")
    assert actor.run(set_own_priority) == errno.EPERM
    assert plane.clients()[0].set_priority is None


def set_own_priority(client: Client) -> int:
    return ask(client.host, Command.SET_PRIORITY, attributes(PID=os.getpid(), PRIORITY=1))[0]


def test_priorities_end_where_the_users_limit_does(
    opened: Path, connect: Callable[[], Client], spawn: Callable[..., Actor], plane: Control
) -> None:
    actor = spawn(ordinary)
    most = actor.run(limit)
    assert actor.run(begins, range(most + 1)) == [0] * (most + 1)
    assert actor.run(begins, [most + 1, 99]) == [-errno.EPERM] * 2
    assert plane.clients()[0].segments == most + 1
    assert connect().begin(priority=99) == RUNNING


def fifo_without_limit() -> None:
    """Takes SCHED_FIFO 30, then becomes an ordinary user without the right to take it."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(30))
    ordinary()
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def test_a_task_may_ask_for_what_it_has(opened: Path, spawn: Callable[..., Actor]) -> None:
    actor = spawn(fifo_without_limit)
    assert actor.run(begins, [0, 30, 31]) == [0, 0, -errno.EPERM]
    assert actor.run(begins, [29]) == [0]


def test_root_without_the_capability_is_an_ordinary_user(device: Path, plane: Control) -> None:
    with client_of(device) as mine, Actor(device, without_nice) as actor:
        mine.begin(priority=9)
        assert actor.run(begins, [7, 8]) == [0, -errno.EPERM]
        check_refused(actor, plane)


def test_an_ordinary_user_may_listen(opened: Path, spawn: Callable[..., Actor]) -> None:
    assert spawn(ordinary).run(hear_oneself) == ["BEGIN", "GRANT", "END"]


def hear_oneself(client: Client) -> list[str]:
    """The events of a segment."""
    with control(str(client.host)) as plane:
        events = plane.events(PATIENCE)
        client.begin()
        client.end()
        return [event.kind.name for event in itertools.islice(events, 3)]


def overhear(client: Client) -> list[tuple[int, int, str]]:
    """Begins a segment, and returns client, pid and name of the events until another client's segment ends."""
    heard = []
    with control(str(client.host)) as plane:
        events = plane.events(PATIENCE)
        client.begin()
        for event in events:
            heard.append((event.client, event.pid, event.comm))
            if event.kind is EventKind.END:
                break
    return heard


def shown(client: Client) -> tuple[list[tuple[int, str, int]], int]:
    """The processes of all clients, and that of the client that has the GPU."""
    with control(str(client.host)) as plane:
        return sorted((one.pid, one.comm, one.depth) for one in plane.clients()), plane.status()[0].runner_pid


def overhear_job(client: Client) -> tuple[str, int | None]:
    """The task and the number of the first job that another client tells of."""
    with control(str(client.host)) as plane:
        events = plane.events(PATIENCE)
        client.begin()
        event = next(event for event in events if event.kind is EventKind.JOB_BEGIN)
        return event.task, event.job


def test_an_ordinary_user_does_not_learn_the_names_of_others_tasks(
    opened: Path, connect: Callable[[], Client], spawn: Callable[..., Actor], plane: Control
) -> None:
    mine, actor = connect(), spawn(ordinary)
    actor.start(overhear_job)
    eventually(lambda: any(one.pid == actor.pid and one.depth for one in plane.clients()))
    assert mine.call(lib.GPURT_IOC_JOB_MARK, task=b"secret", job=4)[0] == 0
    assert actor.answer() == ("", 4)


def test_an_ordinary_user_does_not_learn_of_others_processes(
    opened: Path, connect: Callable[[], Client], spawn: Callable[..., Actor], plane: Control
) -> None:
    """It is told everything about other users' clients except pid and name, and everything about its own."""
    mine = connect()
    mine.begin(priority=9)
    actor = spawn(ordinary)
    actor.start(overhear)
    eventually(lambda: any(one.pid == actor.pid and one.depth for one in plane.clients()))
    known = {one.client: (one.pid, one.comm) for one in plane.clients()}
    mine.end()
    heard = actor.answer()
    for client, (pid, comm) in known.items():
        seen = {(pid, comm) for one, pid, comm in heard if one == client}
        assert seen == ({(pid, comm)} if pid == actor.pid else {(0, "")})
    mine.begin(priority=9)
    name = next(comm for pid, comm in known.values() if pid == actor.pid)
    assert actor.run(shown) == ([(0, "", 1), (actor.pid, name, 1)], 0)
    assert (plane.status()[0].runner_pid, {one.pid for one in plane.clients()}) == (ME, {ME, actor.pid})


def rules_seen(client: Client) -> list[tuple[bool, int | None, str | None, str | None]]:
    """The rules that the host tells this client of."""
    with control(str(client.host)) as plane:
        return [(one.exempt, one.pid, one.comm, one.cgroup) for one in plane.rules()]


def test_an_ordinary_user_learns_that_there_are_rules_and_which_name_its_processes(
    opened: Path, spawn: Callable[..., Actor], plane: Control
) -> None:
    """Names and paths may be those of anyone's processes."""
    actor = spawn(ordinary)
    actor.do("begin")
    for exempt in (plane.set_exempt, plane.set_barred):
        exempt(True, pid=actor.pid)
        exempt(True, pid=ME)
        exempt(True, comm="secret")
    assert actor.run(rules_seen) == [
        (flag, *what) for flag in (True, False) for what in ((actor.pid, None, None), (0, None, None), (None, "", None))
    ]  # fmt: skip
    for forget in (plane.set_exempt, plane.set_barred):
        for pid in (actor.pid, ME):
            forget(False, pid=pid)
        forget(False, comm="secret")
    assert actor.run(rules_seen) == []


# Process namespaces


def in_new_namespace(client: Client, outside: int) -> str:
    """The report of the first process in a new pid namespace: what the process sees and may do."""
    assert libc.unshare(CLONE_NEWPID) == 0
    return in_child(lambda: report(client.host, outside))


def report(host: Path, outside: int) -> dict[str, object]:
    """See in_new_namespace()."""
    with client_of(host) as mine, control(str(host)) as plane:
        mine.begin(priority=40)
        said = {
            "pid": os.getpid(),
            "pids": sorted(one.pid for one in plane.clients()),
            "runner": plane.status()[0].runner_pid,
            "outsider": ask(host, Command.SET_PRIORITY, attributes(PID=outside, PRIORITY=1))[0],
            "self": ask(host, Command.SET_PRIORITY, attributes(PID=1, PRIORITY=20))[0],
            "exempt outsider": ask(host, Command.SET_EXEMPT, attributes(PID=outside, EXEMPT=1))[0],
        }
        return said | {"priorities": sorted(one.priority for one in plane.clients())}


def test_a_pid_namespace_has_its_own_numbers(device: Path, plane: Control) -> None:
    """Processes that it cannot see have pid 0 there, and no command can name them."""
    with client_of(device) as mine, Actor(device) as actor:
        mine.begin(priority=30)
        actor.do("begin")
        said = actor.run(in_new_namespace, ME)
        assert said == repr({
            "pid": 1, "pids": [0, 0, 1], "runner": 1, "outsider": errno.ESRCH, "self": 0,
            "exempt outsider": errno.ESRCH, "priorities": [0, 20, 30],
        })  # fmt: skip
        assert {one.set_priority for one in plane.clients()} == {None}
        assert {one.pid for one in plane.clients()} == {ME, actor.pid}
