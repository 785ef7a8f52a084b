# SPDX-License-Identifier: GPL-2.0
"""GPURT_IOC_COPY: one copy at a time on the bus, the most urgent first, none preempted."""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from actors import Actor, at, fork_sleeper, in_child, of
from links import MS, PATIENCE, RUNNING, Call, Client, client_of, eventually, is_device
from test_identity import execute, leave, segfault
from test_permissions import ordinary

from gpurt._gpurt import lib
from gpurt.enums import EventKind, Policy, State
from pycontrol.link.control import BusStatus, Control
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

Connect = Callable[[], Client]
Spawn = Callable[..., Actor]
BEGIN, NEXT, END = lib.GPURT_COPY_BEGIN, lib.GPURT_COPY_NEXT, lib.GPURT_COPY_END
FOREVER = lib.GPURT_FOREVER
N = lib.GPURT_NORMAL_DEFAULT
ME = os.getpid()
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for real-time threads and other users")


def copy(client: Client, what: int = BEGIN, **fields: int) -> int:
    """A call of GPURT_IOC_COPY that does not wait: 0 or -errno."""
    return client.code(lib.GPURT_IOC_COPY, what=what, **fields)


def asks(client: Client, what: int = BEGIN, **fields: int) -> Call:
    """One that waits for the bus."""
    return client.start(lib.GPURT_IOC_COPY, what=what, timeout_ns=FOREVER, **fields)


def bus(plane: Control) -> BusStatus:
    """The bus of the only GPU."""
    (found,) = plane.buses()
    return found


def waiting(plane: Control, count: int) -> None:
    """So many wait for the bus."""
    eventually(lambda: bus(plane).waiters == count)


def free(plane: Control) -> None:
    """Nobody has the bus in the end, or waits for it."""
    eventually(lambda: (bus(plane).client, bus(plane).waiters) == (None, 0))


def test_a_free_bus_is_the_callers_at_once(connect: Connect) -> None:
    client, before = connect(), time.monotonic_ns()
    result, made = client.call(lib.GPURT_IOC_COPY, what=BEGIN)
    assert result == 0
    assert before <= made.granted_ns <= time.monotonic_ns()
    assert copy(client) == -errno.EBUSY
    assert copy(client, END) == 0
    assert [copy(client, what) for what in (END, NEXT)] == [-errno.ENOENT] * 2


def test_no_copy_is_preempted_and_the_most_urgent_is_next(connect: Connect, plane: Control) -> None:
    low, before = connect(), bus(plane).count
    assert copy(low, priority=1) == 0
    priorities = [5, 99, 0, 64, 5, 63]
    calls = [(-priority, number, client, asks(client, priority=priority))
             for number, priority in enumerate(priorities) if (client := connect())]  # fmt: skip
    waiting(plane, len(priorities))
    last = low
    for place, (_, _, client, call) in enumerate(sorted(calls, key=lambda one: one[:2])):
        assert not call.done()
        assert copy(last, END) == 0
        assert call.result()[0] == 0
        assert bus(plane).waiters == len(priorities) - place - 1
        last = client
    assert copy(last, END) == 0
    assert (bus(plane).client, bus(plane).count) == (None, before + 1 + len(priorities))


def test_between_chunks_only_the_more_urgent_and_equals_come_first(connect: Connect, plane: Control) -> None:
    mine, urgent, equal, low = (connect() for _ in range(4))
    assert copy(mine, priority=20) == 0
    less = asks(low, priority=10)
    waiting(plane, 1)
    for _ in range(3):
        assert copy(mine, NEXT) == 0
    assert not less.done()
    same = asks(equal, priority=20)
    waiting(plane, 2)
    more = asks(urgent, priority=30)
    waiting(plane, 3)
    mine_again = asks(mine, NEXT)
    assert more.result()[0] == 0
    assert not mine_again.done()
    assert copy(urgent, END) == 0
    assert same.result()[0] == 0
    assert copy(equal, NEXT, timeout_ns=0) == -errno.ETIMEDOUT  # the first one has waited for longer
    assert mine_again.result()[0] == 0
    assert copy(mine, END) == 0
    assert less.result()[0] == 0


