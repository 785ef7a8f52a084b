# SPDX-License-Identifier: GPL-2.0
"""Processes that share work."""

from __future__ import annotations

import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path

#: The warning of Python's resource tracker.
TRACKER = "ignore:resource_tracker"


def context() -> ForkContext | SpawnContext:
    """The way in which this process starts others.

    It forks them if it has one thread.  If it has several, a child would inherit locks that other threads hold, and
    they would be held for ever (Python 3.12 and later warn of it); so each process is a new interpreter.
    """
    tasks = Path("/proc/self/task")
    alone = len(list(tasks.iterdir())) == 1 if tasks.is_dir() else threading.active_count() == 1
    return get_context("fork") if alone else get_context("spawn")


def processes(jobs: int) -> ProcessPoolExecutor:
    """An executor with ``jobs`` processes, which ignore Ctrl-C: this process ends them.

    If this process is killed, it leaves semaphores.  Python's tracker removes them with a warning, which is harmless.
    """
    if TRACKER not in sys.warnoptions:
        sys.warnoptions.append(TRACKER)
    return ProcessPoolExecutor(jobs, context(), signal.signal, (signal.SIGINT, signal.SIG_IGN))
