# SPDX-License-Identifier: GPL-2.0
"""The defects of the published driver patch (ECRTS'24) that a module can have, each by its number in that list."""

from __future__ import annotations

import errno
import threading
from fcntl import ioctl
from functools import partial
from pathlib import Path

from actors import in_child
from links import MS, PENDING, RUNNING, Client, client_of, eventually, structure
from loading import DEVICE, own_lines
from modules import parameter

from gpurt._gpurt import lib
from gpurt.errors import RefusedError
from pycontrol.link.control import Control

FOREVER = lib.GPURT_FOREVER


def waits_for_grant(client: Client) -> int:
    """Waits until the client has the GPU; 0 or -errno."""
    return client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=200_000 * MS)


def test_1_a_preempted_task_that_ends_changes_nothing_for_the_one_that_runs(module: Control) -> None:
    with client_of(DEVICE) as low, client_of(DEVICE) as high:
        tsg = high.tsg()
        low.begin(priority=10)
        assert high.begin(priority=20) == RUNNING
        work = high.submit(tsg, 20 * MS)
        low.end()
        assert module.status()[0].image.word == "one"
        assert high.finished(tsg, work)
        assert {one.priority: one.state.word for one in module.clients()}[20] == "running"


def test_2_both_of_two_best_effort_tasks_resume(module: Control) -> None:
    with client_of(DEVICE) as a, client_of(DEVICE) as b, client_of(DEVICE) as real_time:
        tsgs = [a.tsg(), b.tsg()]
        a.begin()
        b.begin()
        works = [client.submit(tsg, 30 * MS) for client, tsg in zip((a, b), tsgs, strict=True)]
        real_time.begin(priority=5)
        real_time.end()
        for client, tsg, work in zip((a, b), tsgs, works, strict=True):
            assert client.finished(tsg, work)
    assert module.status()[0].client_count == 0


def test_3_what_is_said_to_run_is_what_the_gpu_runs(module: Control) -> None:
    """Also after updates that failed half way: the driver's state is the only one there is."""
    with client_of(DEVICE) as low, client_of(DEVICE) as high:
        low_tsg, high_tsg = low.tsg(), high.tsg()
        low.begin(priority=10)
        parameter("vgpu_fail").write_text("2")
        high.begin(priority=20)
        assert waits_for_grant(high) == 0
        # Only now, so that it is not done before the GPU is handed on, however slow this machine is.
        slow = low.submit(low_tsg, 5 * MS)
        quick = high.submit(high_tsg, 50 * MS)
        finished = high.finished(high_tsg, quick)
        high.end()
        assert low.finished(low_tsg, slow) > finished
    assert module.status()[0].faults == 2


def test_4_the_two_hundredth_tsg_is_scheduled_like_the_first(module: Control) -> None:
    with client_of(DEVICE) as many, client_of(DEVICE) as one:
        numbers = [many.tsg() for _ in range(200)]
        own = one.tsg()
        assert max(numbers) >= 64 * 3
        many.begin(priority=10)
        assert one.begin(priority=20) == RUNNING
        # Only now, so that no work is done before the GPU is handed on, however slow this machine is.
        works = [(tsg, many.submit(tsg, 2 * MS)) for tsg in (numbers[0], numbers[65], numbers[-1])]
        first = one.finished(own, one.submit(own, 30 * MS))
        one.end()
        assert all(many.finished(tsg, work) >= first for tsg, work in works)
        assert module.status()[0].tsgs == 201


def open_many(count: int) -> None:
    """Begins segments as so many clients, none of which is closed."""
    clients = [client_of(DEVICE) for _ in range(count)]
    for client in clients:
        client.begin(priority=3)


def test_5_processes_that_die_while_they_are_looked_up(module: Control) -> None:
    stop, gone = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            for one in module.clients():
                try:
                    module.set_priority(one.pid, 7)
                except RefusedError:
                    gone.append(one.pid)

    looker = threading.Thread(target=look)
    looker.start()
    for _ in range(8):
        assert in_child(partial(open_many, 60)) == "None"
    stop.set()
    looker.join()
    assert len(set(gone)) <= 8
    eventually(lambda: module.status()[0].client_count == 0)


def unreclaimable() -> int:
    """The kernel's own memory, KiB."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["SUnreclaim"].split()[0])


def test_6_nothing_is_leaked_by_a_call(module: Control) -> None:
    with client_of(DEVICE) as client:
        segment = [
            (lib.GPURT_IOC_BEGIN, structure(lib.GPURT_IOC_BEGIN, priority=10)),
            (lib.GPURT_IOC_SUBMIT, structure(lib.GPURT_IOC_SUBMIT, tsg=client.tsg(), duration_ns=1000)),
            (lib.GPURT_IOC_END, structure(lib.GPURT_IOC_END)),
        ]

        def calls() -> None:
            for _ in range(5_000):
                for code, fields in segment:
                    ioctl(client.descriptor(), code, fields)  # raises OSError; what it returns is a copy
            client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE, timeout_ns=FOREVER)

        calls()
        before = unreclaimable()
        calls()
        calls()
        # three bitmaps of 8 bytes a call would be 240,000 bytes in objects of 8; in pages, with their slabs, more
        assert unreclaimable() - before < 2_000
    assert module.status()[0].client_count == 0


def test_7_a_segment_without_tsgs_is_as_good_as_any(module: Control) -> None:
    with client_of(DEVICE) as empty, client_of(DEVICE) as other:
        assert empty.begin(priority=50) == RUNNING
        assert other.begin(priority=40) == PENDING
        empty.end()
        assert waits_for_grant(other) == 0
        tsg = other.tsg()
        assert other.code(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg) == 0  # its last one: the segment is over
        assert module.status()[0].image.word == "all"


def test_8_a_gpu_that_is_not_there_is_not_touched(module: Control) -> None:
    """A driver says when its GPU may not be touched by taking it away; from then on nothing reaches it."""
    with client_of(DEVICE) as client, client_of(DEVICE) as other:
        client.begin(priority=50)
        other.begin(priority=40)
        waiting = other.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=FOREVER)
        parameter("vgpus").write_text("0")
        assert waiting.result()[0] == -errno.ENODEV
        assert client.code(lib.GPURT_IOC_END) == -errno.ENODEV
        assert client.code(lib.GPURT_IOC_TSG_OPEN) == -errno.ENODEV
        assert module.status() == []
        parameter("vgpus").write_text("1")


def test_9_no_line_on_the_console_while_the_runlist_is_updated(module: Control) -> None:
    before = len(own_lines())
    with client_of(DEVICE) as client:
        for _ in range(100):
            client.begin(priority=10)
            client.end()
        assert client.code(lib.GPURT_IOC_END) != 0
    assert module.status()[0].updates >= 200
    assert own_lines()[before:] == []


def test_10_a_call_that_there_is_not_says_so(module: Control) -> None:
    """And the version can be asked for, so that nobody need guess by numbers."""
    known = {lib.GPURT_IOC_QUERY & 0xFF, *range(1, 5), *range(0x10, 0x14), 0x20, 0x21, *range(0x30, 0x36)}
    known.add(lib.GPURT_IOC_GROUP_JOIN & 0xFF)
    with client_of(DEVICE) as client:
        for number in set(range(256)) - known:
            code = lib.GPURT_IOC_BEGIN & ~0xFF | number
            assert client.exchange(code, bytes(64))[0] == -errno.ENOTTY
        result, query = client.call(lib.GPURT_IOC_QUERY)
        assert (result, query.version) == (0, lib.GPURT_VERSION)
    assert module.status()
