# SPDX-License-Identifier: GPL-2.0
"""The queue manager of patched amdgpu, as a module, under gpurt.ko: kfd_driver/.

The driver's own files run, down to the packets that they write for the firmware.  The hardware reads those packets,
and a TSG's word is whether it executes the process's queue.  The hardware writes the line that tells of a bug.  Bugs
are: a queue is mapped twice, a runlist replaces one that is not unmapped, memory is freed that the hardware uses.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from links import PATIENCE, PENDING, RUNNING, client_of, eventually
from loading import DEVICE, load, unload
from patched import Driver, Tsg, close_tsg, facts, forked, granted, open_tsg, own, stranger, use, user, words

from gpurt.enums import Tier
from pycontrol.readable import readable

KFD = Driver("kfd_driver")
ROUNDS = 100 if os.environ.get("GPURT_LONG") else 8

pytestmark = pytest.mark.skipif(
    not KFD.file.exists(), reason="needs kfd_driver.ko, which test_matrix.py builds if Linux's sources are there"
)


@pytest.fixture(params=["HWS", "MES"])
def options(request: pytest.FixtureRequest) -> list[str]:
    """Options of the driver's module: they say which firmware the hardware has."""
    return ["mes=1"] if request.param == "MES" else []


def test_from_begin_to_end(options: list[str]) -> None:
    """One update of the runlist for each decision (HWS), however many processes there are."""
    with (
        KFD.loaded(*options) as control, stranger() as (tsg, _), stranger() as (other, _),
        user() as low, user() as high,
    ):  # fmt: skip
        (status,) = control.status()
        assert (status.tier, status.driver, facts()[0]["device"]) == (Tier.PATCHED, "amdgpu", "0000:03:00.0")
        assert [one.word() for one in (tsg, other)] == ["on", "on"]
        before = KFD.says("updates")
        assert low.do("begin", priority=10) == RUNNING
        assert (tsg.word(), other.word(), low.run(words), high.run(words)) == ("off", "off", ["on"], ["off"])
        assert high.do("begin", priority=20) == RUNNING
        assert (tsg.word(), other.word(), low.run(words), high.run(words)) == ("off", "off", ["off"], ["on"])
        high.do("end")
        assert (tsg.word(), low.run(words), high.run(words)) == ("off", ["on"], ["off"])
        low.do("end")
        assert (tsg.word(), other.word(), low.run(words), high.run(words)) == ("on", "on", ["on"], ["on"])
        assert KFD.says("updates") - before == (0 if options else 4)
        assert control.status()[0].faults == 0


def test_what_comes_and_goes_while_another_process_has_the_gpu(options: list[str]) -> None:
    """Processes and queues are born off; a queue that is off can go; more queues than the hardware has places for."""
    with KFD.loaded(*options), user() as owner, user() as other:
        owner.do("begin", priority=10)
        with stranger() as (tsg, _):
            assert tsg.word() == "off"
        for _ in range(9):
            other.run(open_tsg)
            owner.run(open_tsg)
        assert (set(owner.run(words)), set(other.run(words))) == ({"on"}, {"off"})
        other.run(close_tsg)
        owner.run(close_tsg)
        owner.do("end")
        assert (owner.run(words), other.run(words)) == (["on"] * 9, ["on"] * 9)


def test_evictions_for_memory_nest_with_those_of_gpurt(options: list[str]) -> None:
    with KFD.loaded(*options), user() as owner, stranger() as (tsg, pid):
        KFD.have("evict", pid)
        assert tsg.word() == "off"
        owner.do("begin", priority=10)
        KFD.have("restore", pid)
        assert (owner.run(words), tsg.word()) == (["on"], "off")
        KFD.have("evict", owner.pid)
        KFD.have("evict", pid)
        owner.do("end")
        assert (owner.run(words), tsg.word()) == (["off"], "off")
        KFD.have("restore", 0)
        assert (owner.run(words), tsg.word()) == (["on"], "on")


def test_firmware_that_hangs(options: list[str]) -> None:
    """The driver notices, and resets the card; nobody is told that it has the GPU until that is over."""
    with KFD.loaded(*options) as control, client_of(DEVICE) as client, stranger() as (tsg, _):
        KFD.have("fail", 1)
        assert client.begin(priority=10) == PENDING
        eventually(lambda: KFD.says("resets_done") == 1)
        assert granted(client) == 0
        assert control.status()[0].faults > 0
        assert tsg.word() == "off"
        client.end()
        assert tsg.word() == "off"  # amdgpu keeps a process evicted whose work a reset has lost
        with stranger() as (fresh, _):
            assert fresh.word() == "on"


def test_a_reset_ends_segments(options: list[str]) -> None:
    with KFD.loaded(*options) as control, user() as owner, client_of(DEVICE) as client:
        owner.do("begin", priority=10)
        assert client.begin(priority=5) == PENDING
        KFD.have("reset", 0)
        eventually(lambda: control.clients()[0].depth + control.clients()[1].depth == 1)
        assert granted(client) == 0
        client.end()


def test_processes_that_are_killed_on_and_off_the_gpu(options: list[str]) -> None:
    with KFD.loaded(*options) as control, client_of(DEVICE) as client:
        mine = Tsg()
        for number in range(ROUNDS):
            assert client.begin(priority=50) in (RUNNING, PENDING)
            victims = [forked(own, 0) for _ in range(2)]
            time.sleep(random.random() * 0.03)
            if number % 2:
                client.end()
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if not number % 2:
                assert granted(client) == 0
                assert mine.word() == "on"
                client.end()
            assert mine.word() == "on"
        mine.close()
        assert control.status()[0].faults == 0


def test_both_modules_go_first_and_come_back_under_load(options: list[str]) -> None:
    reader, writer = os.pipe()
    with KFD.loaded(*options):
        users = [forked(use, writer) for _ in range(2)]
        try:
            for number in range(ROUNDS):
                assert readable(reader, PATIENCE), "nobody owns it"
                if number % 2:
                    KFD.remove()
                unload() if number % 3 else None
                load("vgpus=0") if number % 3 else None
                if number % 2:
                    KFD.insert(*options)
                os.read(reader, 1 << 16)
        finally:
            for pid in users:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(reader)
            os.close(writer)


def test_when_gpurt_goes_everyone_runs(options: list[str]) -> None:
    with KFD.cleaned_up():
        KFD.insert(*options)
        with stranger() as (tsg, _):
            load("vgpus=0")
            with client_of(DEVICE) as client:
                assert client.begin(priority=10) == RUNNING
                assert tsg.word() == "off"
            unload()
            assert tsg.word() == "on"


def test_cards_come_and_go_while_they_are_owned(options: list[str]) -> None:
    with KFD.loaded(*options) as control, user() as owner, stranger() as (tsg, _):
        owner.do("begin", priority=10)
        assert tsg.word() == "off"
        KFD.have("gpus", 0)
        assert (control.status(), facts(), tsg.word()) == ([], [], "gone")
        KFD.have("gpus", 2)
        assert [fact["device"] for fact in facts()] == ["0000:03:00.0", "0000:04:00.0"]
        with stranger(gpu=1) as (second, _):
            assert second.word() == "on"


def test_without_the_hardware_scheduler_the_card_is_refused() -> None:
    with KFD.loaded("sched_policy=2") as control:
        assert control.status() == []
        assert (facts()[0]["state"], facts()[0]["reason"]) == ("refused", "amdgpu.sched_policy: no hardware scheduling")
