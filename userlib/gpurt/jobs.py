# SPDX-License-Identifier: GPL-2.0
"""Jobs that get units of a GPU, from Python (uapi/gpurt.h, "Units"), through libgpurt.

::

    with Client() as client:
        job = Job(client, "camera")
        grant = job.wait()                      # None: skipped at its deadline
        if grant:
            launch(grant.gpu, grant.units, grant.mask)
            job.kernel_done()
            copy_back()
            job.done()
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from gpurt._gpurt import ffi, lib
from gpurt.kept import FOREVER, check_result, unsigned
from gpurt.segments import Client


@dataclass(frozen=True)
class Grant:
    """``units`` units from unit ``first`` on of a GPU.  ``partition``: the number of this set of units (uapi/gpurt.h).

    ``when``, ``deadline``: CLOCK_MONOTONIC, ns.  ``kernel``: what the kernel takes on them in the worst case, ns.
    """

    gpu: int
    first: int
    units: int
    partition: int
    when: int
    deadline: int
    kernel: int

    @property
    def mask(self) -> int:
        """The units as bits: bit n is unit n."""
        return ((1 << self.units) - 1) << self.first


class Job:
    """A job of a task; ``number`` is its number at the host.

    Raises:
        OSError: ENOENT, the host's file has no such task.  EBUSY, the task is another client's, or has a pending job.
            EOPNOTSUPP, the host shares no units.  EINVAL, released before boot or more than an hour from now.
    """

    def __init__(self, client: Client, task: str, release: int = 0) -> None:
        """Announces it.  ``release``: CLOCK_MONOTONIC, ns; 0: now."""
        self._client = client
        place, when = ffi.new("uint64_t *"), unsigned(release, "a release")
        check_result(lib.gpurt_job_ready(client.handle, task.encode(), when, place), f"announce a job of {task}")
        self.number = int(place[0])

    def wait(self, timeout: int = FOREVER) -> Grant | None:
        """Waits until the job gets units; None if it was still pending at its deadline, and is skipped.

        Raises:
            OSError: ETIMEDOUT, or EINTR after a signal: the job waits on; ENOENT, the job is over.
        """
        made = ffi.new("struct gpurt_job_wait *")
        status = lib.gpurt_job_wait(self._client.handle, self.number, unsigned(timeout, "a timeout"), made)
        if status == -errno.ETIME:
            return None
        check_result(status, "wait for units")
        return Grant(made.gpu, made.first, made.units, made.partition, made.when_ns, made.deadline_ns, made.kernel_ns)

    def run(self, units: int = 0, duration: int = 0) -> int:
        """Executes the copy in and the kernel on a virtual GPU.  Returns when the kernel ended, CLOCK_MONOTONIC, ns.

        ``units``: 0 for all that the job holds.  ``duration``: ns, 0 for the worst case in the host's file.

        Raises:
            OSError: EINVAL, more units than the job holds; EBUSY, it has run its kernel; ENOENT, it holds no units;
                EOPNOTSUPP, a real GPU.
        """
        place = ffi.new("uint64_t *")
        length = unsigned(duration, "a duration")
        status = lib.gpurt_job_run(self._client.handle, self.number, units, length, place)
        while status == -errno.EINTR:
            status = lib.gpurt_job_wait_kernel(self._client.handle, self.number, FOREVER, place)
        check_result(status, "run a kernel")
        return int(place[0])

    def kernel_done(self) -> None:
        """Says that the kernel has ended.  Raises OSError: ENOENT, EBUSY."""
        check_result(lib.gpurt_job_kernel_done(self._client.handle, self.number), "end a kernel")

    def done(self) -> None:
        """Says that the job is done.  Raises OSError: ENOENT, EBUSY."""
        check_result(lib.gpurt_job_done(self._client.handle, self.number), "end a job")
