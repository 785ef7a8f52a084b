# SPDX-License-Identifier: GPL-2.0
"""Structures that are too short, too long, or have wrong values: the exact error of each call."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from links import IDLE, MS, RUNNING, Client, client_of, is_device

from gpurt._gpurt import ffi, lib
from pycontrol.host.calls import KINDS
from pycontrol.link.control import Control

Connect = Callable[[], Client]
FOREVER = lib.GPURT_FOREVER
MEMORY, COMPUTE = lib.GPURT_SUBMIT_MEMORY, lib.GPURT_SUBMIT_COMPUTE
NAMES = {code: f"{code & 0xFF:#04x} {kind}" for code, kind in KINDS.items()}
#: A right call of each kind, for a client with TSG 0 in a segment.
RIGHT: dict[int, dict[str, Any]] = {
    lib.GPURT_IOC_QUERY: {},
    lib.GPURT_IOC_BEGIN: {},
    lib.GPURT_IOC_END: {},
    lib.GPURT_IOC_WAIT: {"what": lib.GPURT_WAIT_GRANT, "timeout_ns": FOREVER},
    lib.GPURT_IOC_COPY: {"what": lib.GPURT_COPY_BEGIN},
    lib.GPURT_IOC_GROUP_JOIN: {"name": b"test"},
    lib.GPURT_IOC_TSG_OPEN: {},
    lib.GPURT_IOC_TSG_CLOSE: {},
    lib.GPURT_IOC_SUBMIT: {"duration_ns": lib.GPURT_MIN_WORK_NS},
    lib.GPURT_IOC_TSG_SHAPE: {},
    lib.GPURT_IOC_AGENT: {"tsgs": 1, "driver": b"test"},
    lib.GPURT_IOC_ORDER: {},
    lib.GPURT_IOC_JOB_READY: {"task": b"test"},
    lib.GPURT_IOC_JOB_WAIT: {},
    lib.GPURT_IOC_JOB_RUN: {},
    lib.GPURT_IOC_JOB_KERNEL_DONE: {},
    lib.GPURT_IOC_JOB_DONE: {},
    lib.GPURT_IOC_JOB_MARK: {"task": b"test"},
}
#: Calls about agents, which a virtual GPU has not, and about units, which neither host shares here (tests/host does).
REFUSED = [lib.GPURT_IOC_AGENT, lib.GPURT_IOC_ORDER, *(code for code in RIGHT if "gpurt_job" in NAMES[code])]
REFUSED.remove(lib.GPURT_IOC_JOB_MARK)
#: The result of a right call of each kind.
OUTCOMES = dict.fromkeys(KINDS, 0) | dict.fromkeys(REFUSED, -errno.EOPNOTSUPP)
OUTCOMES[lib.GPURT_IOC_GROUP_JOIN] = -errno.EBUSY


@pytest.fixture
def another(connect: Connect) -> Connect:
    """Makes clients with TSG 0, in a segment."""

    def one() -> Client:
        client = connect()
        assert client.tsg() == 0
        assert client.begin() == RUNNING
        return client

    return one


def bytes_of(code: int, **fields: int) -> bytes:
    made = ffi.new(KINDS[code] + " *", {"size": ffi.sizeof(KINDS[code]), **RIGHT[code], **fields})
    return bytes(ffi.buffer(made))


def resized(payload: bytes, size: int, tail: bytes = b"") -> bytes:
    """The structure with another size field, and with bytes behind it."""
    return size.to_bytes(4, sys.byteorder) + payload[4:] + tail


def test_query_says_what_the_host_is(host: Path, connect: Connect) -> None:
    result, made = connect().call(lib.GPURT_IOC_QUERY)
    assert result == 0
    assert (made.version, made.gpus, made.tier) == (lib.GPURT_VERSION, 1, lib.GPURT_TIER_VIRTUAL)
    assert made.policy == lib.GPURT_POLICY_SEGMENT
    assert made.caps & lib.GPURT_CAP_VGPU
    assert bool(made.caps & lib.GPURT_CAP_EMULATED) is not is_device(host)
    assert made.size == ffi.sizeof("struct gpurt_query")


def test_query_tells_the_longest_update_and_the_policy(start_host: Callable[..., Path]) -> None:
    host = start_host(alpha=2 * MS, gpus=2)
    with client_of(host) as client:
        client.begin(gpu=1, priority=3)
        assert client.call(lib.GPURT_IOC_QUERY, gpu=1)[1].epsilon_ns >= 2 * MS
        assert client.call(lib.GPURT_IOC_QUERY)[1].epsilon_ns == 0
        assert client.call(lib.GPURT_IOC_QUERY)[1].gpus == 2
        assert client.code(lib.GPURT_IOC_QUERY, gpu=2) == -errno.ENODEV


class TestSizes:
    """Rules of the interface's manual for structures that grow: each call, by a client of its own."""

    def test_the_exact_size_is_right(self, another: Connect) -> None:
        assert {code: another().exchange(code, bytes_of(code))[0] for code in KINDS} == OUTCOMES

    def test_too_short(self, another: Connect) -> None:
        wrong = []
        for code in KINDS:
            client, payload = another(), bytes_of(code)
            for size in (0, 3, 4, len(payload) - 8, len(payload) - 1):
                sent = resized(payload, size)
                if not is_device(client.host):  # a short structure is a short packet; in memory other bytes follow
                    sent = sent[: max(size, 4)]
                if client.exchange(code, sent) != (-errno.EINVAL, sent):
                    wrong.append((NAMES[code], size))
        assert wrong == []

    @pytest.mark.parametrize("extra", [1, 1000])
    def test_longer_with_zeros(self, another: Connect, extra: int) -> None:
        for code in KINDS:
            payload = bytes_of(code)
            result, answer = another().exchange(code, resized(payload, len(payload) + extra, bytes(extra)))
            assert result == OUTCOMES[code], NAMES[code]
            assert len(answer) == len(payload) + extra, NAMES[code]
            assert not any(answer[len(payload) :]), NAMES[code]

    def test_the_longest_with_zeros(self, another: Connect) -> None:
        longest = lib.GPURT_MAX_STRUCT
        for code in KINDS:
            payload = bytes_of(code)
            for size, outcome in ((longest, OUTCOMES[code]), (longest + 1, -errno.E2BIG)):
                given = resized(payload, size, bytes(size - len(payload)))
                assert another().exchange(code, given)[0] == outcome, (NAMES[code], size)

    def test_longer_with_something_unknown(self, another: Connect) -> None:
        wrong = []
        for code in KINDS:
            client, payload = another(), bytes_of(code)
            for where in (0, 7, 500):
                tail = bytes(where) + b"\1" + bytes(500 - where)
                if client.exchange(code, resized(payload, len(payload) + len(tail), tail))[0] != -errno.E2BIG:
                    wrong.append((NAMES[code], where))
        assert wrong == []

    def test_the_size_in_the_number_does_not_matter(self, another: Connect) -> None:
        """A program built with a newer header has the newer structure's size in the ioctl number."""
        seen = {}
        for code in KINDS:
            payload = bytes_of(code)
            seen[code], _ = another().exchange(code + (8 << 16), resized(payload, len(payload) + 8, bytes(8)))
        assert seen == OUTCOMES


