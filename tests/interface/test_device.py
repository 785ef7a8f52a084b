# SPDX-License-Identifier: GPL-2.0
"""Cases that only the device has: bad pointers, signals that interrupt calls, and poll(2)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from actors import Actor, in_child
from links import (
    MS,
    PATIENCE,
    PENDING,
    RUNNING,
    DeviceClient,
    DevicePending,
    eventually,
    ioctl,
    structure,
)

from gpurt._gpurt import ffi, lib
from pycontrol.host.calls import KINDS
from pycontrol.link.control import Control

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
KERNEL_ADDRESS = 0xFFFF_8000_0000_0000
LONG_MS = int(1000 * PATIENCE)


@pytest.fixture
def client(device: Path) -> Iterator[DeviceClient]:
    """A client with a segment that has TSG 0."""
    with DeviceClient(device) as made:
        assert made.tsg() == 0
        assert made.begin() == RUNNING
        yield made


class Pages:
    """Two pages of memory, of which a test can make the second inaccessible."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 2 * PAGE)
        self.view = ctypes.c_char.from_buffer(self.memory)
        self.start = ctypes.addressof(self.view)

    def fill(self, offset: int, data: bytes) -> int:
        """Writes bytes at an offset and returns their address."""
        ctypes.memmove(self.start + offset, data, len(data))
        return self.start + offset

    def guard_second(self) -> None:
        """Makes the second page inaccessible."""
        assert libc.mprotect(self.start + PAGE, PAGE, 0) == 0

    def protect(self) -> None:
        """Makes both pages read-only."""
        assert libc.mprotect(self.start, 2 * PAGE, mmap.PROT_READ) == 0


@pytest.mark.parametrize("code", sorted(KINDS), ids=lambda code: KINDS[code])
def test_bad_pointers(client: DeviceClient, code: int) -> None:
    pages = Pages()
    pages.guard_second()
    addresses = [0, 1, 4095, pages.start + PAGE, pages.start + PAGE - 2, KERNEL_ADDRESS, 2**64 - 2, 2**63]
    assert [ioctl(client.fd, code, address) for address in addresses] == [-errno.EFAULT] * len(addresses)
    assert client.begin() == RUNNING


@pytest.mark.parametrize("code", sorted(KINDS), ids=lambda code: KINDS[code])
def test_a_structure_that_reaches_beyond_its_mapping(client: DeviceClient, code: int, plane: Control) -> None:
    pages = Pages()
    payload = structure(code)
    address = pages.fill(PAGE - len(payload) + 4, payload)
    pages.guard_second()
    before = [(one.depth, one.tsgs) for one in plane.clients()]
    assert ioctl(client.fd, code, address) == -errno.EFAULT
    longer = (len(payload) + 8).to_bytes(4, sys.byteorder) + payload[4:]
    assert ioctl(client.fd, code, pages.fill(PAGE - len(payload), longer)) == -errno.EFAULT
    assert [(one.depth, one.tsgs) for one in plane.clients()] == before


def test_the_last_bytes_of_a_mapping_are_enough(client: DeviceClient) -> None:
    pages = Pages()
    payload = structure(lib.GPURT_IOC_QUERY)
    address = pages.fill(PAGE - len(payload), payload)
    pages.guard_second()
    assert ioctl(client.fd, lib.GPURT_IOC_QUERY, address) == 0
    assert ffi.cast("struct gpurt_query *", address).gpus == 1


def test_memory_that_cannot_be_written(client: DeviceClient) -> None:
    pages = Pages()
    address = pages.fill(8, structure(lib.GPURT_IOC_QUERY))
    pages.protect()
    assert ioctl(client.fd, lib.GPURT_IOC_QUERY, address) == -errno.EFAULT


def test_a_huge_structure(client: DeviceClient) -> None:
    memory = ctypes.create_string_buffer(2 * PAGE)
    for size in (PAGE + 1, 2**31, 2**32 - 1):
        ctypes.memmove(memory, size.to_bytes(4, sys.byteorder), 4)
        assert ioctl(client.fd, lib.GPURT_IOC_QUERY, ctypes.addressof(memory)) == -errno.E2BIG


# Signals


def interrupted(client: DeviceClient, code: int, **fields: int) -> tuple[int, bytes]:
    """Makes a call that blocks, sends a signal, and returns the call's outcome."""
    pending = client.send(code, structure(code, **fields))
    assert isinstance(pending, DevicePending)
    assert not pending.done()
    pending.interrupt()
    return pending.wait()


