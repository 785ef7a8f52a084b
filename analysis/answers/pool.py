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

#: What Python's resource tracker warns of.
TRACKER = "ignore:resource_tracker"


def context() -> ForkContext | SpawnContext:
    """How this process starts others.

    They are forked where this process has one thread.  With several, a lock that another thread holds would be held in
    the child for ever (Python 3.12 and later warn of it), so that a new interpreter is started for each.
    """
    tasks = Path("/proc/self/task")
    alone = len(list(tasks.iterdir())) == 1 if tasks.is_dir() else threading.active_count() == 1
    return get_context("fork") if alone else get_context("spawn")


def processes(jobs: int) -> ProcessPoolExecutor:
    """An executor with ``jobs`` processes, which leave Ctrl-C to this one: it ends them.

    If this process is ended, semaphores are left, which Python's tracker removes and warns of: that is no fault.
    """
    if TRACKER not in sys.warnoptions:
        sys.warnoptions.append(TRACKER)
    return ProcessPoolExecutor(jobs, context(), signal.signal, (signal.SIGINT, signal.SIG_IGN))
