# SPDX-License-Identifier: GPL-2.0
"""An unprivileged user who may open the device hurts nobody.  How late others are then: scripts/bench kernel."""

from __future__ import annotations

import errno
import os
import select
from functools import partial
from pathlib import Path

import pytest
from actors import Actor, enter
from attack import attack, cgroup, slab_of
from links import MS, PATIENCE, Client, client_of, eventually
from loading import DEVICE, load, unload

from gpurt._gpurt import lib
from gpurt.enums import Policy
from pycontrol.link.control import Control, connect

LONG = bool(os.environ.get("GPURT_LONG"))
SECONDS = 2.0
#: Of the kernel's memory, bytes: less than what docs/kernel-inside.md says of a client, and for all clients of the
#: attacker, of whom about 1,300 exist at a time, one of them with all TSGs.
CLIENT, ATTACKER = 2_500_000, 32_000_000
#: A success that no attack may ever have counts as so many.
BREACH = 1 << 63


@pytest.mark.skipif(not LONG, reason="takes minutes in an emulated machine: GPURT_LONG=1")
@pytest.mark.parametrize(
    "options",
    [
        "",
        "vgpu_sleeps=1 thread_cpu=0 agent_gpus=1 agent_bound_ms=5",
        f"policy={int(Policy.JOB)} thread_cpu=0",
        f"policy={int(Policy.LOCK_PRIORITY)} lock_bound_ms=10",
        f"policy={int(Policy.BOOSTED)}",
    ],
)
def test_the_worst_that_a_user_can_do_hurts_nobody(compiled: Path, options: str) -> None:
    load(*options.split())
    seen = attack(compiled, "device", SECONDS)
    assert all(0 < good < BREACH for _, good in seen.attacks.values()), seen
    assert seen.victim["served"] > 0
    assert seen.charged < ATTACKER
    with connect(DEVICE) as control:
        eventually(lambda: control.clients() == [])
        assert all((one.tsgs, one.runner_pid) == (0, 0) for one in control.status())
    unload()
    load()


def test_a_client_is_charged_for_its_memory_and_has_a_limit(module: Control) -> None:
    """All TSGs that it may have, and as much work as it may queue; more is refused."""
    with cgroup("client") as folder, Actor(DEVICE, partial(enter, folder)) as client:
        client.do("begin")
        before = slab_of(folder)
        tsgs = [client.do("tsg") for _ in range(lib.GPURT_MAX_CLIENT_TSGS)]
        assert client.run(submit_until_refused, tsgs) == lib.GPURT_MAX_CLIENT_QUEUED
        assert 1_000_000 < slab_of(folder) - before < CLIENT


#: More epoll descriptors than the module wakes in one go.
POLLERS = 200


@pytest.mark.parametrize("priority", [0, 50])
def test_however_many_wait_in_poll_all_are_woken(module: Control, priority: int) -> None:
    with client_of(DEVICE) as client:
        client.begin(priority=priority)
        tsg = client.tsg()
        watchers = [select.epoll() for _ in range(POLLERS)]
        for watcher in watchers:
            watcher.register(client.descriptor(), select.EPOLLIN | select.EPOLLET)
        assert [watcher.poll(0) for watcher in watchers] == [[]] * POLLERS
        for _ in range(2):
            work = client.submit(tsg, MS)
            seen = [watcher.poll(PATIENCE) for watcher in watchers]
            assert seen == [[(client.descriptor(), select.EPOLLIN)]] * POLLERS
            client.finished(tsg, work)


def submit_until_refused(client: Client, tsgs: list[int]) -> int:
    """Queues work that takes an hour until there is no place for more; how much that was."""
    for count in range(2 * lib.GPURT_MAX_CLIENT_QUEUED):
        fields = {"tsg": tsgs[count % len(tsgs)], "duration_ns": lib.GPURT_MAX_WORK_NS}
        if client.code(lib.GPURT_IOC_SUBMIT, **fields) == -errno.ENOBUFS:
            return count
    raise AssertionError("it is never refused")
