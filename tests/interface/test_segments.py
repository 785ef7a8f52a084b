# SPDX-License-Identifier: GPL-2.0
"""Ownership of the GPU as the clients see it: begin, end and wait under policy `segment`."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from links import MS, PENDING, RUNNING, Call, Client, client_of, eventually

from gpurt._gpurt import lib
from gpurt.enums import Image, State
from pycontrol.link.control import Control

Connect = Callable[[], Client]


def test_the_urgent_one_preempts_and_the_other_resumes(connect: Connect) -> None:
    low, high = connect(), connect()
    assert low.begin(priority=10) == RUNNING
    assert high.begin(priority=50) == RUNNING
    assert low.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=0) == -errno.ETIMEDOUT
    high.end()
    assert low.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=0) == 0


def test_an_outranked_begin_returns_at_once_or_waits_as_asked(connect: Connect) -> None:
    high, low, lower = connect(), connect(), connect()
    assert high.begin(priority=50) == RUNNING
    assert low.begin(priority=10) == PENDING
    nested = low.start(lib.GPURT_IOC_BEGIN, priority=10, flags=lib.GPURT_BEGIN_WAIT)
    waiting = low.granted()
    last = lower.start(lib.GPURT_IOC_BEGIN, priority=3, flags=lib.GPURT_BEGIN_WAIT)
    assert low.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=MS) == -errno.ETIMEDOUT
    assert not nested.done()
    high.end()
    result, made = nested.result()
    assert (result, made.state) == (0, RUNNING)
    assert waiting.result()[0] == 0
    assert not last.done()
    low.end()
    low.end()
    assert last.result()[0] == 0


def test_a_grant_says_when_it_was_given(connect: Connect) -> None:
    high, low = connect(), connect()
    high.begin(priority=50)
    low.begin(priority=10)
    tsg = high.tsg()
    done = high.finished(tsg, high.submit(tsg, MS))
    waiting = low.granted()
    high.end()
    result, made = waiting.result()
    assert result == 0
    assert made.completed_ns >= done


def test_equals_take_turns_in_the_order_they_came(connect: Connect) -> None:
    clients = [connect() for _ in range(5)]
    assert [client.begin(priority=20) for client in clients] == [RUNNING, *[PENDING] * 4]
    waits = [client.granted() for client in clients[1:]]
    for index, wait in enumerate(waits):
        assert [other.done() for other in waits[index:]] == [False] * (4 - index)
        clients[index].end()
        assert wait.result()[0] == 0


def test_priority_decides_before_order(connect: Connect) -> None:
    clients = {priority: connect() for priority in (40, 7, 99, 1, 63, 64, 32, 31)}
    for priority, client in clients.items():
        client.begin(priority=priority)
    waits: dict[int, Call] = {p: c.granted() for p, c in clients.items()}
    for priority in sorted(clients, reverse=True):
        assert waits[priority].result()[0] == 0
        assert not any(wait.done() for p, wait in waits.items() if p < priority)
        clients[priority].end()


def test_best_effort_clients_all_run_when_no_real_time_one_does(connect: Connect, plane: Control) -> None:
    a, b, real_time = connect(), connect(), connect()
    assert a.begin() == b.begin() == RUNNING
    assert plane.status()[0].image is Image.ALL
    assert real_time.begin(priority=1) == RUNNING
    assert (plane.status()[0].image, [one.state for one in plane.clients()].count(State.PENDING)) == (Image.ONE, 2)
    waits = [client.granted() for client in (a, b)]
    real_time.end()
    assert [wait.result()[0] for wait in waits] == [0, 0]
    assert connect().begin() == RUNNING


def test_segments_nest_and_the_first_fixes_the_priority(connect: Connect, plane: Control) -> None:
    client, other = connect(), connect()
    assert client.begin(priority=10) == RUNNING
    assert client.begin(priority=90) == RUNNING
    assert (plane.clients()[0].priority, plane.clients()[0].depth, plane.clients()[0].segments) == (10, 2, 1)
    assert other.begin(priority=11) == RUNNING
    other.end()
    client.end()
    assert other.begin(priority=9) == PENDING
    client.end()
    assert other.begin(priority=9) == RUNNING
    assert client.code(lib.GPURT_IOC_END) == -errno.ENOENT
    assert client.begin(priority=90) == RUNNING
    assert plane.clients()[0].segments == 2


def test_a_wait_ends_when_the_segment_does(connect: Connect) -> None:
    """Another thread may end the segment in which a thread waits.  Then there is nothing to wait for."""
    high, low = connect(), connect()
    high.begin(priority=50)
    low.begin(priority=10)
    waiting = low.granted()
    low.end()
    assert waiting.result()[0] == -errno.ENOENT


def test_a_begin_that_waits_ends_when_the_segment_does(connect: Connect) -> None:
    high, low = connect(), connect()
    high.begin(priority=50)
    waiting = low.start(lib.GPURT_IOC_BEGIN, priority=10, flags=lib.GPURT_BEGIN_WAIT)
    low.end()
    assert waiting.result()[0] == -errno.ENOENT


def test_a_wait_ends_when_the_last_tsg_does(connect: Connect) -> None:
    high, low = connect(), connect()
    high.begin(priority=50)
    tsg = low.tsg()
    low.begin(priority=10)
    waiting = low.granted()
    low.close_tsg(tsg)
    assert waiting.result()[0] == -errno.ENOENT


def test_losing_the_last_tsg_ends_the_segment(connect: Connect) -> None:
    client, other = connect(), connect()
    tsgs = [client.tsg(), client.tsg()]
    client.begin(priority=9)
    client.begin(priority=9)
    assert other.begin(priority=5) == PENDING
    client.submit(tsgs[1], 1000 * MS)
    client.close_tsg(tsgs[0])
    assert other.begin(priority=5) == PENDING
    client.close_tsg(tsgs[1])
    assert client.code(lib.GPURT_IOC_END) == -errno.ENOENT
    assert other.granted().result()[0] == 0


def test_a_client_without_tsgs_has_segments_all_the_same(connect: Connect) -> None:
    client, other = connect(), connect()
    assert client.begin(priority=9) == RUNNING
    assert other.begin(priority=5) == PENDING
    client.end()
    assert other.begin(priority=5) == RUNNING


def test_closing_the_descriptor_ends_everything(connect: Connect, plane: Control) -> None:
    client, other = connect(), connect()
    client.submit(client.tsg(), 1000_000 * MS)
    client.begin(priority=9)
    other.begin(priority=5)
    waiting = other.granted()
    client.close()
    assert waiting.result()[0] == 0
    eventually(lambda: (plane.status()[0].client_count, plane.status()[0].tsgs) == (1, 0))


def test_gpus_are_independent(start_host: Callable[..., Path]) -> None:
    host = start_host(gpus=2)
    with client_of(host) as a, client_of(host) as b:
        assert a.begin(gpu=0, priority=50) == RUNNING
        assert b.begin(gpu=1, priority=10) == RUNNING
        assert b.begin(gpu=0, priority=10) == PENDING
        assert a.begin(gpu=1, priority=9) == PENDING
        tsg = a.tsg(gpu=1)
        assert a.code(lib.GPURT_IOC_SUBMIT, gpu=0, tsg=tsg, duration_ns=lib.GPURT_MIN_WORK_NS) == -errno.ENOENT
        a.end(gpu=0)
        assert b.begin(gpu=0, priority=10) == RUNNING


def test_updates_take_alpha_and_the_most_urgent_is_next(start_host: Callable[..., Path]) -> None:
    """a updates first; of the clients that came meanwhile c is next, and outranks b.

    On a machine that stands still for a second b and c may come when a has updated, but not each time.
    """
    host = start_host(alpha=1000 * MS)

    def states() -> list[int]:
        with client_of(host) as a, client_of(host) as b, client_of(host) as c:
            orders = (a, 10), (b, 20), (c, 90)
            started = [client.start(lib.GPURT_IOC_BEGIN, priority=priority) for client, priority in orders]
            return [call.result()[1].state for call in started]

    eventually(lambda: states()[1:] == [PENDING, RUNNING])


@pytest.mark.parametrize("count", [300])
def test_many_clients(connect: Connect, plane: Control, count: int) -> None:
    clients = [connect() for _ in range(count)]
    for index, client in enumerate(clients):
        client.begin(priority=1 + index % 99)
    assert [index for index, client in enumerate(clients) if client.begin(priority=1) == RUNNING] == [98]
    assert plane.status()[0].client_count == len(plane.clients()) == count
    for client in clients[98::99]:
        client.close()
    eventually(lambda: plane.status()[0].client_count == count - len(clients[98::99]))
    assert clients[97].begin(priority=1) == RUNNING
