# SPDX-License-Identifier: GPL-2.0
"""Mishaps of a GPU, one by one, as the virtual GPU has them on demand (kmod/drv/vgpu_faults.c)."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from links import MS, PENDING, RUNNING, Client, client_of, eventually
from loading import DEVICE, kernel_log, load, unload
from modules import parameter

from gpurt._gpurt import lib
from gpurt.enums import Cause
from pycontrol.link.control import Control, connect

FOREVER = lib.GPURT_FOREVER


def have(what: str, value: int) -> None:
    """Has it go wrong."""
    parameter(f"vgpu_{what}").write_text(str(value))


@contextmanager
def loaded(*options: str) -> Iterator[Control]:
    """The module with one virtual GPU and these parameters."""
    load(*options)
    with connect(str(DEVICE)) as control:
        yield control
    unload()
    load()


@pytest.fixture(params=[(), ("vgpu_sleeps=1",)], ids=["busy", "sleeping"])
def kind(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Drivers whose updates sleep, and drivers whose updates do not."""
    found: tuple[str, ...] = request.param
    return found


def granted(client: Client) -> int:
    """Waits until the client has the GPU; 0 or -errno."""
    return client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=FOREVER)


def test_updates_that_are_carried_out_later(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as low, client_of(DEVICE) as high:
        have("late_ns", 20 * MS)
        assert low.begin(priority=10) == PENDING
        assert high.begin(priority=20) == PENDING  # which supersedes the first update
        assert granted(high) == 0
        assert {one.priority: one.state.word for one in control.clients()} == {10: "pending", 20: "running"}
        assert control.status()[0].faults == 0
        high.end()
        assert granted(low) == 0
        assert min(one.minimum for one in control.latency()) >= 20 * MS
        have("late_ns", 0)


def test_updates_that_get_lost(kind: tuple[str, ...]) -> None:
    with loaded("vgpu_bound_ms=50", *kind) as control, client_of(DEVICE) as client:
        have("lose", 2)
        before = len(kernel_log())
        assert client.begin(priority=10) == PENDING
        assert granted(client) == 0
        assert control.status()[0].faults == 2
        eventually(lambda: any("isolation may be lost" in line for line in kernel_log()[before:]))


def test_a_client_that_dies_while_its_update_is_under_way(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as other:
        have("late_ns", 50 * MS)
        dying = client_of(DEVICE)
        assert dying.begin(priority=50) == PENDING
        assert other.begin(priority=5) == PENDING
        dying.close()
        assert granted(other) == 0
        eventually(lambda: control.status()[0].client_count == 1)
        have("late_ns", 0)


def test_a_gpu_that_goes_away_while_an_update_is_under_way(kind: tuple[str, ...]) -> None:
    with loaded("vgpu_bound_ms=50", *kind) as control, client_of(DEVICE) as client:
        have("lose", 1_000_000)
        assert client.begin(priority=50) == PENDING
        parameter("vgpus").write_text("0")
        assert client.code(lib.GPURT_IOC_END) == -errno.ENODEV
        assert client.call(lib.GPURT_IOC_JOB_MARK, task=b"a")[0] == -errno.ENODEV
        assert control.status() == []


def test_a_reset_in_the_middle(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as low, client_of(DEVICE) as high:
        assert low.begin(priority=10) == RUNNING
        have("reset", 20)
        assert granted(low) == 0
        assert {one.cause: one.count for one in control.latency()}[Cause.RESET] == 1
        have("late_ns", 20 * MS)
        assert high.begin(priority=20) == PENDING
        have("suspend", 1)  # the update under way is not heard of any more
        assert granted(high) == 0
        assert control.status()[0].faults == 0
        have("late_ns", 0)


def test_an_update_that_only_a_reset_can_mend(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as client:
        have("error", errno.ENOTRECOVERABLE)
        have("fail", 1)
        assert client.begin(priority=10) == PENDING
        assert control.status()[0].faults == 1
        have("reset", 0)
        assert granted(client) == 0
        assert control.status()[0].faults == 1


def test_work_that_is_killed(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as client:
        assert client.begin(priority=10) == RUNNING
        have("kill", os.getpid())
        eventually(lambda: control.clients()[0].depth == 0)
        assert granted(client) == -errno.EIO
        assert client.code(lib.GPURT_IOC_END) == -errno.EIO
        assert client.begin(priority=10) == RUNNING
        assert client.code(lib.GPURT_IOC_END) == 0
        assert client.code(lib.GPURT_IOC_END) == -errno.ENOENT


def test_a_gpu_without_power(kind: tuple[str, ...]) -> None:
    with loaded("vgpu_power=1", *kind) as control, client_of(DEVICE) as client:
        have("power_fail", 3)
        assert client.begin(priority=10) == PENDING
        assert granted(client) == 0
        assert 1 <= control.status()[0].faults <= 3  # decisions that need no update ask for power as well
        client.end()


def test_a_reset_or_a_suspend_ends_with_who_asked_for_it(kind: tuple[str, ...]) -> None:
    with loaded(*kind) as control, client_of(DEVICE) as client:
        for what in ("reset", "suspend"):
            with subprocess.Popen(["sh", "-c", f"echo 1000000000 > {parameter(f'vgpu_{what}')}"]) as writer:
                assert client.begin(priority=10) in (PENDING, RUNNING)
                eventually(lambda: control.clients()[0].state.word == "pending")
                writer.kill()
            assert granted(client) == 0
            client.end()


def is_waiting(thread: int) -> bool:
    """Whether the thread sleeps in a call that only the GPU ends."""
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] == "D"


def test_an_update_that_stalls_can_be_shortened() -> None:
    with loaded("vgpu_sleeps=1"), client_of(DEVICE) as client:
        have("stall_ns", 10**15)
        thread = threading.Thread(target=client.begin, kwargs={"priority": 10})
        thread.start()
        number = thread.native_id
        assert number
        eventually(lambda: is_waiting(number))
        have("stall_ns", 0)
        thread.join()
        assert granted(client) == 0


def test_mishaps_that_make_no_sense_are_refused(module: Control) -> None:
    for what in ("reset", "suspend", "kill"):
        with pytest.raises(OSError, match="Invalid argument"):
            parameter(f"vgpu_{what}").write_text("nonsense")
    have("kill", 1)  # no client
    assert module.status()[0].client_count == 0


def test_the_files_can_be_written_only() -> None:
    assert all(oct(parameter(f"vgpu_{what}").stat().st_mode)[-3:] == "200" for what in ("reset", "kill"))
