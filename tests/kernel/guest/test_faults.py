# SPDX-License-Identifier: GPL-2.0
"""A driver that fails or stalls, and a module that says nothing on the console unless it must."""

from __future__ import annotations

import time

from links import MS, PENDING, RUNNING, client_of, eventually
from loading import DEVICE, PARAMETERS, kernel_log, load, unload

from gpurt._gpurt import lib
from pycontrol.live.control import Control, connect


def test_an_update_that_fails_is_tried_again(module: Control) -> None:
    with client_of(DEVICE) as low, client_of(DEVICE) as high:
        assert low.begin(priority=10) == RUNNING
        (PARAMETERS / "vgpu_fail").write_text("5")
        # the runlist is still the old one: nobody may believe to own the GPU
        assert high.begin(priority=20) == PENDING
        waiting = high.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
        assert waiting.result()[0] == 0
        (status,) = module.status()
        assert status.faults == 5
        assert status.runner_pid
        assert {one.priority: one.state.word for one in module.clients()} == {10: "pending", 20: "running"}
        high.end()
        low.end()


def test_best_effort_clients_wait_for_an_update_that_fails(module: Control) -> None:
    with client_of(DEVICE) as owner, client_of(DEVICE) as other:
        owner.begin(priority=50)
        assert other.begin() == PENDING
        waiting = other.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
        (PARAMETERS / "vgpu_fail").write_text("3")
        owner.end()
        assert waiting.result()[0] == 0
        assert module.status()[0].faults == 3


def test_an_owner_that_dies_while_updates_fail(module: Control) -> None:
    with client_of(DEVICE) as other:
        dying = client_of(DEVICE)
        dying.begin(priority=50)
        other.begin(priority=5)
        (PARAMETERS / "vgpu_fail").write_text("4")
        dying.close()
        assert other.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER) == 0
        assert (module.status()[0].clients, module.status()[0].faults) == (1, 4)


def test_a_driver_that_stalls_delays_and_loses_nothing() -> None:
    load("vgpu_sleeps=1")
    (PARAMETERS / "vgpu_stall_ns").write_text(str(100 * MS))
    with connect("/dev/gpurt") as control:
        clients = [client_of(DEVICE) for _ in range(5)]
        started = [
            client.start(lib.GPURT_IOC_BEGIN, priority=10 * number, flags=lib.GPURT_BEGIN_WAIT)
            for number, client in enumerate(clients, 1)
        ]
        assert started[-1].result()[0] == 0
        assert control.status()[0].clients == 5  # readers are not held up
        for client, call in zip(reversed(clients), reversed(started), strict=True):
            assert call.result()[0] == 0
            client.close()
        eventually(lambda: control.status()[0].clients == 0)
        assert max(one.maximum for one in control.latency()) >= 100 * MS
    unload()
    load()


def test_nothing_is_printed_while_it_works(module: Control) -> None:
    before = kernel_log()
    with client_of(DEVICE) as a, client_of(DEVICE) as b:
        for _ in range(200):
            a.begin(priority=10)
            b.begin(priority=20)
            b.end()
            a.end()
        assert a.code(lib.GPURT_IOC_END) != 0
    assert module.status()[0].commits > 0
    time.sleep(0.1)
    assert kernel_log() == before
