# SPDX-License-Identifier: GPL-2.0
"""GPU segments from Python, through libgpurt.

::

    with segment():                 # this thread's SCHED_FIFO priority counts on the GPU
        run_model()

    @segment(priority=60, wait=True)
    def detect(frame): ...

    with segment(stream=torch.cuda.current_stream()):   # ends when the stream's work is done
        run_model()

    async with segment(stream=stream):                  # other coroutines run while this one waits
        launch()
"""

from __future__ import annotations

import errno
import functools
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from gpurt import functions, kept, streams
from gpurt._gpurt import ffi, lib
from gpurt.enums import Cap, Form
from gpurt.kept import FOREVER, check_result
from gpurt.streams import Given, Stream
from gpurt.types import CData

P = ParamSpec("P")
R = TypeVar("R")
#: Why a group cannot raise the calling thread, by error number.
_NOT_KEPT = {
    errno.EPERM: "the thread may not be raised: raise RLIMIT_RTPRIO (ulimit -r) or grant CAP_SYS_NICE, unless the "
    "administrator has barred it (gpurt set rule bar), or another process opened this client",
    errno.ERANGE: "the thread needs a SCHED_FIFO or SCHED_RR priority that is not above the normal ones (gpurt status)",
    errno.EBUSY: "it is inside a segment, in another group, or the group is one that does not raise all its threads",
}

def _flags(wait: bool, form: Form | str) -> int:
    """The flags of a begin.  Raises ValueError: no such form."""
    stated = Form.parse(form) if isinstance(form, str) else form
    of_form = {Form.SELF: 0, Form.OWNER: lib.GPURT_BEGIN_OWNER, Form.FENCE: lib.GPURT_BEGIN_FENCE}[Form(stated)]
    return int(of_form | (lib.GPURT_BEGIN_WAIT if wait else 0))


def explain(device: str | None, status: int) -> str:
    """Why opening the host at `device`, or at the usual places, gave `status` (-errno), and what to do about it."""
    text = ffi.new("char[]", 1024)
    lib.gpurt_explain(os.fsencode(device) if device else ffi.NULL, status, text, len(text))
    return os.fsdecode(ffi.string(text))


