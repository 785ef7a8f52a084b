# SPDX-License-Identifier: GPL-2.0
"""Work that a segment waits for before it ends: anything with ``synchronize()``, such as a framework's stream.

A kernel launch returns at once.  A segment that ended then would give the GPU up while the kernel executes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """A stream, an event, a device or a module of PyTorch, CuPy, Numba, PyCUDA and others."""

    def synchronize(self) -> Any:
        """Returns when all that was submitted to it is done."""


#: A stream, or a function that returns the one to wait for; it is called when a segment begins.
Given: TypeAlias = Stream | Callable[[], Stream]


def _waits(thing: object) -> TypeGuard[Stream]:
    """Whether it can be waited for: a class not by its instances' method, but by one of its own (PyCUDA's Context)."""
    if isinstance(thing, type):
        return isinstance(inspect.getattr_static(thing, "synchronize", None), (staticmethod, classmethod))
    return isinstance(thing, Stream)


def check(given: object) -> None:
    """Raises TypeError for what is neither a stream nor a function.

    A class is neither: a stream that is made when a segment begins is not the one that gets the work.
    """
    if _waits(given):
        return
    if isinstance(given, type):
        raise TypeError(f"stream: {given.__name__} is a class; name a stream, or a function that returns one")
    if not callable(given):
        raise TypeError(f"stream: a {type(given).__name__} neither has synchronize(), nor is a function")


def chosen(given: Given, elsewhere: bool = False) -> Stream:
    """The stream of a segment that begins.  ``elsewhere``: another thread than this one waits for it.

    Raises:
        TypeError: a function returned none; or it is a module or a class, for another thread.
            ``torch.cuda.synchronize()`` waits for the current device, and each thread has its own.
    """
    stream = given if _waits(given) else cast("Callable[[], object]", given)()
    if not _waits(stream):
        what = f"class {stream.__name__}" if isinstance(stream, type) else f"{type(stream).__name__}"
        raise TypeError(f"stream: the function returned a {what}, which has no synchronize() of its own")
    if elsewhere and isinstance(stream, (ModuleType, type)):
        raise TypeError(
            f"stream: {stream.__name__} waits for the current device of the thread that calls it, and with async "
            "another thread does: name a stream"
        )
    return stream


def current_task() -> object:
    """The task that the event loop of this thread executes."""
    import asyncio  # a program with an event loop has it; others start faster without

    return asyncio.current_task()


async def in_thread(function: Callable[[], Any], on_cancel: Callable[[], None] | None = None) -> Any:
    """Calls a function that blocks in a thread of the event loop's, and returns what it returns.

    If the task is cancelled meanwhile, the cancellation takes effect when the function has returned, since its work
    goes on.  ``on_cancel`` is called at once, to end the wait.
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
