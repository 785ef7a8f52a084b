# SPDX-License-Identifier: GPL-2.0
"""A driver that fails or stalls, and a module that says nothing on the console unless it must."""

from __future__ import annotations

import itertools
import os

from links import MS, PATIENCE, PENDING, RUNNING, client_of, eventually
from loading import DEVICE, kernel_log, load, unload
from modules import parameter

from gpurt._gpurt import lib
from gpurt.enums import EventKind
from pycontrol.link.control import Control, connect

FAIL = parameter("vgpu_fail")
#: So many failures in a row that the next try is 128 ms away.
MANY = 8


def failing(control: Control) -> None:
    """Waits until updates have failed so often that the next try is far away."""
    eventually(lambda: control.status()[0].faults > MANY)


def test_an_update_that_fails_is_tried_again(module: Control) -> None:
    with client_of(DEVICE) as low, client_of(DEVICE) as high:
        assert low.begin(priority=10) == RUNNING
        parameter("vgpu_fail").write_text("5")
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
        parameter("vgpu_fail").write_text("3")
        owner.end()
        assert waiting.result()[0] == 0
        assert module.status()[0].faults == 3


def test_an_owner_that_dies_while_updates_fail(module: Control) -> None:
    with client_of(DEVICE) as other:
        dying = client_of(DEVICE)
        dying.begin(priority=50)
        other.begin(priority=5)
        parameter("vgpu_fail").write_text("4")
        dying.close()
        assert other.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER) == 0
        eventually(lambda: module.status()[0].client_count == 1)
        assert module.status()[0].faults == 4


def test_the_driver_forgets_no_client_that_may_still_be_on_the_runlist(module: Control) -> None:
    dying = client_of(DEVICE)
    assert dying.begin(priority=50) == RUNNING
    FAIL.write_text("1000000")
    dying.close()
    failing(module)
    assert len(module.clients()) == 1
    FAIL.write_text("0")
    eventually(lambda: module.clients() == [])


def test_the_module_can_be_removed_while_a_client_cannot_be_taken_off_the_runlist(module: Control) -> None:
    dying = client_of(DEVICE)
    assert dying.begin(priority=50) == RUNNING
    FAIL.write_text("1000000")
    dying.close()
    failing(module)
    unload()
    assert any("leaves the runlist as it is" in line for line in kernel_log())
    load()


def test_an_owner_learns_of_an_update_that_another_cause_brought_about(module: Control) -> None:
    with client_of(DEVICE) as owner, client_of(DEVICE) as other:
        other.begin()
        FAIL.write_text("1000000")
        granted = owner.start(lib.GPURT_IOC_BEGIN, priority=50, flags=lib.GPURT_BEGIN_WAIT)
        failing(module)
        FAIL.write_text("0")
        module.set_exempt(True, pid=os.getpid())  # changes the runlist before the next try does
        assert granted.result()[0] == 0


def test_an_exempt_client_learns_that_updates_succeed_again(module: Control) -> None:
    module.set_exempt(True, pid=os.getpid())
    with client_of(DEVICE) as owner, client_of(DEVICE) as exempt:
        FAIL.write_text("1000000")
        assert owner.begin(priority=50) == PENDING
        assert exempt.begin() == PENDING
        granted = exempt.granted()
        failing(module)
        FAIL.write_text("0")
        assert granted.result()[0] == 0


def test_a_client_is_told_that_it_has_the_gpu_when_it_has_it(module: Control) -> None:
    events = module.events(PATIENCE)
    with client_of(DEVICE) as owner:
        FAIL.write_text("3")
        assert owner.begin(priority=50) == PENDING
        assert owner.granted().result()[0] == 0
        owner.end()
        story = [event.kind for event in itertools.takewhile(lambda one: one.kind is not EventKind.END, events)]
    kind = EventKind
    assert story == [kind.BEGIN, kind.COMMIT, kind.PREEMPT, kind.COMMIT, kind.COMMIT, kind.COMMIT, kind.GRANT]


def test_time_without_the_gpu_is_not_charged_to_a_budget(module: Control) -> None:
    with client_of(DEVICE) as owner:
        owner.begin(priority=50)
        owner.end()
        module.set_budget(os.getpid(), 2_000 * MS, 100_000 * MS)
        FAIL.write_text("24")  # for 1 + 2 + ... + 64 + 17 * 128 ms
        assert owner.begin(priority=50) == PENDING
        assert owner.granted().result()[0] == 0
        owner.end()
        assert [one.overruns for one in module.clients()] == [0]


def test_a_driver_that_stalls_delays_and_loses_nothing() -> None:
    load("vgpu_sleeps=1")
    parameter("vgpu_stall_ns").write_text(str(100 * MS))
    with connect("/dev/gpurt") as control:
        clients = [client_of(DEVICE) for _ in range(5)]
        started = [
            client.start(lib.GPURT_IOC_BEGIN, priority=10 * number, flags=lib.GPURT_BEGIN_WAIT)
            for number, client in enumerate(clients, 1)
        ]
        assert started[-1].result()[0] == 0
        assert control.status()[0].client_count == 5  # readers are not held up
        for client, call in zip(reversed(clients), reversed(started), strict=True):
            assert call.result()[0] == 0
            client.close()
        eventually(lambda: control.status()[0].client_count == 0)
        assert max(one.maximum for one in control.latency()) >= 100 * MS
    unload()
    load()
