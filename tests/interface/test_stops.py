# SPDX-License-Identifier: GPL-2.0
"""A process that is stopped while it waits, and continues, goes on waiting."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from links import Client
from stops import SCENES, Scene, scene

from gpurt._gpurt import lib
from pycontrol.link.control import Control


def stop(pid: int) -> None:
    """Stops a child and has it continue."""
    os.kill(pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    os.kill(pid, signal.SIGCONT)
    assert os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1])


@pytest.mark.parametrize("one", SCENES, ids=[one.__name__ for one in SCENES])
def test_a_process_that_is_stopped_goes_on_waiting(host: Path, plane: Control, one: Callable[[Scene], None]) -> None:
    with scene(host, plane, stop) as made:
        one(made)


def test_a_begin_that_is_begun_only_waits(connect: Callable[[], Client]) -> None:
    begun = lib.GPURT_BEGIN_WAIT | lib.GPURT_BEGIN_BEGUN
    holder, client = connect(), connect()
    assert client.code(lib.GPURT_IOC_BEGIN, flags=begun) == -errno.ENOENT
    assert client.code(lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_BEGUN) == -errno.EINVAL
    holder.begin(priority=50)
    client.begin()
    waits = client.start(lib.GPURT_IOC_BEGIN, flags=begun)
    holder.end()
    result, made = waits.result()
    assert (result, made.state, made.flags) == (0, lib.GPURT_STATE_RUNNING, lib.GPURT_BEGIN_WAIT)
    client.end()
    assert client.code(lib.GPURT_IOC_END) == -errno.ENOENT
