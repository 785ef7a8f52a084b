# SPDX-License-Identifier: GPL-2.0
"""The bus: clients that die at any instant while they copy, and GPUs that go away under them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest
from links import Client, client_of, eventually
from loading import DEVICE, load, unload
from modules import parameter

from gpurt._gpurt import lib
from gpurt.enums import EventKind
from pycontrol.link.control import Control, connect

ROUNDS = 10_000 if os.environ.get("GPURT_LONG") else 200


@pytest.mark.timeout(550)
@pytest.mark.parametrize("options", [[], ["policy=5"]], ids=["segment", "boosted"])
def test_the_bus_is_handed_on_whenever_its_holder_is_killed(compiled: Path, options: list[str]) -> None:
    load(*options)
    command = [compiled / "copies", str(ROUNDS), "1", *(["boosted"] if options else [])]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert run.returncode == 0, run.stdout
    assert f"{ROUNDS} victims, {ROUNDS * 3 // 4} of them killed" in run.stdout
    with connect(str(DEVICE)) as control:
        eventually(lambda: control.status()[0].client_count == 0)
        (bus,) = control.buses()
        assert (bus.client, bus.waiters) == (None, 0)
        assert bus.count > 2 * ROUNDS
    unload()
    load()


def copy(client: Client, what: int, **fields: int) -> int:
    return client.code(lib.GPURT_IOC_COPY, what=what, **fields)


def test_gpus_that_go_away_keep_nobody_who_copies_or_waits(module: Control) -> None:
    for _ in range(20):
        with client_of(DEVICE) as holder, client_of(DEVICE) as waiter:
            assert copy(holder, lib.GPURT_COPY_BEGIN, priority=20) == 0
            call = waiter.start(
                lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, priority=10, timeout_ns=lib.GPURT_FOREVER
            )
            eventually(lambda: module.buses()[0].waiters == 1)
            parameter("vgpus").write_text("0")
            assert call.result()[0] == -errno.ENODEV
            assert module.buses() == []
            assert copy(holder, lib.GPURT_COPY_END) == -errno.ENOENT
            assert copy(holder, lib.GPURT_COPY_BEGIN) == -errno.ENODEV
            parameter("vgpus").write_text("1")


def test_threads_that_copy_while_gpus_come_and_go(module: Control, compiled: Path) -> None:
    """The program ends if it notices that its GPU went, so that each round has one of its own, which copies by then."""
    for _ in range(20):
        command = [compiled / "copies", "100000"]
        victims = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        eventually(lambda: module.buses()[0].count > 3)
        assert victims.poll() is None
        parameter("vgpus").write_text("0")
        parameter("vgpus").write_text("2")
        os.killpg(victims.pid, signal.SIGKILL)
        victims.wait()
        eventually(lambda: all(bus.client is None for bus in module.buses()))
    parameter("vgpus").write_text("1")
    assert [(bus.client, bus.waiters) for bus in module.buses()] == [(None, 0)]


def test_threads_that_end_and_continue_each_others_copies(compiled: Path) -> None:
    """No call is lost, nothing breaks, and nobody stays raised."""
    load("policy=5")
    run = subprocess.run([compiled / "shared_copies", "3000"], capture_output=True, text=True, timeout=500, check=False)
    assert (run.returncode, run.stdout) == (0, "shared_copies: 18000 calls\n")
    with connect(str(DEVICE)) as control:
        eventually(lambda: control.status()[0].client_count == 0)
        assert (control.buses()[0].client, control.buses()[0].waiters) == (None, 0)
    unload()
    load()


MANY = 200


def hold(ready: int) -> None:
    """In a child: copies, and then asks for the GPU as many other clients, all real-time."""
    held = client_of(DEVICE)
    assert copy(held, lib.GPURT_COPY_BEGIN, priority=60) == 0
    others = [client_of(DEVICE) for _ in range(MANY)]
    for other in others:
        assert other.code(lib.GPURT_IOC_BEGIN, priority=50) == 0
    os.write(ready, b"x")
    signal.pause()


def test_who_copies_is_taken_off_before_the_process_s_other_clients(module: Control) -> None:
    reader, writer = os.pipe()
    victim = os.fork()
    if not victim:
        hold(writer)
    assert os.read(reader, 1) == b"x"
    with client_of(DEVICE) as waiter:
        call = waiter.start(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, priority=10, timeout_ns=lib.GPURT_FOREVER)
        eventually(lambda: module.buses()[0].waiters == 1)
        events = module.events(60)
        os.kill(victim, signal.SIGKILL)
        gone = 0
        for event in events:
            if event.kind == EventKind.COPY_BEGIN:
                break
            gone += event.kind == EventKind.GONE
        assert call.result()[0] == 0
        assert gone < MANY // 4
        assert copy(waiter, lib.GPURT_COPY_END) == 0
    os.waitpid(victim, 0)
    for fd in (reader, writer):
        os.close(fd)