def test_a_signal_interrupts_waits_and_leaves_the_segment_begun(
    client: DeviceClient, device: Path, plane: Control
) -> None:
    with DeviceClient(device) as holder:
        holder.begin(priority=50)
        result, payload = interrupted(client, lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_WAIT)
        assert result == -errno.EINTR
        made = ffi.from_buffer("struct gpurt_begin *", payload)
        assert (made.state, made.flags) == (PENDING, lib.GPURT_BEGIN_WAIT | lib.GPURT_BEGIN_BEGUN)
        again = interrupted(client, lib.GPURT_IOC_BEGIN, flags=made.flags)
        assert again[0] == -errno.EINTR
        forever = {"timeout_ns": lib.GPURT_FOREVER}
        assert interrupted(client, lib.GPURT_IOC_WAIT, **forever)[0] == -errno.EINTR
        result, payload = interrupted(client, lib.GPURT_IOC_WAIT, timeout_ns=10**15)
        assert result == -errno.EINTR
        until = ffi.from_buffer("struct gpurt_wait *", payload).timeout_ns
        assert until & lib.GPURT_TIMEOUT_AT
        assert 0 < until - lib.GPURT_TIMEOUT_AT - 10**15 < time.monotonic_ns()
        result, payload = interrupted(client, lib.GPURT_IOC_WAIT, timeout_ns=until)
        assert result == -errno.EINTR
        assert ffi.from_buffer("struct gpurt_wait *", payload).timeout_ns == until  # also while it is stopped
        work = client.submit(0, 3600_000 * MS)
        assert interrupted(client, lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE, **forever)[0] == -errno.EINTR
        fields = {"what": lib.GPURT_WAIT_WORK, "work": work, **forever}
        assert interrupted(client, lib.GPURT_IOC_WAIT, **fields)[0] == -errno.EINTR
        assert interrupted(client, lib.GPURT_IOC_END, flags=lib.GPURT_END_DRAIN)[0] == -errno.EINTR
        assert next(one.depth for one in plane.clients() if not one.priority) == 2


def wait_in_begin(client: DeviceClient) -> None:
    client.exchange(lib.GPURT_IOC_BEGIN, structure(lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_WAIT))


def test_a_fatal_signal_ends_a_blocked_process(device: Path, plane: Control) -> None:
    with DeviceClient(device) as holder:
        holder.begin(priority=50)
        actor = Actor(device)
        actor.start(wait_in_begin)
        eventually(lambda: any(one.pid == actor.pid and one.depth for one in plane.clients()))
        os.kill(actor.pid, signal.SIGTERM)
        assert actor.reap() == -signal.SIGTERM


# poll


def ready(fd: int, timeout_ms: int = 0) -> int:
    """The events that poll(2) reports for a descriptor."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLOUT)
    found = poll.poll(timeout_ms)
    return found[0][1] if found else 0


def test_polling_for_the_gpu(device: Path) -> None:
    with DeviceClient(device) as a, DeviceClient(device) as b:
        assert ready(a.fd) == 0
        a.begin(priority=5)
        assert ready(a.fd) == select.POLLOUT
        b.begin(priority=6)
        assert (ready(a.fd), ready(b.fd)) == (0, select.POLLOUT)
        b.end()
        assert (ready(a.fd, LONG_MS), ready(b.fd)) == (select.POLLOUT, 0)


def test_polling_for_completed_work(device: Path) -> None:
    with DeviceClient(device) as client, DeviceClient(device) as urgent:
        tsg = client.tsg()
        assert ready(client.fd) == 0
        urgent.begin(priority=9)  # keeps the work off the GPU until we have looked
        client.submit(tsg, MS)
        assert ready(client.fd) == 0
        urgent.end()
        assert ready(client.fd, LONG_MS) == select.POLLIN
        assert client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE) == 0
        assert ready(client.fd) == 0


def test_polling_wakes_up(device: Path) -> None:
    with DeviceClient(device) as a, DeviceClient(device) as b:
        a.begin(priority=5)
        b.begin(priority=4)
        # the descriptor belongs to this process: in another one, poll reports an error
        assert int(in_child(lambda: ready(b.fd))) & select.POLLERR
        epoll = select.epoll()
        epoll.register(b.fd, select.EPOLLOUT | select.EPOLLET)
        assert epoll.poll(0) == []
        a.end()
        assert epoll.poll(PATIENCE) == [(b.fd, select.EPOLLOUT)]
