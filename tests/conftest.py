# SPDX-License-Identifier: GPL-2.0
"""Settings of all tests: signals, and the tests that run by default."""

from __future__ import annotations

import gc
import itertools
import math
import os
import shlex
import signal
import subprocess
from pathlib import Path
from types import TracebackType

import effort
import pytest
import zygote
from costs import Costs
from hypothesis import HealthCheck, settings
from standstill import pytest_runtest_protocol, pytest_sessionfinish, pytest_sessionstart

from pycontrol.output import progress

__all__ = ["pytest_runtest_protocol", "pytest_sessionfinish", "pytest_sessionstart"]  # hooks

# Hypothesis limits the time of one example and of drawing examples.  On a busy machine both limits fail correct tests,
# so they are off; pytest's own limit ends a test that hangs.  No test fails by chance: examples are the same in each
# run, unless GPURT_LONG asks for a search.
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "gpurt", deadline=None, suppress_health_check=SUPPRESSED, derandomize=not os.environ.get("GPURT_LONG")
)
settings.load_profile("gpurt")

#: The time limit of a test that is not slow, seconds.  Most waits end by themselves after PATIENCE (links.py).
LIMIT = 600

#: The folder with compilers' names that lead to ccache.
CACHING = "/usr/lib/ccache"

# Tests begin with the default disposition of every signal and with none blocked, whatever their caller has: children
# inherit both, and some tests send signals to a child.  A shell without job control ignores SIGINT, nohup ignores
# SIGHUP.  Python itself ignores SIGPIPE and SIGXFSZ, and does not pass this on to children.
for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
# Clean-up as after SIGINT: tests end the machines and hosts that they started.
signal.signal(signal.SIGTERM, signal.default_int_handler)
os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))

# On a busy machine any command may take so long that it reports progress.  The test of progress sets its own interval.
progress.INTERVAL = math.inf

# If ccache is installed, tests and the scripts that they start compile equal sources once on this machine, for all
# checkouts.  Continuous integration compiles everything.
if not os.environ.get("CI") and Path(CACHING).is_dir():
    os.environ["PATH"] = f"{CACHING}:{os.environ['PATH']}"
    os.environ.update(CCACHE_BASEDIR="/", CCACHE_NOHASHDIR="1", CCACHE_DEPEND="1")
    os.environ.setdefault("CCACHE_DIR", os.path.expanduser("~/.cache/gpurt/ccache"))  # for tests with another HOME

# In a booted kernel few commands are started, and imports take long.
zygote.install("actors", *(() if "GPURT_TEST_DEVICE" in os.environ else ("hosts", "commands")))

_leave = subprocess.Popen.__exit__


def _leave_or_kill(
    process: subprocess.Popen[bytes], kind: type[BaseException] | None, error: BaseException | None,
    trace: TracebackType | None,
) -> None:  # fmt: skip
    """Leaves `with subprocess.Popen` of a failing test without a wait for a process that the test would have ended."""
    if kind is not None and process.poll() is None:
        process.kill()
    _leave(process, kind, error, trace)


subprocess.Popen.__exit__ = _leave_or_kill  # type: ignore[assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also tests that take minutes (marked `slow`)")
    parser.addoption("--costs", action="store_true", help="also print which tests take CPU time, and how much")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[effort.ALL] = "1"
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests marked `slow`, unless they are asked for by --all, by -m, or by naming their file or folder.

    Remaining slow tests come first, the longest before the others, so that no worker has a long test at the end.
    A worker that runs a test has its next test already, so a short test follows each long one.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    for item in others:
        item.add_marker(pytest.mark.timeout(LIMIT))
    if not (config.getoption("--all") or config.option.markexpr):
        paths = {Path(config.invocation_params.dir, argument.split("::")[0]).resolve() for argument in config.args}
        named = paths - {config.rootpath, Path(__file__).parent}
        left_out = [item for item in slow if not any(item.path.is_relative_to(path) for path in named)]
        slow = [item for item in slow if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    slow.sort(key=minutes, reverse=True)
    short, others = others[: len(slow)], others[len(slow) :]
    pairs = itertools.zip_longest(slow, short)
    items[:] = [item for pair in pairs for item in pair if item is not None] + others


def pytest_collection_finish() -> None:
    """The garbage collector no longer visits the tests and modules, which stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How to examine a failure, and the problems that scripts/test found before the tests, which make its status 1."""
    stats = terminalreporter.stats
    if red := [*stats.get("failed", ()), *stats.get("error", ())]:
        file = red[0].nodeid.partition("::")[0]
        terminalreporter.write_line(f"one again: python -m pytest {shlex.quote(red[0].nodeid)}")
        terminalreporter.write_line(f"no test may depend on time; to see whether one does: scripts/stopper {file}")
    if found := os.environ.get("GPURT_PROBLEMS"):
        terminalreporter.write_line(f"scripts/test: FAILED before the tests: {found}", red=True)


def minutes(item: pytest.Item) -> float:
    """The approximate time of a test, minutes: 5 for `slow(5)`; 3 if the mark states none."""
    mark = item.get_closest_marker("slow")
    assert mark
    return mark.args[0] if mark.args else 3
