# SPDX-License-Identifier: GPL-2.0
"""The jobs that a program reports to readers of events (`gpurt run`, `watch`, `trace`), and their periods.

::

    for number in periodic("camera", 33_000_000):       # sleeps until each release
        with segment():
            detect()

    with job("lidar", number, release):                 # a job whose release something else decides
        ...

Every host takes them under every policy.  A thread has one job at a time, and ends it itself.  (`Job` is something
else: a job that gets units of a GPU.)
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from gpurt._gpurt import ffi, lib
from gpurt.kept import check_result, unsigned
from gpurt.segments import Client, begun, handle_of


def _name(task: str | None) -> object:
    return ffi.NULL if task is None else task.encode()


class job:  # noqa: N801  (reads as a statement)
    """A job around a block.

    Args:
        task: the task's name in the taskset file; None: the environment's GPURT_TASK_NAME, which `gpurt run` sets, or
            the program's name.
        number: counts the task's jobs.
        release: when it was released, CLOCK_MONOTONIC, ns; 0: now.
        client: the client that tells of it.  Without it the process's own client does; if there is no host then,
            nobody is told.

    Raises:
        OSError: EBUSY, the thread has a job open; EINVAL, no such name can be, or the release is yet to come, or was
            before boot.
    """

    def __init__(
        self, task: str | None = None, number: int = 0, release: int = 0, *, client: Client | None = None
    ) -> None:
        self._task, self._number, self._release = task, unsigned(number, "a number"), unsigned(release, "a release")
        self._client = client
        self._open = False

    def __enter__(self) -> None:
        status = lib.gpurt_job_begin(handle_of(self._client), _name(self._task), self._number, self._release)
        self._open = begun(status, self._client, "begin a job")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open = False
            status = lib.gpurt_job_end(handle_of(self._client))
            if error is None:
                check_result(status, "end a job")


@dataclass(frozen=True)
class Jitter:
    """How long after their releases jobs woke up, ns.

    ``behind``: how many of ``jobs`` were released before the previous job had ended; these did not sleep and are not in
    ``mean`` and ``maximum``.
    """

    jobs: int
    behind: int
    mean: int
    maximum: int


class periodic:  # noqa: N801  (reads as a statement)
    """The jobs of a periodic task: an iterator of their numbers, each of which begins its job at its release.

    Releases are at first, first + period, first + 2 period and so on: nothing drifts.  A job that is released before
    the one before has ended begins at once.  The job ends when the next one is asked for, or the loop is left and the
    iterator closed; `stop()` ends it at once.

    Args:
        task: as for `job`.
        period: ns.
        first: the first release, CLOCK_MONOTONIC, ns; 0: a period from now.
        client: as for `job`.

    Raises:
        OSError: EINVAL, no such name can be, or the period is not positive or above an hour.  EINVAL, the first release
            was before boot or is more than an hour from now.  EBUSY as for `job`.
    """

    def __init__(self, task: str | None, period: int, first: int = 0, *, client: Client | None = None) -> None:
        self._client = client  # keeps the handle open
        self._state = ffi.new("struct gpurt_periodic *")
        handle = handle_of(client)
        if period <= 0:
            raise OSError(errno.EINVAL, f"a period of {period} ns")
        every, start = unsigned(period, "a period"), unsigned(first, "a first release")
        check_result(lib.gpurt_periodic_init(self._state, handle, _name(task), every, start), "begin a periodic task")

    def __iter__(self) -> Generator[int, None, None]:
        try:
            while True:
                self._check_open()
                status = lib.gpurt_periodic_next(self._state)
                if status == -errno.EINTR:
                    continue  # the signal's handler has run, and raised no exception
                check_result(status, "begin a job")
                yield int(self._state.job)
        except GeneratorExit:  # Python would print a traceback of another exception if nobody calls close()
            with suppress(OSError):
                self.stop()
            raise
        except BaseException:
            self.stop()
            raise

    def _check_open(self) -> None:
        """Raises OSError EBADF if the client is closed: its handle is gone."""
        if self._client:
            self._client.handle  # noqa: B018

    def stop(self) -> None:
        """Ends the open job, if any.  Raises OSError."""
        if not self._state.open:
            return
        self._check_open()
        check_result(lib.gpurt_periodic_stop(self._state), "end a job")

    @property
    def release(self) -> int:
        """When the last job was released, CLOCK_MONOTONIC, ns."""
        return int(self._state.release_ns)

    @property
    def jitter(self) -> Jitter:
        """The jitter that has been seen so far."""
        state = self._state
        slept = int(state.jobs - state.behind)
        mean = int(state.jitter_sum_ns) // slept if slept else 0
        return Jitter(int(state.jobs), int(state.behind), mean, int(state.jitter_max_ns))
