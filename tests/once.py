# SPDX-License-Identifier: GPL-2.0
"""Makes a folder that takes long to make, and never changes, once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import standstill


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of that name, with the files that ``make`` has written into it.  No test may write into it.

    The first worker calls ``make``; the others wait.  If ``make`` fails, by an exception or a skip, the next worker
    tries again.  A test that runs again after a standstill gets a folder of its own.
    """
    if standstill.attempt:
        folder = factory.mktemp(name)
        make(folder)
        return folder
    shared = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent  # all workers' folders are there
    folder, done = shared / f"once-{name}", shared / f"once-{name}.done"
    with (shared / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
