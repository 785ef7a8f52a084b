# SPDX-License-Identifier: GPL-2.0
"""Tests that failed while the machine stood still prove nothing, and are run again.

Virtual CPUs sometimes do not execute for many seconds, for instance while their host is busy.  A program that must
answer within two seconds then fails to do so, and that is no fault of gpurt.  So a process beside the tests measures,
on each CPU, whether it is woken in time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings

import cpu_watcher
import pytest
from _pytest.runner import runtestprotocol
from cpu_watcher import NOTABLE, PERIOD, SEEN

#: The most runs of a test.
ATTEMPTS = 4
#: The longest wait for the watcher to report, seconds.
PATIENCE = 10.0
#: The number of earlier runs of the present test.
attempt = 0


class Watcher:
    """Records when the machine stood still."""

    def __init__(self) -> None:
        self.cpus = sorted(os.sched_getaffinity(0))
        self.seen = os.memfd_create("seen")
        command = [sys.executable, "-I", "-S", cpu_watcher.__file__, *map(str, (self.seen, *self.cpus))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[self.seen])
        assert self.process.stdout
        self.output = self.process.stdout
        self.output.readline()  # it watches from now on
        os.set_blocking(self.output.fileno(), False)
        self.unread = b""

    def _await(self, when: float) -> None:
        """Returns when the process has watched each CPU until ``when``, or has not done so for PATIENCE."""
        while time.monotonic() < when + PATIENCE:
            seen = [until for (until,) in SEEN.iter_unpack(os.pread(self.seen, len(self.cpus) * SEEN.size, 0))]
            if len(seen) == len(self.cpus) and min(seen) >= when:
                return
            time.sleep(PERIOD / 5)

    def longest_since(self, since: float) -> float:
        """The longest time for which a CPU did not execute the watcher, seconds; 0 if no such time is notable."""
        self._await(time.monotonic())
        self.unread += self.output.read() or b""
        *lines, self.unread = self.unread.split(b"\n")
        spans = [tuple(map(float, line.split())) for line in lines]
        return max((end - max(begin, since) for begin, end in spans if end > since), default=0.0)

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        self.output.close()
        os.close(self.seen)


WATCHER = pytest.StashKey[Watcher]()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[WATCHER] = Watcher()


def pytest_sessionfinish(session: pytest.Session) -> None:
    watcher = session.config.stash.get(WATCHER, None)
    if watcher:
        watcher.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Runs a test, and runs it again if it fails while the machine stands still; slow tests run only once."""
    global attempt
    watcher = item.config.stash[WATCHER]
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(ATTEMPTS):
        since = time.monotonic()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = any(report.failed for report in reports)
        if not failed or attempt == ATTEMPTS - 1 or item.get_closest_marker("slow"):
            break
        stood = watcher.longest_since(since)
        if stood < NOTABLE:
            break
        warnings.warn(
            pytest.PytestWarning(
                f"{item.nodeid} failed while the machine stood still for {stood:.1f} s; it is run again"
            ),
            stacklevel=1,
        )
        item.session._setupstate.teardown_exact(None)  # no fixture of the attempt remains
        item._initrequest()  # type: ignore[attr-defined]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