class Client:
    """One client of the host; a context manager.  Times are nanoseconds.

    Raises:
        OSError: ENODEV if there is no host; EACCES if this process may not open it.
    """

    def __init__(self, device: str | None = None) -> None:
        place = ffi.new("struct gpurt_handle **")
        status = lib.gpurt_open(place, os.fsencode(device) if device else ffi.NULL)
        if status:
            raise OSError(-status, explain(device, status))
        self._handle = place[0]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def handle(self) -> object:
        """The C handle.  Raises OSError EBADF after close()."""
        if self._handle is None:
            raise OSError(errno.EBADF, "the client is closed")
        return self._handle

    @property
    def capabilities(self) -> Cap:
        """The host's capabilities.  Raises OSError."""
        query = ffi.new("struct gpurt_query *")
        check_result(lib.gpurt_query_host(self.handle, query), "query")
        return Cap(query.caps)

    def join(self, group: str, raise_all: bool = False) -> None:
        """Makes the client a member of the group of that name: members own a GPU together.

        ``raise_all``: under policy `boosted` the group raises all its threads, in and out of segments; for this client
        it raises the calling thread.

        Raises:
            OSError: EOPNOTSUPP, the host has no groups; EBUSY inside a segment or another group; EDQUOT; EINVAL; with
                ``raise_all`` also EPERM and ERANGE, the thread may not or cannot be raised.
        """
        flags = lib.GPURT_GROUP_ALL if raise_all else 0
        code = -lib.gpurt_group_join(self.handle, os.fsencode(group), flags)
        if code in _NOT_KEPT and raise_all:
            raise OSError(code, f"join group {group}: {_NOT_KEPT[code]}")
        check_result(-code, f"join group {group}")

    def close(self) -> None:
        """Ends the client together with its segments, TSGs and work.  Calling it again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.gpurt_close(handle)

    def begin(self, priority: int = 0, wait: bool = False, form: Form | str = Form.SELF) -> None:
        """Begins a segment; `form` as for `segment`.  After any exception none has begun.

        Raises:
            OSError: EPERM if the thread may not take that priority itself, or may not be raised.
            ValueError: no such form.
        """
        handle, status = self.handle, kept.call_status()
        try:
            check_result(kept.begin(handle, _flags(wait, form), priority, status), "begin")
        except BaseException:
            kept.give_up(handle, status)
            raise

    def end(self, drain: bool = False) -> None:
        """Ends the innermost segment, also if it raises.  Raises OSError: ENOENT if none is open."""
        check_result(kept.end(self.handle, lib.GPURT_END_DRAIN if drain else 0), "end")

    def wait(self, timeout: int = FOREVER) -> None:
        """Waits until the segment owns the GPU.  Raises OSError: ETIMEDOUT, ENOENT."""
        check_result(lib.gpurt_segment_wait(self.handle, kept.unsigned(timeout, "a timeout")), "wait")

    def open_tsg(self) -> int:
        """Opens a time-slice group (TSG) on the virtual GPU and returns its number."""
        place = ffi.new("uint32_t *")
        check_result(lib.gpurt_tsg_open(self.handle, place), "open a TSG")
        return int(place[0])

    def close_tsg(self, tsg: int) -> None:
        """Closes a TSG and drops its work."""
        check_result(lib.gpurt_tsg_close(self.handle, tsg), "close a TSG")

    def submit(self, tsg: int, duration: int, engine: int = lib.GPURT_ENGINE_EXEC, fence: bool = False) -> int:
        """Queues work of ``duration`` ns on the virtual GPU and returns its number."""
        place = ffi.new("uint64_t *")
        flags, length = lib.GPURT_SUBMIT_FENCE if fence else 0, kept.unsigned(duration, "a duration")
        check_result(lib.gpurt_submit_work(self.handle, tsg, engine, flags, length, place), "submit")
        return int(place[0])

    def wait_work(self, tsg: int, work: int, timeout: int = FOREVER) -> int:
        """Waits for work and returns the time (CLOCK_MONOTONIC) at which it completed."""
        place, limit = ffi.new("uint64_t *"), kept.unsigned(timeout, "a timeout")
        check_result(lib.gpurt_work_wait(self.handle, tsg, work, limit, place), "wait for work")
        return int(place[0])


def handle_of(client: Client | None) -> object:
    """The C handle; NULL, the process's own client, without one.  Raises OSError EBADF if the client is closed."""
    return client.handle if client else ffi.NULL


def begun(status: int, client: Client | None, what: str) -> bool:
    """Whether a host knows what a function of libgpurt began; False: there is no host, and the block runs unmanaged.

    Raises OSError if it returned an error (-errno), also if a ``client`` was given and there is no host.
    """
    if status == -errno.ENODEV and client is None:
        return False
    check_result(status, what)
    return True


class _Open(NamedTuple):
    """A segment that has begun: whether a host knows it, what it waits for at its end, and which process began it."""

    managed: bool
    stream: Stream | None
    process: int