def test_a_wait_that_is_over_leaves_no_request(connect: Connect, plane: Control) -> None:
    holder, other = connect(), connect()
    assert copy(holder, priority=5) == 0
    for timeout in (0, MS, lib.GPURT_TIMEOUT_AT + 1, lib.GPURT_TIMEOUT_AT + time.monotonic_ns()):
        assert copy(other, priority=9, timeout_ns=timeout) == -errno.ETIMEDOUT
        assert bus(plane).waiters == 0
    assert copy(other, END) == -errno.ENOENT
    later = asks(other, priority=9)
    waiting(plane, 1)
    assert copy(holder, NEXT, timeout_ns=MS) == -errno.ETIMEDOUT
    assert later.result()[0] == 0
    assert copy(holder, END) == -errno.ENOENT
    assert copy(other, END) == 0
    free(plane)


def test_a_request_is_withdrawn_by_another_thread(connect: Connect, plane: Control) -> None:
    holder, other = connect(), connect()
    copy(holder)
    call = asks(other)
    waiting(plane, 1)
    assert copy(other) == -errno.EBUSY
    assert copy(other, END) == 0
    assert call.result()[0] == -errno.ECANCELED
    assert copy(holder, END) == 0
    free(plane)


def test_an_end_with_a_number_ends_only_that_request(connect: Connect, plane: Control) -> None:
    """A call that was given up must not end the copy that another thread of the client began meanwhile."""
    holder, client = connect(), connect()
    assert copy(holder) == 0
    assert copy(client, request=7, timeout_ns=0) == -errno.ETIMEDOUT
    later = asks(client, request=8)
    waiting(plane, 1)
    assert copy(client, END, request=7) == -errno.ENOENT
    assert copy(holder, END) == 0
    assert later.result()[0] == 0
    assert copy(client, END, request=7) == -errno.ENOENT
    assert copy(client, NEXT, request=9) == 0
    assert copy(client, END, request=8) == -errno.ENOENT
    assert bus(plane).client is not None
    assert copy(client, END, request=9) == 0
    assert copy(client, request=10) == 0
    assert copy(client, END) == 0
    free(plane)


def ask_and_wait(client: Client, priority: int) -> int:
    return client.code(lib.GPURT_IOC_COPY, what=BEGIN, priority=priority, timeout_ns=FOREVER)


def test_a_holder_that_ends_has_given_the_bus_back(connect: Connect, spawn: Spawn, plane: Control) -> None:
    """However it ends, whether it is best effort or real time."""
    survivor = connect()
    for how, priority in itertools.product((leave, execute, segfault, None), (0, 60)):
        victim = spawn()
        assert victim.run(ask_and_wait, priority) == 0
        assert bus(plane).pid == victim.pid
        wait = asks(survivor, priority=30)
        # A best-effort victim has lost the bus after GPURT_COPY_BOUND_NS, if this machine is so slow.
        eventually(lambda wait=wait: wait.done() or bus(plane).waiters == 1)
        if how:
            victim.start(how)
        else:
            victim.kill()
        assert wait.result()[0] == 0
        assert copy(survivor, END) == 0
        eventually(lambda: len(plane.clients()) == 1)
        victim.kill()


def test_a_waiter_that_ends_leaves_the_queue(connect: Connect, spawn: Spawn, plane: Control) -> None:
    holder, killed, closed, last = connect(), spawn(), connect(), connect()
    copy(holder, priority=50)
    killed.start(ask_and_wait, 40)
    waiting(plane, 1)
    asks(closed, priority=30)
    waiting(plane, 2)
    call = asks(last, priority=20)
    waiting(plane, 3)
    killed.kill()
    waiting(plane, 2)
    closed.close()
    waiting(plane, 1)
    assert copy(holder, END) == 0
    assert call.result()[0] == 0


def test_a_holder_that_closes_its_descriptor_has_given_the_bus_back(connect: Connect, plane: Control) -> None:
    holder, other = connect(), connect()
    copy(holder, priority=50)
    call = asks(other)
    waiting(plane, 1)
    holder.close()
    assert call.result()[0] == 0


def children_copy(client: Client) -> set[str]:
    return {in_child(partial(copy, client, what)) for what in (BEGIN, NEXT, END)}


