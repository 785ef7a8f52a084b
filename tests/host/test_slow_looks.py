# SPDX-License-Identifier: GPL-2.0
"""Policy `job` on a machine that is too slow for the polling period: the host leaves time to those it looks at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from worlds import World

from gpurt._gpurt import lib
from gpurt.enums import Policy
from pycontrol.host.users import UserLimits
from pycontrol.machine import procs

LOOK_NS = 3_000_000


def test_a_host_whose_looks_take_long_rests_between_them_and_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = procs.stat

    def slow(pid: int) -> procs.Stat | None:
        end = time.thread_time_ns() + LOOK_NS
        while time.thread_time_ns() < end:
            pass
        return stat(pid)

    world = World(tmp_path / "socket", UserLimits())
    gpu = world.host.gpus[0]
    one = world.client()
    assert world.ask(one, lib.GPURT_IOC_TSG_OPEN) == 0
    assert lib.gpurt_set_policy(gpu.sched, Policy.JOB, time.monotonic_ns()) == 0
    monkeypatch.setattr(procs, "stat", slow)
    before = time.monotonic_ns()
    world.host._wake()
    assert world.host._next_poll - before >= 2 * LOOK_NS
    status = dict(next(iter(world.host.commands.status(next(iter(gpu.clients.values())).peer, [gpu]))))
    assert int(status["POLL_NS"]) >= 2 * LOOK_NS > gpu.poll_ns
    world.close()
