# SPDX-License-Identifier: GPL-2.0
"""Signals while a Python program waits: nothing that it began stays; where the handler returns the wait goes on."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

import pytest
from hosts import Hosts, Obedience
from links import PATIENCE, Client, eventually

import gpurt
from gpurt._gpurt import lib
from gpurt.enums import State
from pycontrol.link.control import ClientInfo, Control
from pycontrol.link.control import connect as control

Make = Callable[[gpurt.Client], AbstractContextManager[object]]


class Interrupted(Exception):
    """The exception that the signal's handler raises."""


class Signals:
    """Signals to this thread, which is the main one, from when something holds until it ends."""

    def __init__(self, raises: bool) -> None:
        self.raises, self.count, self.over = raises, 0, threading.Event()
        self.thread: threading.Thread | None = None
        self._me = threading.get_ident()
        self._before = signal.signal(signal.SIGUSR1, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.raises and not self.over.is_set():
            self.over.set()
            raise Interrupted

    def once(self, holds: Callable[[], object], then: Callable[[], None] = lambda: None) -> None:
        """A signal may come before the thread sleeps: they are sent until the handler has raised, or has run often."""

        def send() -> None:
            eventually(holds)
            while not self.over.wait(0.01) and self.count < 5:
                signal.pthread_kill(self._me, signal.SIGUSR1)
            then()

        self.thread = threading.Thread(target=send)
        self.thread.start()

    def end(self) -> None:
        self.over.set()
        if self.thread:
            self.thread.join(PATIENCE)
        signal.signal(signal.SIGUSR1, self._before)


@pytest.fixture
def signals() -> Iterator[Callable[[bool], Signals]]:
    """Makes signals whose handler raises, or returns."""
    made: list[Signals] = []

    def one(raises: bool) -> Signals:
        made.append(Signals(raises))
        return made[-1]

    yield one
    for each in made:
        each.end()


@pytest.fixture
def mine(host: Path) -> Iterator[gpurt.Client]:
    with gpurt.Client(str(host)) as client:
        client.open_tsg()
        yield client


def of_mine(host: Path) -> ClientInfo:
    """The client with a TSG, which is the tested one."""
    with control(str(host)) as plane:
        return next(one for one in plane.clients() if one.tsgs)


def as_block(client: gpurt.Client) -> AbstractContextManager[object]:
    return gpurt.segment(priority=5, wait=True, client=client)


class Called:
    """Client.begin() and end()."""

    def __init__(self, client: gpurt.Client) -> None:
        self.client = client

    def __enter__(self) -> None:
        self.client.begin(5, wait=True)

    def __exit__(self, *_: object) -> None:
        self.client.end()


@pytest.mark.parametrize("make", [as_block, Called])
@pytest.mark.parametrize("outer", [0, 1])
def test_a_handler_that_raises_leaves_no_segment_open(
    host: Path, connect: Callable[[], Client], mine: gpurt.Client, signals: Callable[[bool], Signals], make: Make,
    outer: int,
) -> None:  # fmt: skip
    connect().begin(priority=9)
    for _ in range(outer):
        mine.begin(5)
    signals(True).once(lambda: of_mine(host).depth == outer + 1)
    with pytest.raises(Interrupted), make(mine):
        pytest.fail("the GPU is another one's")
    assert of_mine(host).depth == outer


@pytest.mark.parametrize("make", [as_block, Called])
def test_a_handler_that_returns_interrupts_nothing(
    host: Path, connect: Callable[[], Client], mine: gpurt.Client, signals: Callable[[bool], Signals], make: Make
) -> None:
    holder, sent = connect(), signals(False)
    holder.begin(priority=9)
    sent.once(lambda: of_mine(host).depth == 1, holder.end)
    with make(mine):
        assert (of_mine(host).state, of_mine(host).depth) == (State.RUNNING, 1)
    assert of_mine(host).depth == 0
    assert sent.count


@pytest.mark.parametrize("raises", [False, True])
def test_a_segment_that_waits_for_its_work_ends_whatever_signals_come(
    host: Path, mine: gpurt.Client, signals: Callable[[bool], Signals], raises: bool
) -> None:
    group, sent = mine.open_tsg(), signals(raises)
    began = threading.Event()
    sent.once(began.is_set, lambda: None if raises else mine.close_tsg(group))

    def block() -> None:
        with gpurt.segment(priority=5, drain=True, client=mine):
            mine.submit(group, int(lib.GPURT_MAX_WORK_NS))
            began.set()
            while not sent.count:
                pass  # so that the exception of a handler is not raised in here
            sent.raises = raises

    sent.raises = False
    if raises:
        with pytest.raises(Interrupted):
            block()
    else:
        block()
    assert of_mine(host).depth == 0


def test_an_end_that_cannot_wait_for_work_ends_the_segment(hosts: Hosts) -> None:
    host = hosts.serve(Obedience(1000))
    with gpurt.Client(str(host)) as client, control(str(host)) as plane:
        with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)), gpurt.segment(drain=True, client=client):
            assert plane.clients()[0].depth == 1
        assert plane.clients()[0].depth == 0


@pytest.mark.parametrize("raises", [False, True])
def test_a_copy_that_waits_for_the_bus(
    host: Path, connect: Callable[[], Client], mine: gpurt.Client, signals: Callable[[bool], Signals], plane: Control,
    raises: bool,
) -> None:  # fmt: skip
    holder, sent = connect(), signals(raises)
    assert holder.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, priority=9, timeout_ns=lib.GPURT_FOREVER) == 0

    def give_back() -> None:
        if not raises:
            assert holder.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_END) == 0

    sent.once(lambda: of_mine(host).copy is State.PENDING, give_back)
    if raises:
        with pytest.raises(Interrupted), gpurt.copy(5, client=mine):
            pytest.fail("the bus is another one's")
    else:
        with gpurt.copy(5, client=mine):
            assert of_mine(host).copy is State.RUNNING
    assert of_mine(host).copy is State.IDLE
    assert plane.buses()[0].waiters == 0
