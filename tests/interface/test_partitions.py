# SPDX-License-Identifier: GPL-2.0
"""Partitions of a virtual GPU: units, what slows work down, and slices and levels of TSGs.

Times by hand, from those of the virtual GPU's own clock.  Work is submitted while nobody may run, and begins together.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from actors import Actor
from links import MS, Client, client_of
from test_permissions import limit, opened, ordinary

from gpurt._gpurt import lib
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control

Connect = Callable[[], Client]
__all__ = ["opened"]  # a fixture
MEMORY, COMPUTE, PARALLEL = lib.GPURT_SUBMIT_MEMORY, lib.GPURT_SUBMIT_COMPUTE, lib.GPURT_SUBMIT_PARALLEL
SLICE = 1_024_000


@dataclass
class Part:
    """A client of one GPU of a host, with a TSG there."""

    client: Client
    gpu: int
    tsg: int = -1

    def __post_init__(self) -> None:
        if self.tsg < 0:
            self.tsg = self.client.tsg(gpu=self.gpu)

    def submit(self, duration: int, flags: int = 0, conflict: int = 0) -> Callable[[], int]:
        """Queues work; what is returned waits for it, and says when it completed."""
        work = self.client.submit(self.tsg, duration, gpu=self.gpu, flags=flags, conflict=conflict)
        wait = {"what": lib.GPURT_WAIT_WORK, "gpu": self.gpu, "tsg": self.tsg, "work": work}

        def finished() -> int:
            result, made = self.client.call(lib.GPURT_IOC_WAIT, timeout_ns=lib.GPURT_FOREVER, **wait)
            assert result == 0
            return int(made.completed_ns)

        return finished

    def shape(self, slice_: int = 0, level: int = lib.GPURT_INTERLEAVE_LOW) -> int:
        return self.client.code(lib.GPURT_IOC_TSG_SHAPE, gpu=self.gpu, tsg=self.tsg, slice_ns=slice_, level=level)


@contextlib.contextmanager
def held_back(host: Path, gpus: int = 1) -> Iterator[None]:
    """Keeps all other clients off the runlists inside the context."""
    with client_of(host) as holder:
        for gpu in range(gpus):
            holder.begin(gpu=gpu, priority=99)
        yield
        for gpu in range(gpus):
            holder.end(gpu=gpu)


@pytest.fixture
def divided(start_host: Callable[..., Path]) -> Path:
    """A host with a GPU of 12 units in two partitions, which slow memory-intensive work down by one half."""
    return start_host(gpus=2, units=(4, 8), cross=1500)


def test_the_status_says_which_partition_a_gpu_is(start_host: Callable[..., Path]) -> None:
    host = start_host(gpus=5, units=(4, 8), cross=1500)
    with control(str(host)) as plane:
        found = [(one.partition_of, one.partition_units, one.cross_thousandths) for one in plane.status()]
    assert found == [(0, 4, 1500), (0, 8, 1500), (1, 4, 1500), (1, 8, 1500), (2, 4, 1500)]


def test_a_gpu_that_is_not_divided_is_no_partition(plane: Control) -> None:
    assert [(one.partition_of, one.partition_units, one.cross_thousandths) for one in plane.status()] == [(None, 0, 0)]


def test_units_divide_parallel_work(divided: Path) -> None:
    with client_of(divided) as client:
        for gpu, parallel in ((0, 2 * MS), (1, MS)):
            part = Part(client, gpu)
            with held_back(divided, 2):
                start = part.submit(MS)
                both = part.submit(8 * MS, PARALLEL), part.submit(3 * MS)
                odd = part.submit(8 * MS + 1, PARALLEL)
            times = [one() for one in (start, *both, odd)]
            assert [after - before for before, after in itertools.pairwise(times)] == [
                parallel, 3 * MS, parallel + 1,
            ]  # fmt: skip


def test_work_has_a_least_duration_on_its_units(divided: Path) -> None:
    with client_of(divided) as client:
        part = Part(client, 1)
        fields = {"gpu": 1, "tsg": part.tsg, "flags": PARALLEL}
        least = 7 * lib.GPURT_MIN_WORK_NS + 1
        code = lib.GPURT_IOC_SUBMIT
        assert client.code(code, duration_ns=7 * lib.GPURT_MIN_WORK_NS, **fields) == -errno.EINVAL
        assert client.code(code, duration_ns=8 * lib.GPURT_MIN_WORK_NS - 8, **fields) == -errno.EINVAL
        assert client.code(code, duration_ns=least + lib.GPURT_MIN_WORK_NS, **fields) == 0


def test_work_of_one_kind_slows_each_other_down_on_a_gpu(host: Path, connect: Connect) -> None:
    """In slices of 1.024 ms in turn, at half and a third of the pace: a's 3 ms end in its sixth slice, 0.88 ms into it.

    By then b has done five thirds of a slice, 1,706,666.67 ns; alone, it does the rest at full pace.
    """
    for kind in (MEMORY, COMPUTE):
        marker, a, b = (Part(connect(), 0) for _ in range(3))
        with held_back(host):
            begin = marker.submit(MS)
            first, second = a.submit(3 * MS, kind, 2000), b.submit(3 * MS, kind, 3000)
        start, end, last = begin(), first(), second()
        assert end - start == 10 * SLICE + 880_000
        assert last - end == 1_293_334


def test_work_of_other_kinds_and_of_one_client_does_not(host: Path, connect: Connect) -> None:
    a, b, marker = Part(connect(), 0), Part(connect(), 0), Part(connect(), 0)
    with held_back(host):
        begin = marker.submit(MS)
        works = a.submit(3 * MS, MEMORY, 2000), b.submit(3 * MS, COMPUTE, 2000)
    assert max(one() for one in works) - begin() == 6 * MS
    other = Part(a.client, 0)
    with held_back(host):
        begin = marker.submit(MS)
        works = a.submit(3 * MS, MEMORY, 2000), other.submit(3 * MS, MEMORY, 2000)
    assert max(one() for one in works) - begin() == 6 * MS


def test_memory_work_is_slowed_down_while_another_partition_does_such(divided: Path) -> None:
    """One partition begins later, at most 2 s.  Its 1 s takes 1.5; of the other's 3 s, 1 is done meanwhile.

    The rest is done at full pace.  Compute-intensive work of the second partition then slows nobody down.
    """
    with client_of(divided) as one, client_of(divided) as two:
        long, short = Part(one, 0), Part(two, 1)
        with held_back(divided, 2):
            starts = long.submit(MS), short.submit(MS)
            ends = long.submit(3000 * MS, MEMORY), short.submit(1000 * MS, MEMORY)
            short.submit(5000 * MS, COMPUTE)
        begun, done = [start() for start in starts], [end() for end in ends]
        assert done[1] - begun[1] == 1500 * MS
        assert done[0] - begun[0] == 3500 * MS


def test_compute_work_of_another_partition_slows_nothing_down(divided: Path) -> None:
    with client_of(divided) as one, client_of(divided) as two:
        first, second = Part(one, 0), Part(two, 1)
        with held_back(divided, 2):
            starts = first.submit(20 * MS), second.submit(20 * MS)
            ends = first.submit(30 * MS, MEMORY, 2000), second.submit(30 * MS, COMPUTE, 2000)
        assert [end() - start() for start, end in zip(starts, ends, strict=True)] == [30 * MS] * 2


def test_a_client_that_goes_slows_nothing_down_any_more(divided: Path) -> None:
    with client_of(divided) as client:
        long = Part(client, 0)
        other = client_of(divided)
        short = Part(other, 1)
        with held_back(divided, 2):
            start = long.submit(20 * MS)
            end = long.submit(300 * MS, MEMORY)
            short.submit(lib.GPURT_MAX_WORK_NS, MEMORY)
        start()
        other.close()
        end()
        with held_back(divided, 2):
            again = long.submit(MS), long.submit(30 * MS, MEMORY)
        assert again[1]() - again[0]() == 30 * MS


def test_each_partition_has_its_own_owner(divided: Path) -> None:
    with client_of(divided) as one, client_of(divided) as two:
        running = lib.GPURT_STATE_RUNNING
        assert (one.begin(gpu=0, priority=9), two.begin(gpu=1, priority=1)) == (running, running)
        assert two.begin(gpu=0, priority=1) == lib.GPURT_STATE_PENDING


def test_a_tsg_has_a_slice_of_its_own(host: Path, connect: Connect) -> None:
    a, b, marker = Part(connect(), 0), Part(connect(), 0), Part(connect(), 0)
    assert a.shape(3 * MS) == 0
    with held_back(host):
        begin = marker.submit(MS)
        works = a.submit(3 * MS), b.submit(2 * MS)
    times = begin(), works[0](), works[1]()
    assert (times[1] - times[0], times[2] - times[1]) == (3 * MS, 2 * MS)
    assert a.shape(0) == 0  # that of the GPU again
    with held_back(host):
        begin = marker.submit(MS)
        works = a.submit(3 * MS), b.submit(2 * MS)
    assert works[0]() - begin() == 5 * MS  # b's end in its second slice, a's in its third


def test_a_higher_level_has_a_turn_before_each_lower_one(host: Path, connect: Connect) -> None:
    """The order is high, low, high: the marker completes between both turns of the high one."""
    marker, low, high = (Part(connect(), 0) for _ in range(3))
    assert high.shape(level=lib.GPURT_INTERLEAVE_HIGH) == 0
    with held_back(host):
        begin = marker.submit(MS)
        last = low.submit(SLICE)
        end = high.submit(2 * SLICE)
    start = begin()
    assert (end() - start, last() - start) == (SLICE, 2 * SLICE)


def without_right() -> None:
    """Becomes an ordinary user who may not take any real-time priority."""
    ordinary()
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def shapes(client: Client) -> list[int]:
    part = Part(client, 0)
    return [
        part.shape(lib.GPURT_MIN_SLICE_NS), part.shape(SLICE), part.shape(0),
        part.shape(SLICE + 1), part.shape(0, lib.GPURT_INTERLEAVE_MEDIUM),
    ]  # fmt: skip


def test_what_takes_time_from_others_needs_real_time_priority(opened: Path, spawn: Callable[..., Actor]) -> None:
    assert spawn(without_right).run(shapes) == [0, 0, 0, -errno.EPERM, -errno.EPERM]
    actor = spawn(ordinary)
    refused = 0 if actor.run(limit) else -errno.EPERM
    assert actor.run(shapes) == [0, 0, 0, refused, refused]


def test_root_may_shape_its_tsgs(host: Path, connect: Connect) -> None:
    assert shapes(connect()) == [0, 0, 0, 0, 0]
