# SPDX-License-Identifier: GPL-2.0
"""The option --costs: the CPU time of tests, in the process that runs them and in processes that these start.

Wall-clock time is meaningless where several workers wait for each other.  A child counts where it is reaped: a fixture
of the session counts for the test that asked for it first.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Iterator

import pytest

#: The most files and functions that are listed.
NAMED = 30
#: CPU seconds in the worker and in children.
Pair = tuple[float, float]


def used() -> Pair:
    """The CPU time used by this process, and by its children that have ended."""
    both = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, children = (one.ru_utime + one.ru_stime for one in both)
    return own, children


class Costs:
    """In a worker: adds the CPU time of the phase to each report.  In the controller: adds up, and prints the sums."""

    def __init__(self) -> None:
        self.before = used()
        self.tests: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def pytest_runtest_logstart(self) -> None:
        self.before = used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report: pytest.TestReport = yield
        own, children = used()
        report.user_properties.append(("cpu", (own - self.before[0], children - self.before[1])))
        self.before = own, children
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cpu":
                self.tests[report.nodeid][0] += value[0]
                self.tests[report.nodeid][1] += value[1]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds in workers, in their children; tests")
        for key in (folder, file, function, lambda _: "all"):
            sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
            for name, (own, children) in self.tests.items():
                row = sums[key(name)]
                row[:] = row[0] + own, row[1] + children, row[2] + 1
            for name, row in sorted(sums.items(), key=lambda one: -one[1][0] - one[1][1])[:NAMED]:
                terminalreporter.write_line(f"{row[0]:8.1f} {row[1]:8.1f} {row[2]:6} {name}")
            terminalreporter.write_line("")


def folder(name: str) -> str:
    return "/".join(name.split("/")[:2])


def file(name: str) -> str:
    return name.split("::")[0]


def function(name: str) -> str:
    return name.split("[")[0]
