# SPDX-License-Identifier: GPL-2.0
"""Work that a segment waits for before it ends: anything with ``synchronize()``, such as a framework's stream.

A kernel launch returns at once.  A segment that ended then would give the GPU up while the kernel executes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """A stream, an event, a device or a module of PyTorch, CuPy, Numba, PyCUDA and others."""

    def synchronize(self) -> Any:
        """Returns when all that was submitted to it is done."""


#: A stream, or a function that returns the one to wait for; it is called when a segment begins.
Given: TypeAlias = Stream | Callable[[], Stream]


def check(given: object) -> None:
    """Raises TypeError for what is neither a stream nor a function."""
    if not isinstance(given, Stream) and not callable(given):
        raise TypeError(f"stream: a {type(given).__name__} neither has synchronize(), nor is a function")


def chosen(given: Given) -> Stream:
    """The stream of a segment that begins.  Raises TypeError if a function returned none."""
    if isinstance(given, Stream):
        return given
    found = given()
    if not isinstance(found, Stream):
        raise TypeError(f"stream: the function returned a {type(found).__name__}, which has no synchronize()")
    return found


def current_task() -> object:
    """The task that the event loop of this thread executes."""
    import asyncio  # a program with an event loop has it; others start faster without

    return asyncio.current_task()


async def in_thread(function: Callable[[], Any], on_cancel: Callable[[], None] | None = None) -> Any:
    """Calls a function that blocks in a thread of the event loop's, and returns what it returns.

    A task that is cancelled meanwhile is so only when the function has returned: the work that it waits for goes on.
    ``on_cancel`` is called first then, to end the wait.
    """
    import asyncio  # as in current_task()

    future = asyncio.get_running_loop().run_in_executor(None, function)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if on_cancel and not cancelled:
                on_cancel()
            cancelled = error
    if cancelled:
        future.exception()  # the cancellation comes first
        raise cancelled
    return future.result()
