# SPDX-License-Identifier: GPL-2.0
"""Answers of the control plane: status, clients, latencies and events."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from actors import Actor
from links import MS, PATIENCE, Client, client_of, eventually, is_device

from gpurt._gpurt import lib
from gpurt.enums import Cause, EventKind, Image, Overrun, Policy, State, Tier
from pycontrol.link.control import Control, EventRecord, UpdateLatency
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

Connect = Callable[[], Client]
ME = os.getpid()


def test_status_says_what_is(host: Path, connect: Connect, plane: Control) -> None:
    client = connect()
    client.tsg()
    client.begin(priority=42)
    (gpu,) = plane.status()
    assert (gpu.policy, gpu.image, gpu.runner_pid, gpu.client_count, gpu.tsgs) == (Policy.SEGMENT, Image.ONE, ME, 1, 1)
    assert (gpu.tier, gpu.driver, gpu.emulated) == (Tier.VIRTUAL, "vgpu", True)
    assert (gpu.alpha_ns, gpu.theta_ns, gpu.slice_ns) == (0, 0, 1_024_000)
    commits = gpu.updates
    client.end()
    (gpu,) = plane.status()
    assert (gpu.image, gpu.runner_pid, gpu.updates) == (Image.ALL, 0, commits + 1)


def test_status_tells_the_costs_of_each_gpu(start_host: Callable[..., Path]) -> None:
    host = start_host(alpha=3000, theta=2000, gpus=3, slice=5_000_000)
    with control(str(host)) as plane:
        shapes = [(gpu.gpu, gpu.alpha_ns, gpu.theta_ns, gpu.slice_ns) for gpu in plane.status()]
        assert shapes == [(index, 3000, 2000, 5_000_000) for index in range(3)]


def test_clients_are_shown_as_they_are(connect: Connect, plane: Control) -> None:
    client = connect()
    client.begin(priority=42)
    client.begin()
    (one,) = plane.clients()
    assert (one.gpu, one.pid, one.comm, one.state) == (0, ME, procs.name(ME), State.RUNNING)
    assert (one.priority, one.own_priority, one.set_priority, one.depth) == (42, 0, None, 2)
    assert (one.tsgs, one.exempt, one.demoted, one.segments) == (0, False, False, 1)
    assert (one.preemptions, one.budget_ns, one.on_overrun, one.overruns) == (0, 0, None, 0)
    assert plane.clients()[0].held_ns > one.held_ns
    client.end()
    client.end()
    (one,) = plane.clients()
    assert (one.state, one.depth, one.segments) == (State.IDLE, 0, 1)
    assert plane.clients()[0].held_ns == one.held_ns > 0


def test_preemptions_are_counted(connect: Connect, plane: Control) -> None:
    low, high = connect(), connect()
    low.begin(priority=1)
    for _ in range(3):
        high.begin(priority=2)
        high.end()
    assert [one.preemptions for one in plane.clients()] == [3, 0]
    assert [one.segments for one in plane.clients()] == [1, 3]


def test_clients_of_each_gpu_or_all(start_host: Callable[..., Path]) -> None:
    host = start_host(gpus=3)
    with client_of(host) as client, control(str(host)) as plane:
        client.begin(gpu=0, priority=3)
        client.begin(gpu=2, priority=4)
        assert [(one.gpu, one.priority) for one in plane.clients()] == [(0, 3), (2, 4)]
        assert [(one.gpu, one.priority) for one in plane.clients(gpu=2)] == [(2, 4)]
        assert plane.clients(gpu=1) == []
        assert len({one.client for one in plane.clients()}) == 2
        assert [gpu.client_count for gpu in plane.status()] == [1, 0, 1]
        plane.set_priority(ME, 9, gpu=2)
        assert [one.priority for one in plane.clients()] == [3, 9]
        plane.set_priority(ME, 5)
        assert [one.priority for one in plane.clients()] == [5, 5]


def test_a_list_longer_than_a_packet_is_whole(connect: Connect, plane: Control) -> None:
    clients = [connect() for _ in range(200)]
    for client in clients:
        client.begin(priority=7)
    found = plane.clients()
    assert len({one.client for one in found}) == 200
    assert sum(one.state is State.RUNNING for one in found) == 1


# Latencies


def test_latency_is_kept_by_cause(start_host: Callable[..., Path]) -> None:
    host = start_host(alpha=3 * MS)

    def measured(plane: Control) -> dict[Cause, UpdateLatency]:
        return {one.cause: one for one in plane.latency()}

    with client_of(host) as client, control(str(host)) as plane:
        for _ in range(4):
            client.begin(priority=5)
            client.end()
        times = measured(plane)
        assert (times[Cause.BEGIN].count, times[Cause.END].count) == (4, 4)
        assert set(times) == {Cause.BEGIN, Cause.END}
        assert sum(one.count for one in times.values()) == plane.status()[0].updates
        for one in times.values():
            assert 3 * MS <= one.minimum <= one.mean <= one.maximum
            assert one.mean <= one.percentile(1.0) <= one.maximum
            assert (len(one.buckets), sum(one.buckets)) == (lib.GPURT_HIST_BUCKETS, 4)
            floors = [int(lib.gpurt_hist_floor(bucket)) for bucket, count in enumerate(one.buckets) if count]
            assert floors[0] <= one.minimum
            assert floors[-1] <= one.maximum
        client.begin(priority=5)
        client.close()
        eventually(lambda: Cause.GONE in measured(plane))


# Events


def first(events: Iterator[EventRecord], count: int) -> list[EventRecord]:
    """So many events."""
    return list(itertools.islice(events, count))


def test_a_preemption_is_told_from_beginning_to_end(connect: Connect, plane: Control) -> None:
    low, high = connect(), connect()
    low.begin(priority=10)
    low.end()
    high.begin(priority=10)
    high.end()
    ids = {one.client: name for one, name in zip(plane.clients(), ("low", "high"), strict=True)}
    events = plane.events(PATIENCE)
    low.begin(priority=10)
    high.begin(priority=20)
    high.end()
    low.end()
    story = first(events, 14)
    kind, all_others = EventKind, "all others"
    assert [(event.kind, ids.get(event.client, all_others)) for event in story] == [
        (kind.BEGIN, "low"), (kind.COMMIT, "low"), (kind.PREEMPT, all_others), (kind.GRANT, "low"),
        (kind.BEGIN, "high"), (kind.COMMIT, "high"), (kind.PREEMPT, "low"), (kind.GRANT, "high"),
        (kind.END, "high"), (kind.COMMIT, "low"), (kind.RESUME, "low"),
        (kind.END, "low"), (kind.COMMIT, all_others), (kind.RESUME, all_others),
    ]  # fmt: skip
    assert [event.time_ns for event in story] == sorted(event.time_ns for event in story)
    assert [event.cause for event in story if event.cause is not None] == [
        Cause.BEGIN, Cause.BEGIN, Cause.END, Cause.END
    ]  # fmt: skip
    assert {event.pid for event in story if event.client} == {ME}
    assert {event.comm for event in story if event.client} == {procs.name(ME)}
    assert {(event.pid, event.priority) for event in story if not event.client} == {(0, 0)}
    assert [event.priority for event in story[:8]] == [10, 10, 0, 10, 20, 20, 10, 20]
    assert all(event.latency_ns > 0 for event in story if event.kind is kind.COMMIT)


def test_every_update_is_told_with_its_cause(connect: Connect, spawn: Callable[..., Actor], plane: Control) -> None:
    mine, theirs = connect(), spawn()
    events = plane.events(PATIENCE)
    mine.begin(priority=10)
    theirs.do("begin", priority=5)
    plane.set_priority(theirs.pid, 20)
    plane.set_priority(theirs.pid, None)
    plane.set_policy(Policy.TIMESLICED)
    plane.set_policy(Policy.SEGMENT)
    plane.set_exempt(True, pid=theirs.pid)
    plane.set_exempt(False, pid=theirs.pid)
    mine.close_tsg(mine.tsg())
    plane.set_budget(theirs.pid, MS, 10**17, Overrun.DEMOTE)
    eventually(lambda: plane.status()[0].image is Image.ALL)
    mine.begin(priority=3)
    mine.close()
    causes = (event.cause for event in events if event.kind is EventKind.COMMIT)
    assert list(itertools.islice(causes, 11)) == [
        Cause.BEGIN, Cause.PRIORITY, Cause.PRIORITY, Cause.POLICY, Cause.POLICY, Cause.EXEMPT, Cause.EXEMPT,
        Cause.TSG, Cause.BUDGET, Cause.BEGIN, Cause.GONE,
    ]  # fmt: skip


def test_work_is_told_of_when_it_completes(connect: Connect, plane: Control) -> None:
    client = connect()
    tsg = client.tsg()
    events = plane.events(PATIENCE)
    work = client.submit(tsg, 7 * MS)
    (event,) = first(events, 1)
    assert (event.kind, event.pid, event.time_ns) == (EventKind.WORK, ME, client.finished(tsg, work))
    assert event.latency_ns >= 7 * MS


def test_jobs_are_told_of_under_every_policy(connect: Connect, plane: Control) -> None:
    client = connect()
    events = plane.events(PATIENCE)
    release = time.monotonic_ns() - 7 * MS
    mark, kinds = {"release_ns": release, "task": b"a task"}, (EventKind.JOB_BEGIN, EventKind.JOB_END)
    policies = [policy for policy in Policy if policy is not Policy.BOOSTED]  # which hosts without privilege lack
    for job, policy in enumerate(policies):
        plane.set_policy(policy)
        assert client.call(lib.GPURT_IOC_JOB_MARK, what=lib.GPURT_MARK_BEGIN, job=job, **mark)[0] == 0
        assert client.call(lib.GPURT_IOC_JOB_MARK, what=lib.GPURT_MARK_END, job=job, cpu_ns=job, **mark)[0] == 0
    told = list(itertools.islice((one for one in events if one.kind in kinds), 2 * len(policies)))
    assert [(one.kind, one.job) for one in told] == [(kind, job) for job in range(len(policies)) for kind in kinds]
    assert {(one.task, one.pid, one.time_ns - one.latency_ns) for one in told} == {("a task", ME, release)}
    assert [one.cpu_ns for one in told] == [spent for job in range(len(policies)) for spent in (0, job)]
    assert client.call(lib.GPURT_IOC_JOB_MARK, what=lib.GPURT_MARK_END, when_ns=release + 5, **mark)[0] == 0
    (said,) = first(events, 1)  # by a host that read it late
    assert (said.time_ns, said.latency_ns) == (release + 5, 5)
    later = time.monotonic_ns() + 10**12
    for wrong in ({"release_ns": later}, {"when_ns": later}, {"release_ns": release, "when_ns": release - 1}):
        assert client.call(lib.GPURT_IOC_JOB_MARK, task=b"a", **wrong)[0] == -errno.EINVAL


def test_a_client_that_goes_is_told_of(connect: Connect, plane: Control) -> None:
    client = connect()
    client.begin(priority=4)
    events = plane.events(PATIENCE)
    client.close()
    story = first(events, 3)
    assert [event.kind for event in story] == [EventKind.GONE, EventKind.COMMIT, EventKind.RESUME]
    assert (story[0].pid, story[1].cause) == (ME, Cause.GONE)


def test_a_slow_reader_loses_events_and_is_told(host: Path, connect: Connect, plane: Control) -> None:
    busy = connect()
    with control(str(host)) as slow:
        events = slow.events(PATIENCE)  # with a buffer for many
        with socket.socket(fileno=os.dup(slow.fileno())) as shrunk:
            shrunk.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # enough to overflow this reader's buffer, but not a buffer of the usual size
        for _ in range(50 if is_device(host) else 4000):
            busy.begin(priority=3)
            busy.end()
        assert plane.status()[0].client_count == 1  # the slow reader does not disturb other clients
        lost = next(event for event in events if event.kind is EventKind.LOST)
        assert lost.lost > 0 or is_device(host)  # the kernel does not report how many
        busy.begin(priority=3)
        assert next(event for event in events if event.kind is EventKind.BEGIN)
        # the kernel still delivers these events; wait for the last, so that the next test does not receive any
        rest = plane.events(PATIENCE)
        busy.end()
        busy.begin(priority=7)
        assert next(event for event in rest if event.kind is EventKind.BEGIN and event.priority == 7)


def test_several_readers_get_the_same(host: Path, connect: Connect, plane: Control) -> None:
    client = connect()
    with control(str(host)) as other:
        streams = [plane.events(PATIENCE), other.events(PATIENCE)]
        client.begin(priority=3)
        stories = [first(stream, 4) for stream in streams]
        assert stories[0] == stories[1]
