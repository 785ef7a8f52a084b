# SPDX-License-Identifier: GPL-2.0
"""Work on the virtual GPU.  Tests compare times of the virtual GPU's own clock only."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from links import MS, PENDING, RUNNING, Client, client_of, eventually

from gpurt._gpurt import lib
from pycontrol.link.control import Control

Connect = Callable[[], Client]
HOUR = lib.GPURT_MAX_WORK_NS
SHORTEST = lib.GPURT_MIN_WORK_NS


def wait_work(client: Client, tsg: int, work: int, timeout: int) -> int:
    return client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_WORK, tsg=tsg, work=work, timeout_ns=timeout)


def test_work_is_numbered_in_each_tsg(connect: Connect) -> None:
    client = connect()
    tsgs = [client.tsg(), client.tsg()]
    assert [client.submit(tsg, SHORTEST) for tsg in tsgs for _ in range(3)] == [1, 2, 3, 1, 2, 3]
    assert [client.submit(tsgs[0], SHORTEST, engine=engine) for engine in range(lib.GPURT_ENGINE_COUNT)] == [4, 5]


@contextlib.contextmanager
def held_back(host: Path) -> Iterator[None]:
    """Keeps all other clients off the runlist inside the context.  So work submitted inside starts together."""
    with client_of(host) as holder:
        holder.begin(priority=99)
        yield
        holder.end()


def differences(times: list[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(times)]


def test_alone_work_takes_its_time(start_host: Callable[..., Path]) -> None:
    host = start_host(theta=2 * MS)
    with client_of(host) as client:
        tsg = client.tsg()
        with held_back(host):
            works = [client.submit(tsg, length * MS) for length in (100, 60, 140)]  # long enough to read all meanwhile
        assert differences([client.finished(tsg, work) for work in works]) == [60 * MS, 140 * MS]


def test_engines_work_side_by_side_unless_fenced(host: Path, connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    with held_back(host):
        execution = client.submit(tsg, 400 * MS)
        copy = client.submit(tsg, 100 * MS, engine=lib.GPURT_ENGINE_COPY)
        fenced = client.submit(tsg, 60 * MS, engine=lib.GPURT_ENGINE_COPY, flags=lib.GPURT_SUBMIT_FENCE)
    order = [copy, execution, fenced]
    assert differences([client.finished(tsg, work) for work in order]) == [300 * MS, 60 * MS]


def test_preempted_work_waits_and_goes_on(connect: Connect) -> None:
    low, high = connect(), connect()
    low_tsg, high_tsg = low.tsg(), high.tsg()
    low.begin(priority=10)
    low.submit(low_tsg, HOUR)
    low.finished(low_tsg, low.submit(low_tsg, MS, engine=lib.GPURT_ENGINE_COPY))  # it runs
    high.begin(priority=50)
    work = low.submit(low_tsg, 5 * MS, engine=lib.GPURT_ENGINE_COPY)
    high_done = high.finished(high_tsg, high.submit(high_tsg, 30 * MS))
    assert wait_work(low, low_tsg, work, 0) == -errno.ETIMEDOUT
    high.end()
    assert low.finished(low_tsg, work) >= high_done + 5 * MS


def test_best_effort_clients_share_the_gpu(host: Path, connect: Connect) -> None:
    a, b = connect(), connect()
    tsgs = [a.tsg(), b.tsg()]
    with held_back(host):
        works = [client.submit(tsg, 50 * MS) for client, tsg in zip((a, b), tsgs, strict=True)]
    done = [a.finished(tsgs[0], works[0]), b.finished(tsgs[1], works[1])]
    assert 0 < abs(done[1] - done[0]) <= 1_024_000  # one time slice


def test_a_completion_is_remembered(host: Path, connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    with held_back(host):
        works = [client.submit(tsg, MS // 10) for _ in range(200)]
    last = client.finished(tsg, works[-1])
    done = [client.finished(tsg, work) for work in works]
    assert done[-1] == last
    assert min(differences(done)) == MS // 10  # the GPU idles if the host is slow to read them


def test_waits_time_out_or_not(connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    idle = {"what": lib.GPURT_WAIT_IDLE}
    assert client.code(lib.GPURT_IOC_WAIT, **idle) == 0  # nothing to wait for
    work = client.submit(tsg, HOUR)
    for timeout in (0, 1, MS):
        assert wait_work(client, tsg, work, timeout) == -errno.ETIMEDOUT
        assert client.code(lib.GPURT_IOC_WAIT, timeout_ns=timeout, **idle) == -errno.ETIMEDOUT
    later = [
        client.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_WORK, tsg=tsg, work=work, timeout_ns=timeout)
        for timeout in (lib.GPURT_FOREVER, lib.GPURT_FOREVER - 1, 2**62)  # the others are centuries away
    ]
    also = client.start(lib.GPURT_IOC_WAIT, timeout_ns=lib.GPURT_FOREVER, **idle)
    assert not any(wait.done() for wait in later)
    client.close_tsg(tsg)
    assert [wait.result()[0] for wait in later] == [-errno.ENOENT] * 3
    assert also.result()[0] == 0


def test_several_may_wait_for_the_same(connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    work = client.submit(tsg, 50 * MS)
    fields = {"tsg": tsg, "work": work, "timeout_ns": lib.GPURT_FOREVER}
    waits = [client.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_WORK, **fields) for _ in range(4)]
    idle = client.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE, timeout_ns=lib.GPURT_FOREVER)
    outcomes = [(result, made.completed_ns) for result, made in (wait.result() for wait in [*waits, idle])]
    assert outcomes == [(0, client.finished(tsg, work))] * 5


def test_several_may_wait_for_different_things(connect: Connect) -> None:
    """A completed work item wakes the threads that wait for it, and not those that wait for another."""
    client = connect()
    tsg, other = client.tsg(), client.tsg()
    waits = [
        client.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_WORK, tsg=one, work=work, timeout_ns=lib.GPURT_FOREVER)
        for one, work in [(other, client.submit(other, HOUR)) for _ in range(3)]
        + [(tsg, client.submit(tsg, 50 * MS)) for _ in range(2)]
    ]
    assert [wait.result()[0] for wait in waits[3:]] == [0, 0]
    assert not any(wait.done() for wait in waits[:3])
    client.close_tsg(other)
    assert [wait.result()[0] for wait in waits[:3]] == [-errno.ENOENT] * 3


def test_idle_means_all_tsgs(connect: Connect) -> None:
    client = connect()
    tsgs = [client.tsg(), client.tsg()]
    works = [client.submit(tsg, 20 * MS) for tsg in tsgs]
    result, made = client.call(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE, timeout_ns=lib.GPURT_FOREVER)
    assert result == 0
    assert made.completed_ns == max(client.finished(tsg, work) for tsg, work in zip(tsgs, works, strict=True))


def test_draining_hands_on_only_when_work_is_done(connect: Connect) -> None:
    first, second = connect(), connect()
    tsg = first.tsg()
    first.begin(priority=20)
    work = first.submit(tsg, 100 * MS)
    assert second.begin(priority=10) == PENDING
    granted = second.granted()
    drained = first.start(lib.GPURT_IOC_END, flags=lib.GPURT_END_DRAIN)
    result, made = granted.result()
    assert (result, drained.result()[0]) == (0, 0)
    assert made.completed_ns >= first.finished(tsg, work)


def test_without_draining_work_is_left_behind(connect: Connect) -> None:
    first, second = connect(), connect()
    tsg = first.tsg()
    first.begin(priority=20)
    work = first.submit(tsg, HOUR)
    assert second.begin(priority=10) == PENDING
    first.end()
    assert second.begin(priority=10) == RUNNING
    assert wait_work(first, tsg, work, MS) == -errno.ETIMEDOUT


def test_work_of_a_client_in_no_segment_waits_until_all_may_run(connect: Connect) -> None:
    idle, real_time = connect(), connect()
    real_time.begin(priority=1)
    tsg = idle.tsg()
    work = idle.submit(tsg, 1000)
    assert wait_work(idle, tsg, work, 5 * MS) == -errno.ETIMEDOUT
    real_time.end()
    assert idle.finished(tsg, work)


def test_a_tsg_of_another_client_cannot_be_used(connect: Connect) -> None:
    mine, theirs = connect(), connect()
    assert theirs.tsg() == mine.tsg() == 0  # numbers are each client's own
    tsg = mine.tsg()
    work = mine.submit(tsg, SHORTEST)
    assert theirs.code(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=SHORTEST) == -errno.ENOENT
    assert theirs.code(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg) == -errno.ENOENT
    assert wait_work(theirs, tsg, work, 0) == -errno.ENOENT
    assert mine.submit(tsg, SHORTEST) == work + 1


def test_a_closed_tsg_is_gone(connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    client.submit(tsg, HOUR)
    client.close_tsg(tsg)
    assert client.code(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=SHORTEST) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE) == 0
    again = client.tsg()
    assert client.submit(again, SHORTEST) == 1


def test_queues_are_bounded(connect: Connect) -> None:
    client = connect()
    tsg, other = client.tsg(), client.tsg()
    client.submit(tsg, HOUR)
    for index in range(lib.GPURT_MAX_QUEUED - 1):
        client.submit(tsg, HOUR, engine=index % lib.GPURT_ENGINE_COUNT)
    assert client.code(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=SHORTEST) == -errno.ENOBUFS
    assert client.submit(other, SHORTEST) == 1


def test_all_queues_of_a_client_together_are_bounded(connect: Connect) -> None:
    client, other = connect(), connect()
    tsgs = [client.tsg() for _ in range(3)]
    for index in range(lib.GPURT_MAX_CLIENT_QUEUED):
        client.submit(tsgs[index % 3], HOUR)
    assert client.code(lib.GPURT_IOC_SUBMIT, tsg=tsgs[0], duration_ns=HOUR) == -errno.ENOBUFS
    assert other.submit(other.tsg(), HOUR) == 1
    client.close_tsg(tsgs[1])
    assert client.submit(tsgs[0], HOUR)


def test_work_has_a_least_duration(connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    for duration in (0, 1, SHORTEST - 1):
        assert client.code(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=duration) == -errno.EINVAL
    assert client.submit(tsg, SHORTEST) == 1


def test_clients_are_shown_with_their_tsgs(connect: Connect, plane: Control) -> None:
    client = connect()
    tsgs = [client.tsg() for _ in range(3)]
    assert (plane.clients()[0].tsgs, plane.status()[0].tsgs) == (3, 3)
    client.close_tsg(tsgs[1])
    assert (plane.clients()[0].tsgs, plane.status()[0].tsgs) == (2, 2)
    client.close()
    eventually(lambda: plane.status()[0].tsgs == 0)
