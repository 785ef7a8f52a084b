# SPDX-License-Identifier: GPL-2.0
"""``gpurt.segment(stream=...)`` ends when the stream's work is done: as a context, a decorator, and with async."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.model import Platform
from gpurt import Client, segment
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import Control, connect

ME = os.getpid()


class Host:
    """The host's facts about this process's segments."""

    def __init__(self, control: Control, client: Client) -> None:
        self._control, self.client = control, client
        self._lock = threading.Lock()  # streams are waited for in threads

    @property
    def depth(self) -> int:
        """How many segments are open."""
        with self._lock:
            return sum(one.depth for one in self._control.clients() if one.pid == ME)


class Stream:
    """A stream whose work is done when the test says so; ``seen`` has what was open whenever it was waited for."""

    def __init__(self, host: Host, error: Exception | None = None) -> None:
        self._host, self._error = host, error
        self.seen: list[int] = []
        self.waiting, self.done = threading.Event(), threading.Event()
        self.done.set()

    def synchronize(self) -> None:
        self.seen.append(self._host.depth)
        self.waiting.set()
        self.done.wait(100)
        if self._error:
            raise self._error


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        yield str(running.socket)


@pytest.fixture
def host(socket: str) -> Iterator[Host]:
    with connect(socket) as control, Client(socket) as client:
        yield Host(control, client)


def test_it_ends_when_the_stream_is_done(host: Host) -> None:
    stream = Stream(host)
    with segment(client=host.client, stream=stream):
        assert (host.depth, stream.seen) == (1, [])
    assert (host.depth, stream.seen) == (0, [1])


def test_work_that_was_launched_before_an_exception_is_waited_for(host: Host) -> None:
    stream = Stream(host)
    with pytest.raises(KeyError), segment(client=host.client, stream=stream):
        raise KeyError
    assert (host.depth, stream.seen) == (0, [1])


def test_a_stream_that_fails_keeps_no_segment(host: Host) -> None:
    """Its exception is raised, after that of the block if there is one."""
    stream = Stream(host, OSError("device lost"))
    with pytest.raises(OSError, match="device lost"), segment(client=host.client, stream=stream):
        pass
    with pytest.raises(OSError, match="device lost") as raised, segment(client=host.client, stream=stream):
        raise KeyError
    assert isinstance(raised.value.__context__, KeyError)
    assert (host.depth, stream.seen) == (0, [1, 1])


def test_a_function_says_which_stream_when_the_segment_begins(host: Host) -> None:
    """As torch.cuda.current_stream: what it returns depends on the thread and the moment."""
    streams = [Stream(host), Stream(host)]
    asked = []

    def current() -> Stream:
        asked.append(host.depth)
        return streams[len(asked) - 1]

    @segment(client=host.client, stream=current)
    def detect(frame: int) -> int:
        """Detects."""
        return frame + host.depth

    assert (detect(4), detect(5), detect.__doc__) == (5, 6, "Detects.")
    assert (asked, [one.seen for one in streams]) == ([0, 0], [[1], [1]])


def test_without_a_host_it_is_waited_for_as_well(host: Host, tmp_path: Path, run: Callable[..., object]) -> None:
    program = tmp_path / "lone"
    program.write_text(
        f"#!{sys.executable}\n"
        "import asyncio, gpurt\n"
        "class Stream:\n"
        "    def synchronize(self): print('waited')\n"
        "with gpurt.segment(stream=Stream()): pass\n"
        "async def main():\n"
        "    async with gpurt.segment(stream=Stream(), wait=True): pass\n"
        "asyncio.run(main())\n"
    )
    program.chmod(0o755)
    assert run(program, None).stdout == "waited\nwaited\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [7, "stream", object()])
def test_what_is_no_stream_is_refused_before_anything_begins(host: Host, wrong: object) -> None:
    with pytest.raises(TypeError, match="neither has synchronize"):
        segment(client=host.client, stream=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no synchronize"), segment(client=host.client, stream=lambda: wrong):
        pytest.fail("the block was entered")  # type: ignore[unreachable]
    assert host.depth == 0


def test_other_coroutines_run_while_one_waits_for_its_stream(host: Host) -> None:
    stream = Stream(host)
    stream.done.clear()

    @segment(client=host.client, stream=stream)
    async def launch() -> int:
        await asyncio.sleep(0)
        return host.depth

    async def other() -> None:
        while not stream.waiting.is_set():
            await asyncio.sleep(0.001)
        assert host.depth == 1
        stream.done.set()

    async def main() -> int:
        found, _ = await asyncio.gather(launch(), other())
        return found

    assert asyncio.run(main()) == 1
    assert (host.depth, stream.seen) == (0, [1])


def test_tasks_share_a_segment_object(host: Host) -> None:
    """The first one to begin is the first one to end; segments are counted."""
    streams = [Stream(host), Stream(host)]
    streams[0].done.clear()
    one = segment(client=host.client, stream=iter(streams).__next__)

    async def use(number: int) -> None:
        async with one:
            await asyncio.sleep(0)
        if number:
            assert streams[1].seen == [2]
            streams[0].done.set()

    async def main() -> None:
        await asyncio.gather(use(0), use(1))

    asyncio.run(main())
    assert (host.depth, len(streams[0].seen)) == (0, 1)


def test_a_cancelled_task_does_not_give_the_gpu_up_while_its_work_runs(host: Host) -> None:
    stream = Stream(host)
    stream.done.clear()

    async def launch() -> None:
        async with segment(client=host.client, stream=stream):
            pass

    async def main() -> None:
        task = asyncio.create_task(launch())
        while not stream.waiting.is_set():
            await asyncio.sleep(0.001)
        for _ in range(2):  # also if it is cancelled again
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
            assert host.depth == 1
        stream.done.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert host.depth == 0


def test_a_task_that_waits_for_the_gpu_can_be_cancelled(host: Host, socket: str) -> None:
    """Meanwhile others run; a task that is granted the GPU goes on."""
    stream = Stream(host)

    async def launch() -> None:
        async with segment(5, wait=True, client=host.client, stream=stream):
            assert host.depth >= 1

    async def main(owner: Client) -> None:
        owner.begin(priority=50, wait=True)
        task = asyncio.create_task(launch())
        while host.depth < 2:  # the owner is this process, too
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (host.depth, stream.seen) == (1, [])
        task = asyncio.create_task(launch())
        while host.depth < 2:
            await asyncio.sleep(0.001)
        owner.end()
        await task

    with Client(socket) as owner:
        asyncio.run(main(owner))
    assert (host.depth, len(stream.seen)) == (0, 1)