BAD: list[tuple[int, dict[str, Any], int]] = [
    (lib.GPURT_IOC_QUERY, {"pad": 1}, errno.EINVAL),
    (lib.GPURT_IOC_QUERY, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_QUERY, {"gpu": lib.GPURT_MAX_GPUS}, errno.ENODEV),
    (lib.GPURT_IOC_QUERY, {"gpu": 2**32 - 1}, errno.ENODEV),
    (lib.GPURT_IOC_BEGIN, {"gpu": 7}, errno.ENODEV),
    (lib.GPURT_IOC_BEGIN, {"gpu": 2**31}, errno.ENODEV),
    (lib.GPURT_IOC_BEGIN, {"flags": lib.GPURT_BEGIN_OWNER | lib.GPURT_BEGIN_FENCE}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"flags": lib.GPURT_BEGIN_FLAGS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"flags": lib.GPURT_BEGIN_POST}, errno.EINVAL),  # for it has an answer
    (lib.GPURT_IOC_BEGIN, {"flags": lib.GPURT_BEGIN_YIELD | lib.GPURT_BEGIN_WAIT}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"flags": lib.GPURT_BEGIN_POST, "priority": 1}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"flags": 2**31}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"raised": 1}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"priority": 100}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"priority": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_END, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_END, {"flags": 2}, errno.EINVAL),
    (lib.GPURT_IOC_END, {"pad": 2**31}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_WAIT, {"what": 3}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_GRANT, "tsg": 1}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_IDLE, "work": 1}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_WORK, "tsg": 5, "work": 1}, errno.ENOENT),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_WORK, "work": 0}, errno.ENOENT),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_WORK, "work": 1}, errno.ENOENT),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_WORK, "work": 2**64 - 1}, errno.ENOENT),
    (lib.GPURT_IOC_COPY, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_COPY, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_END, "request": 7}, errno.ENOENT),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_COUNT}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"priority": 100}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_NEXT, "priority": 1}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_NEXT}, errno.ENOENT),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_END, "priority": 1}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_END, "timeout_ns": 1}, errno.EINVAL),
    (lib.GPURT_IOC_COPY, {"what": lib.GPURT_COPY_END}, errno.ENOENT),
    (lib.GPURT_IOC_GROUP_JOIN, {"flags": 2}, errno.EINVAL),
    (lib.GPURT_IOC_GROUP_JOIN, {"name": b""}, errno.EINVAL),
    (lib.GPURT_IOC_GROUP_JOIN, {"name": b"\x1b[2J"}, errno.EINVAL),
    (lib.GPURT_IOC_GROUP_JOIN, {"name": b"x" * lib.GPURT_NAME_LEN}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_JOB_MARK, {"what": lib.GPURT_MARK_COUNT}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"cpu_ns": 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"release_ns": 2**64 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"task": b""}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"task": b"\x1b[2J"}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_MARK, {"task": b"x" * lib.GPURT_TASK_LEN}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_OPEN, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_TSG_OPEN, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_OPEN, {"tsg": 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_CLOSE, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_TSG_CLOSE, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_CLOSE, {"tsg": 3}, errno.ENOENT),
    (lib.GPURT_IOC_TSG_CLOSE, {"tsg": 2**32 - 1}, errno.ENOENT),
    (lib.GPURT_IOC_SUBMIT, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_SUBMIT, {"tsg": 9}, errno.ENOENT),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": 0}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": lib.GPURT_MIN_WORK_NS - 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": lib.GPURT_MAX_WORK_NS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": 2**64 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"engine": lib.GPURT_ENGINE_COUNT}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"engine": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": lib.GPURT_SUBMIT_FLAGS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": 2**31}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": MEMORY | COMPUTE}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": MEMORY, "engine": lib.GPURT_ENGINE_COPY}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": COMPUTE, "engine": lib.GPURT_ENGINE_COPY}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": lib.GPURT_SUBMIT_PARALLEL, "engine": lib.GPURT_ENGINE_COPY}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"conflict": 1000}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": MEMORY, "conflict": 999}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": MEMORY, "conflict": 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": COMPUTE, "conflict": lib.GPURT_MAX_CONFLICT + 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"flags": COMPUTE, "conflict": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_SHAPE, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_TSG_SHAPE, {"tsg": 9}, errno.ENOENT),
    (lib.GPURT_IOC_TSG_SHAPE, {"level": lib.GPURT_INTERLEAVE_COUNT}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_SHAPE, {"level": 2**32 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_SHAPE, {"slice_ns": lib.GPURT_MIN_SLICE_NS - 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_SHAPE, {"slice_ns": lib.GPURT_MAX_SLICE_NS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_SHAPE, {"slice_ns": 2**64 - 1}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_AGENT, {"flags": lib.GPURT_AGENT_FLAGS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"tier": lib.GPURT_TIER_COUNT}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"tsgs": lib.GPURT_MAX_TSGS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"driver": b""}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"driver": b"x" * lib.GPURT_NAME_LEN}, errno.EINVAL),
    (lib.GPURT_IOC_AGENT, {"driver": b"two\nlines"}, errno.EINVAL),
    (lib.GPURT_IOC_ORDER, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_ORDER, {"flags": lib.GPURT_ORDER_FLAGS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_ORDER, {"pad": 1}, errno.EINVAL),
    (lib.GPURT_IOC_ORDER, {"result": 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_READY, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_READY, {"task": b""}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_READY, {"task": b"x" * lib.GPURT_TASK_LEN}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_READY, {"task": b"two\nlines"}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_WAIT, {"what": lib.GPURT_JOB_WHATS}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_RUN, {"duration_ns": lib.GPURT_MIN_WORK_NS - 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_RUN, {"duration_ns": lib.GPURT_MAX_WORK_NS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_KERNEL_DONE, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_JOB_DONE, {"flags": 2**31}, errno.EINVAL),
]


def test_bad_values_are_refused_and_change_nothing(another: Connect, plane: Control) -> None:
    ready = another()

    def facts() -> list[Any]:
        return [(one.state, one.depth, one.tsgs, one.segments) for one in plane.clients()]

    before, wrong = facts(), []
    for code, fields, error in BAD:
        payload = bytes_of(code, **fields)
        result, answer = ready.exchange(code, payload)
        if (result, answer) != (-error, payload):
            wrong.append((NAMES[code], fields, f"{errno.errorcode[error]} wanted", -result))
    assert wrong == []
    assert facts() == before


def test_time_slices_at_their_limits_are_right(another: Connect) -> None:
    client = another()
    for slice_ns in (0, lib.GPURT_MIN_SLICE_NS, lib.GPURT_MAX_SLICE_NS):
        assert client.code(lib.GPURT_IOC_TSG_SHAPE, slice_ns=slice_ns) == 0, slice_ns


def test_calls_that_need_a_segment(connect: Connect) -> None:
    client = connect()
    assert client.code(lib.GPURT_IOC_END) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_END, flags=lib.GPURT_END_DRAIN) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=FOREVER) == -errno.ENOENT


def test_unknown_calls(connect: Connect) -> None:
    client = connect()
    codes = [
        0,
        0x12345678,
        lib.GPURT_IOC_QUERY | 0x7F,  # our magic, no such number
        lib.GPURT_IOC_QUERY ^ 0x100,  # our number, another magic
    ]
    assert [client.exchange(code, bytes(64))[0] for code in codes] == [-errno.ENOTTY] * len(codes)
    assert client.begin() == RUNNING


def test_a_client_has_so_many_time_slice_groups(connect: Connect, plane: Control) -> None:
    """A client that has all it may have takes none from others."""
    client, other = connect(), connect()
    numbers = {client.tsg() for _ in range(lib.GPURT_MAX_CLIENT_TSGS)}
    assert numbers == set(range(lib.GPURT_MAX_CLIENT_TSGS))
    assert client.code(lib.GPURT_IOC_TSG_OPEN) == -errno.EMFILE
    assert {other.tsg() for _ in range(lib.GPURT_MAX_CLIENT_TSGS)} == numbers
    assert plane.status()[0].tsgs == 2 * lib.GPURT_MAX_CLIENT_TSGS
    client.close_tsg(47)
    client.close_tsg(11)
    assert [client.tsg(), client.tsg()] == [11, 47]
    client.close()
    assert other.begin(priority=5) == RUNNING
    assert other.code(lib.GPURT_IOC_TSG_CLOSE, tsg=lib.GPURT_MAX_CLIENT_TSGS) == -errno.ENOENT
    assert IDLE not in {one.state for one in plane.clients() if one.priority == 5}
