# SPDX-License-Identifier: GPL-2.0
"""A process that is frozen while it waits, by its cgroup or by the suspend of the machine, goes on waiting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from stops import SCENES, Scene, scene

from pycontrol.link.control import Control

CGROUP = Path("/sys/fs/cgroup/frozen")
POWER = Path("/sys/power")
DELAY = Path("/sys/module/suspend/parameters/pm_test_delay")
pytestmark = pytest.mark.parametrize("one", SCENES, ids=[one.__name__ for one in SCENES])


def frozen() -> bool:
    """Whether all of the cgroup's processes are."""
    return "frozen 1" in (CGROUP / "cgroup.events").read_text()


def freeze(pid: int) -> None:
    """Freezes a process by its cgroup for a time."""
    CGROUP.mkdir(exist_ok=True)
    (CGROUP / "cgroup.procs").write_text(str(pid))
    (CGROUP / "cgroup.freeze").write_text("1")
    eventually(frozen)
    (CGROUP / "cgroup.freeze").write_text("0")
    eventually(lambda: not frozen())
    (CGROUP.parent / "cgroup.procs").write_text(str(pid))


def suspend(_pid: int) -> None:
    """Has the kernel freeze all processes as before a suspend, and thaw them."""
    DELAY.write_text("0")
    (POWER / "pm_test").write_text("freezer")
    try:
        (POWER / "state").write_text("freeze")
    finally:
        (POWER / "pm_test").write_text("none")


def test_a_frozen_process_goes_on_waiting(module: Control, one: Callable[[Scene], None]) -> None:
    if not (CGROUP.parent / "cgroup.procs").exists():
        pytest.skip("needs cgroups of version 2")
    with scene(Path("/dev/gpurt"), module, freeze) as made:
        one(made)


def test_a_suspended_machine_goes_on_waiting(module: Control, one: Callable[[Scene], None]) -> None:
    if not (POWER / "pm_test").exists() or not DELAY.exists():
        pytest.skip("needs a kernel with CONFIG_PM_DEBUG")
    with scene(Path("/dev/gpurt"), module, suspend) as made:
        one(made)
