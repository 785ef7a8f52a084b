# SPDX-License-Identifier: GPL-2.0
"""What is said where SCHED_FIFO is refused."""

from __future__ import annotations

import os
import resource

import pytest

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
