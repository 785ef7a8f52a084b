# SPDX-License-Identifier: GPL-2.0
"""What is said where SCHED_FIFO is refused, or would be."""

from __future__ import annotations

import os
import resource
from contextlib import nullcontext
from dataclasses import replace

import pytest
from fit_cases import CLIENT, HOSTS, Fake

from gpurt.enums import Form
from gpurt.errors import RefusedError
from pycontrol.link.rules import all_raisable
from pycontrol.machine import procs
from pycontrol.machine.rights import fifo_cure


@pytest.mark.parametrize(
    ("user", "limit", "cure"),
    [(1000, 0, "become root"), (1000, 49, "become root"), (1000, 50, "gpurt doctor"), (0, 0, "gpurt doctor"),
     (1000, resource.RLIM_INFINITY, "gpurt doctor")],
)  # fmt: skip
def test_root_is_not_told_to_become_root(monkeypatch: pytest.MonkeyPatch, user: int, limit: int, cure: str) -> None:
    """In a container, or a cgroup without real-time budget, neither user nor limit is what forbids it."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    assert cure in fifo_cure(50)


@pytest.mark.parametrize(("form", "needed"), [(Form.SELF, 24 + 20), (Form.OWNER, 2 * 24 + 1)])
def test_no_policy_takes_the_gpu_from_programs_that_may_not_be_raised(
    monkeypatch: pytest.MonkeyPatch, form: Form, needed: int
) -> None:
    """They lack the limit, which root can give them while they run."""
    known = HOSTS["emulator segment"]
    host = replace(known, gpus=[replace(known.gpus[0], normal_priorities=24)], clients=[replace(CLIENT, form=form)])
    monkeypatch.setattr(procs, "user", lambda _pid: "1000")
    monkeypatch.setattr(procs, "has_sys_nice", lambda _pid: False)
    for limit in (needed - 1, needed):
        monkeypatch.setattr(procs, "rt_limit", lambda _pid, limit=limit: limit)
        all_raisable(Fake(host), None, "segment")
        if limit < needed:
            with pytest.raises(RefusedError, match=rf"camera-4711 .needs RLIMIT_RTPRIO {needed}, has {limit}: "):
                all_raisable(Fake(host), None, "boosted")
        else:
            all_raisable(Fake(host), None, "boosted")


@pytest.mark.parametrize(
    ("device", "user", "capable", "right"),
    [("/dev/null", "1000", True, True), ("/dev/null", "0", False, False), ("", "1000", True, False),
     ("", "0", False, True)],
)  # fmt: skip
def test_the_module_asks_for_the_capability_and_the_user_space_host_for_root(
    monkeypatch: pytest.MonkeyPatch, device: str, user: str, capable: bool, right: bool
) -> None:
    """A service with AmbientCapabilities=CAP_SYS_NICE is no root, and root of a container has no capability."""
    known = HOSTS["emulator segment"]
    host = Fake(replace(known, gpus=[replace(known.gpus[0], normal_priorities=24)], clients=[CLIENT]))
    host.device = device
    for name, value in (("user", user), ("has_sys_nice", capable), ("rt_limit", 0)):
        monkeypatch.setattr(procs, name, lambda _pid, value=value: value)
    with nullcontext() if right else pytest.raises(RefusedError, match="needs RLIMIT_RTPRIO"):
        all_raisable(host, None, "boosted")