class segment:  # noqa: N801  (reads as a statement)
    """A GPU segment around a block or a function, with `async` too.

    Threads and asyncio's tasks may share one segment object, and so do copies of an owner of one, such as a model.  A
    child that fork() makes in the block has no segment open: it may leave the block, and begin segments of its own.
    A signal whose handler raises while the segment waits for the GPU, or for its work, leaves no segment open.

    Args:
        priority: 1 to 99; 0 uses the thread's own real-time priority.
        wait: enter the block only once the client owns the GPU.
        drain: give the GPU up only when all submitted work is done, as far as the host knows of work: that of virtual
            GPUs.  For frameworks there is ``stream``.
        stream: what has ``synchronize()``, such as a stream or a device of a framework; or a function that returns
            that, called at begin.  The segment ends when ``synchronize()`` has returned, whether or not the block
            raised an exception, and whether or not there is a host.
        form: when policy `boosted` raises the thread.  "self" is right only if the thread never spins inside the block;
            "owner" is right always.  Without it the environment's GPURT_FORM counts, or "self".
        client: the client whose segment this is.  Without it the process's own client is used.  If there is no host
            then, the block runs unmanaged, as it does in C.

    Raises:
        OSError: anything else fails.
        ValueError: no such form.
        TypeError: ``stream`` is nothing to wait for; or what is decorated is a class or a generator function.
    """

    def __init__(
        self, priority: int = 0, *, wait: bool = False, drain: bool = False, form: Form | str = Form.SELF,
        client: Client | None = None, stream: Given | None = None,
    ) -> None:  # fmt: skip
        if callable(priority):
            raise TypeError("as a decorator a segment has parentheses: @gpurt.segment()")
        if stream is not None:
            streams.check(stream)
        self._flags = _flags(False, form)
        self._wait = wait
        self._end = lib.GPURT_END_DRAIN if drain else 0
        self._priority = priority
        self._client = client
        self._stream = stream
        self._forget()

    def _forget(self) -> None:
        """No segment is open."""
        self._open = threading.local()
        self._tasks: weakref.WeakKeyDictionary[Any, list[_Open]] = weakref.WeakKeyDictionary()

    def __copy__(self) -> segment:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> segment:
        return self

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("_open", "_tasks")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._forget()

    def _started(self, wait: bool, status: CData, elsewhere: bool = False) -> _Open:
        """Begins.  ``wait``: until the client owns the GPU; ``elsewhere``: another thread waits for the stream."""
        stream = None if self._stream is None else streams.chosen(self._stream, elsewhere)
        flags = self._flags | (lib.GPURT_BEGIN_WAIT if wait else 0)
        result = kept.begin(handle_of(self._client), flags, self._priority, status)
        return _Open(begun(result, self._client, "begin a GPU segment"), stream, os.getpid())

    def _ended(self, managed: bool, error: BaseException | None) -> None:
        if managed:
            status = kept.end(handle_of(self._client), self._end)
            if error is None:
                check_result(status, "end a GPU segment")

    def __enter__(self) -> None:
        stack: list[_Open] = self._open.__dict__.setdefault("stack", [])
        depth, status = len(stack), kept.call_status()
        try:
            stack.append(self._started(self._wait, status))
        except BaseException:
            del stack[depth:]
            kept.give_up(handle_of(self._client), status)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        managed, stream, process = self._open.stack.pop()
        if process != os.getpid():
            return  # its parent's, which ends it
        try:
            if stream is not None:
                stream.synchronize()
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._ended(managed, error)

    async def __aenter__(self) -> None:
        """Begins on the loop's thread, which is the one that policy `boosted` raises; waits on another one."""
        task = streams.current_task()  # or RuntimeError: another library executes this coroutine, and nothing has begun
        opened = self._started(wait=False, status=kept.call_status(), elsewhere=True)
        if opened.managed and self._wait:
            await self._granted()
        self._tasks.setdefault(task, []).append(opened)

    async def _granted(self) -> None:
        """Waits until the segment owns the GPU.  After any exception the segment has ended, as after a cancellation."""
        handle = handle_of(self._client)
        ended = []

        def give_up() -> None:
            ended.append(True)
            lib.gpurt_segment_end(handle, 0)

        try:
            result = await streams.in_thread(lambda: lib.gpurt_segment_wait(handle, FOREVER), give_up)
            check_result(result, "wait for the GPU")
        except BaseException:
            if not ended:
                give_up()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        managed, stream, _ = self._tasks[streams.current_task()].pop()
        try:
            if stream is not None:
                await streams.in_thread(stream.synchronize)
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._ended(managed, error)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wraps a function, or a coroutine function, in the segment.

        Raises:
            TypeError: the segment would cover nothing: see functions.awaits().
        """
        if functions.awaits(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> object:
                async with self:
                    return await cast("Any", function(*args, **kwargs))

            return cast("Callable[P, R]", awaited)

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                result = function(*args, **kwargs)
                functions.refuse_coroutine(function, result)
                return result

        return wrapped