def copy_and_fork(client: Client) -> int:
    assert copy(client) == 0
    return fork_sleeper(client)


def test_children_neither_copy_for_their_parent_nor_keep_its_place(
    connect: Connect, spawn: Spawn, plane: Control
) -> None:
    client, parent = connect(), spawn()
    parent.do("begin")
    assert parent.run(children_copy) in ({repr(-errno.EPERM)}, {repr(-errno.ESTALE)})
    sleeper = parent.run(copy_and_fork)
    call = asks(client)
    waiting(plane, 1)
    parent.kill()
    assert call.result()[0] == 0
    os.kill(sleeper, 9)


def test_a_duplicate_is_the_same_client(connect: Connect, plane: Control) -> None:
    client = connect()
    copy(client)
    os.close(os.dup(client.descriptor()))
    assert bus(plane).pid == ME
    assert copy(client, END) == 0


def test_the_administrator_reorders_those_that_wait(connect: Connect, spawn: Spawn, plane: Control) -> None:
    holder, mine, theirs = connect(), connect(), spawn()
    copy(holder, priority=9)
    call = asks(mine, priority=30)
    waiting(plane, 1)
    theirs.start(ask_and_wait, 10)
    waiting(plane, 2)
    plane.set_priority(theirs.pid, 40)
    copy(holder, END)
    assert theirs.answer() == 0
    assert bus(plane).priority == 40
    theirs.run(copy, END)
    assert call.result()[0] == 0


def test_copies_need_no_segment_and_change_none(connect: Connect, plane: Control) -> None:
    client, other = connect(), connect()
    client.begin(priority=50)
    copy(other, priority=9)
    call = asks(client)  # the priority of a segment is the segment's
    waiting(plane, 1)
    assert copy(other, END) == 0
    assert call.result()[0] == 0
    client.end()
    assert copy(client, END) == 0
    assert other.begin(priority=9) == RUNNING


def test_each_gpu_has_a_bus(start_host: Callable[..., Path]) -> None:
    host = start_host(gpus=2)
    with client_of(host) as first, client_of(host) as second, control(str(host)) as plane:
        assert copy(first, gpu=0) == copy(second, gpu=1) == 0
        assert [one.client is not None for one in plane.buses()] == [True, True]
        assert copy(second, gpu=0) == -errno.ETIMEDOUT
        assert copy(second, gpu=2) == -errno.ENODEV


def test_status_tells_who_copies_and_who_waits(connect: Connect, plane: Control) -> None:
    client, other = connect(), connect()
    copy(client, priority=7)
    asks(other, priority=6)
    waiting(plane, 1)
    found = bus(plane)
    assert (found.pid, found.comm, found.priority) == (ME, procs.name(ME), 7)
    assert found.held_ns > 0
    assert [(one.copy, one.copies) for one in plane.clients()] == [(State.RUNNING, 1), (State.PENDING, 0)]
    copy(client, END)
    eventually(lambda: bus(plane).count == found.count + 1)
    later = bus(plane)
    assert (later.priority, sum(later.buckets), later.minimum) == (6, later.count, 0)
    assert later.maximum >= later.total - found.total > 0


def test_copies_are_told_from_beginning_to_end(connect: Connect, plane: Control) -> None:
    low, high, late = connect(), connect(), connect()
    for client in (low, high, late):
        copy(client, END)  # which makes it a client
    names = {one.client: name for one, name in zip(plane.clients(), ("low", "high", "late"), strict=True)}
    events = plane.events(PATIENCE)
    copy(low, priority=10)
    call = asks(high, priority=20)
    waiting(plane, 1)
    copy(late, priority=5)
    copy(low, NEXT)
    call.result()
    copy(high, END)
    story = list(itertools.islice(events, 9))
    ask, begin, end = EventKind.COPY_ASK, EventKind.COPY_BEGIN, EventKind.COPY_END
    assert [(event.kind, names[event.client], event.priority) for event in story] == [
        (ask, "low", 10), (begin, "low", 10), (ask, "high", 20), (ask, "late", 5), (end, "late", 5),
        (end, "low", 10), (ask, "low", 10), (begin, "high", 20), (end, "low", 10),
    ]  # fmt: skip
    assert [event.time_ns for event in story] == sorted(event.time_ns for event in story)
    assert {(event.pid, event.comm) for event in story} == {(ME, procs.name(ME))}
    assert story[7].latency_ns == story[7].time_ns - story[2].time_ns > 0


