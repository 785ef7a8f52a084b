# SPDX-License-Identifier: GPL-2.0
"""Things that a segment is put around, and places where its object goes: it covers them all, or says that it cannot."""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import pickle
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.model import Platform
from gpurt import Client, segment
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import Control, connect


class Host:
    """The host's facts about this process's segments."""

    def __init__(self, control: Control, client: Client) -> None:
        self._control, self.client = control, client

    def depth(self) -> int:
        """How many segments are open."""
        return sum(one.depth for one in self._control.clients() if one.pid == os.getpid())

    def open(self) -> list[tuple[int, int]]:
        """Priority and depth of each client that has segments open."""
        return sorted((one.priority, one.depth) for one in self._control.clients() if one.depth)


class Stream:
    """Counts how often it was waited for."""

    waits = 0

    def synchronize(self) -> None:
        self.waits += 1


STREAM = Stream()


def of_the_process() -> Stream:
    """Where `STREAM` is in another process, too."""
    return STREAM


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        yield str(running.socket)


@pytest.fixture
def host(socket: str) -> Iterator[Host]:
    with connect(socket) as control, Client(socket) as client:
        yield Host(control, client)


class Detector:
    """An object that is called, as models are."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def __call__(self) -> int:
        return self.host.depth()


class AsyncDetector(Detector):
    async def __call__(self) -> int:  # type: ignore[override]
        await asyncio.sleep(0)
        return self.host.depth()


def other_decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    """As torch.inference_mode(): a plain function around any function."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


def test_objects_that_are_called_are_covered(host: Host) -> None:
    stream = Stream()
    around = segment(client=host.client, stream=stream)
    assert around(Detector(host))() == 1
    assert around(functools.partial(Detector.__call__, Detector(host)))() == 1
    assert (host.depth(), stream.waits) == (0, 2)


def test_objects_whose_call_is_a_coroutine_function_are_covered(host: Host) -> None:
    """They are no coroutine functions themselves; the segment ended before the coroutine began."""
    stream = Stream()
    around: Callable[..., Any] = segment(client=host.client, stream=stream)
    assert asyncio.run(around(AsyncDetector(host))()) == 1
    assert asyncio.run(around(functools.partial(AsyncDetector.__call__, AsyncDetector(host)))()) == 1
    assert (host.depth(), stream.waits) == (0, 2)


def test_a_coroutine_below_another_decorator_is_refused_when_it_is_called(host: Host) -> None:
    """It is a plain function, of which nothing has run when it returns."""
    ran = []

    @other_decorator
    async def detect() -> None:
        ran.append(True)

    with pytest.raises(TypeError, match=r"coroutine of .*detect begins: put it around the coroutine function"):
        segment(client=host.client)(detect)()
    assert (host.depth(), ran) == (0, [])


def test_generators_and_classes_are_refused(host: Host) -> None:
    """The segment of a generator function would end when its first step has not begun."""

    def frames() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (frames, later, functools.partial(frames)):
        with pytest.raises(TypeError, match=r"before the generator .* begins"):
            segment(client=host.client)(function)
    with pytest.raises(TypeError, match="decorate methods of class Detector"):
        segment(client=host.client)(Detector)
    with pytest.raises(TypeError, match="an object of type int"):
        segment(client=host.client)(7)  # type: ignore[arg-type]


def test_a_decorator_without_parentheses_is_refused() -> None:
    """A call of what it made executed nothing: it made a decorated argument."""

    def detect() -> None:
        pass

    with pytest.raises(TypeError, match=r"parentheses: @gpurt\.segment\(\)"):
        segment(detect)  # type: ignore[arg-type]


def test_a_class_is_no_stream(host: Host) -> None:
    """`stream=torch.cuda.Stream` has synchronize(), as a function without its stream."""
    with pytest.raises(TypeError, match="Stream is a class"):
        segment(client=host.client, stream=Stream)
    with (
        pytest.raises(TypeError, match="a class Stream, which has no"),
        segment(client=host.client, stream=lambda: Stream),
    ):
        pytest.fail("the block was entered")
    assert host.depth() == 0


def test_a_coroutine_that_asyncio_does_not_execute_begins_nothing(host: Host) -> None:
    """As rclpy executes coroutines; the segment had begun, and stayed open."""

    @segment(client=host.client)
    async def detect() -> None:
        pytest.fail("the block was entered")

    with pytest.raises(RuntimeError, match="no running event loop"):
        detect().send(None)
    assert host.depth() == 0


@pytest.mark.parametrize("kind", ["module", "class"])
def test_async_waits_for_no_thread_s_current_device(host: Host, kind: str) -> None:
    """Both torch.cuda and PyCUDA's class Context wait for a current device; the thread that waits has another one."""
    waits: list[int] = []
    given: Any = types.ModuleType("whole")
    given.synchronize = lambda: waits.append(host.depth())
    if kind == "class":
        given = type("whole", (), {"synchronize": staticmethod(given.synchronize)})

    async def detect() -> None:
        async with segment(client=host.client, stream=given):
            pytest.fail("the block was entered")

    with segment(client=host.client, stream=given):
        pass
    assert waits == [1]
    with pytest.raises(TypeError, match="whole waits for the current device of the thread that calls it"):
        asyncio.run(detect())
    assert (host.depth(), waits) == (0, [1])


def test_a_model_that_has_a_segment_can_be_copied_and_sent(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the middle of that segment, which stays the one object that counts; a sent one has nothing open."""
    monkeypatch.setenv("GPURT_DEVICE", str(tmp_path / "none"))  # this machine may have a host
    model = {"around": segment(client=host.client, stream=STREAM)}
    with model["around"]:
        assert copy.deepcopy(model)["around"] is copy.copy(model)["around"] is model["around"]
    sent = segment(7, stream=of_the_process)
    with sent:
        received = pickle.loads(pickle.dumps(sent))
        assert vars(received)["_priority"] == 7
        assert not hasattr(received._open, "stack")
    before = STREAM.waits
    with received:
        pass
    assert (STREAM.waits, host.depth()) == (before + 1, 0)


def test_a_segment_of_a_second_thread_has_the_priority_of_the_first_one(socket: str, host: Host) -> None:
    """docs/frameworks.md warns of it.  Clients of their own keep the priorities apart."""
    found = []

    def urgent(client: Client) -> None:
        with segment(80, client=client):
            found.append(host.open())

    with segment(10, client=host.client), Client(socket) as own:
        for client in (host.client, own):
            thread = threading.Thread(target=urgent, args=(client,))
            thread.start()
            thread.join()
    assert found == [[(10, 2)], [(10, 1), (80, 1)]]


def test_a_child_that_is_forked_in_a_block_leaves_it(socket: str, run: Any) -> None:
    """It ends nothing of its parent's, waits for nothing, and has segments of its own."""
    program = (
        "import os, gpurt\n"
        "class Stream:\n"
        "    def synchronize(self): print('waited', os.getpid() == parent, flush=True)\n"
        "parent, around, bus = os.getpid(), gpurt.segment(5, stream=Stream()), gpurt.copy(5)\n"
        "with around, bus:\n"
        "    child = os.fork()\n"
        "    if child: assert os.waitpid(child, 0)[1] == 0\n"
        "if not child:\n"
        "    with around: pass\n"
        "else:\n"
        "    with bus: pass\n"
    )
    done = run(sys.executable, socket, "-c", program)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "waited False\nwaited True\n")