def test_best_effort_does_not_keep_the_bus_from_real_time_for_ever(connect: Connect, plane: Control) -> None:
    greedy, other, urgent = connect(), connect(), connect()
    copy(greedy)
    waits = asks(other)
    waiting(plane, 1)
    events = plane.events(PATIENCE)
    began = time.monotonic_ns()
    result, made = asks(urgent, priority=1).result()
    assert result == 0
    assert made.granted_ns - began <= lib.GPURT_COPY_BOUND_NS + PATIENCE * 1e9
    assert bus(plane).held_ns < made.granted_ns  # not for ever
    assert copy(greedy, END) == -errno.ENOENT
    assert not waits.done()
    kinds = [event.kind for event in itertools.islice(events, 4)]
    assert kinds == [EventKind.COPY_ASK, EventKind.OVERRUN, EventKind.COPY_END, EventKind.COPY_BEGIN]


# Rights


@root
def test_priorities_of_copies_end_where_the_users_limit_does(host: Path, spawn: Spawn, plane: Control) -> None:
    mode = host.stat().st_mode & 0o777
    host.chmod(0o666)
    try:
        actor, before = spawn(ordinary), bus(plane).count
        assert actor.run(ask_and_wait, 99) == -errno.EPERM
        assert bus(plane).count == before
        assert actor.run(ask_and_wait, 0) == 0
        assert actor.run(copy, END) == 0
    finally:
        host.chmod(mode)


# Policy boosted


def priority_of(pid: int) -> int:
    """The CPU priority that a process's main thread has."""
    return os.sched_getparam(pid).sched_priority


@pytest.fixture
def boosted(plane: Control) -> Control:
    """The policy, on a host that raises threads."""
    if not plane.status()[0].normal_priorities:
        pytest.skip("this host cannot do policy boosted")
    plane.set_policy(Policy.BOOSTED)
    return plane


@root
def test_who_copies_is_raised_from_before_it_asks_until_it_is_done(
    connect: Connect, spawn: Spawn, boosted: Control
) -> None:
    holder, actor, waiter = connect(), spawn(at(5)), spawn(at(7, os.SCHED_RR))
    assert actor.run(ask_and_wait, 0) == 0
    assert (priority_of(actor.pid), of(boosted, actor.pid).raised) == (N + 5, N + 5)
    assert actor.run(copy, NEXT) == 0
    waiter.start(ask_and_wait, 0)
    waiting(boosted, 1)
    assert priority_of(waiter.pid) == N + 7
    assert actor.run(copy, END) == 0
    assert (priority_of(actor.pid), of(boosted, actor.pid).raised) == (5, 0)
    assert waiter.answer() == 0
    assert copy(holder, timeout_ns=MS) == -errno.ETIMEDOUT  # best effort, which is never raised
    assert waiter.run(copy, END) == 0
    assert priority_of(waiter.pid) == 7
    assert os.sched_getscheduler(waiter.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
    assert actor.run(ask_and_wait, 0) == 0
    assert waiter.run(copy) == -errno.ETIMEDOUT
    assert priority_of(waiter.pid) == 7


@root
def test_under_boosted_a_copy_of_a_thread_that_cannot_be_raised_is_refused(spawn: Spawn, boosted: Control) -> None:
    ordinary_thread, urgent, before = spawn(), spawn(at(N + 1)), bus(boosted).count
    assert ordinary_thread.run(ask_and_wait, 3) == -errno.ERANGE
    assert urgent.run(ask_and_wait, 0) == -errno.ERANGE
    barred = spawn(at(5))
    boosted.set_barred(True, pid=barred.pid)
    assert barred.run(ask_and_wait, 0) == -errno.EPERM
    boosted.set_barred(False, pid=barred.pid)
    assert (bus(boosted).count, bus(boosted).waiters) == (before, 0)
    assert barred.run(ask_and_wait, 0) == 0
    assert priority_of(barred.pid) == N + 5
    boosted.set_barred(True, pid=barred.pid)
    eventually(lambda: priority_of(barred.pid) == 5)
    boosted.set_barred(False, pid=barred.pid)
    assert barred.run(copy, END) == 0
    assert priority_of(barred.pid) == 5


@root
def test_a_copy_inside_a_segment_leaves_the_segment_raised(spawn: Spawn, boosted: Control) -> None:
    actor = spawn(at(5))
    actor.do("begin", flags=lib.GPURT_BEGIN_OWNER)
    assert actor.run(ask_and_wait, 0) == 0
    actor.do("end")
    assert priority_of(actor.pid) == N + 5
    assert actor.run(copy, END) == 0
    eventually(lambda: priority_of(actor.pid) == 5)


@root
def test_who_copies_stays_raised_until_it_is_done_whatever_the_policy_becomes(spawn: Spawn, boosted: Control) -> None:
    """Lowered in the middle of its copy, it would keep the bus for as long as others keep it from its CPU."""
    actor, waiter = spawn(at(5)), spawn(at(7))
    assert actor.run(ask_and_wait, 0) == 0
    waiter.start(ask_and_wait, 0)
    waiting(boosted, 1)
    boosted.set_policy(Policy.SEGMENT)
    assert [priority_of(one.pid) for one in (actor, waiter)] == [N + 5, N + 7]
    assert actor.run(copy, END) == 0
    assert (priority_of(actor.pid), of(boosted, actor.pid).raised) == (5, 0)
    assert waiter.answer() == 0
    assert waiter.run(copy, NEXT) == 0
    assert priority_of(waiter.pid) == N + 7
    boosted.set_policy(Policy.JOB)
    assert waiter.run(copy, END) == 0
    assert priority_of(waiter.pid) == 7
    assert actor.run(ask_and_wait, 0) == 0  # under another policy nobody is raised for a copy,
    assert priority_of(actor.pid) == 5
    boosted.set_policy(Policy.BOOSTED)  # nor is one that has asked before
    assert priority_of(actor.pid) == 5
    assert actor.run(copy, END) == 0
    assert priority_of(actor.pid) == 5


@root
@pytest.mark.parametrize("how", ["exec", "close", "time is up", "barred"])
def test_nobody_is_left_raised_by_a_copy_that_another_policy_sees_the_end_of(
    spawn: Spawn, boosted: Control, how: str
) -> None:
    actor, holder = spawn(at(5)), spawn(at(7))
    if how == "time is up":
        assert holder.run(ask_and_wait, 0) == 0
        actor.start(ask_for, 4000 * MS)
    else:
        assert actor.run(ask_and_wait, 0) == 0
    eventually(lambda: priority_of(actor.pid) == N + 5)
    boosted.set_policy(Policy.SEGMENT)
    if how == "exec":
        actor.start(execute)
    elif how == "close":
        actor.run(close)
    elif how == "barred":
        boosted.set_barred(True, pid=actor.pid)
        boosted.set_barred(False, pid=actor.pid)
    else:
        assert actor.answer() == -errno.ETIMEDOUT
    eventually(lambda: priority_of(actor.pid) == 5)


def close(client: Client) -> None:
    """Ends the client, in the middle of its copy."""
    client.close()


def ask_for(client: Client, timeout: int) -> int:
    """Asks for the bus, and waits for so many ns at most."""
    return client.code(lib.GPURT_IOC_COPY, what=BEGIN, timeout_ns=timeout)


def test_a_signal_ends_the_wait_and_the_request(host: Path, connect: Connect, plane: Control) -> None:
    if not is_device(host):
        pytest.skip("over a socket the library tells the host of the signal: tests/userlib/test_copies_library.py")
    holder, other = connect(), connect()
    copy(holder, priority=50)
    call = asks(other, priority=9)
    waiting(plane, 1)
    while not call.done():
        call.pending.interrupt()  # type: ignore[attr-defined]
        time.sleep(0.01)
    assert call.result()[0] == -errno.EINTR
    assert bus(plane).waiters == 0
    assert copy(other, END) == -errno.ENOENT
    assert copy(holder, END) == 0
    free(plane)
