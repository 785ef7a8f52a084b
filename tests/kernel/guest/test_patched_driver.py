# SPDX-License-Identifier: GPL-2.0
"""GPUs of patched drivers (kmod/drv/port_gpu.c), with a driver that has the port and no GPU: fake_driver/.

The driver writes a line that tells of a bug into the kernel's log if gpurt breaks a rule of kmod/drv/port.h.  No test
passes with such a line.  Numbers in names are those of defects (docs/kernel.md, "Patching a driver").
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from links import MS, PATIENCE, PENDING, RUNNING, client_of, eventually
from loading import DEVICE, LONG, THOROUGH, kernel_log, load, unload
from modules import parameter, remove
from patched import Driver, Tsg, facts, forked, granted, open_tsg, own, stranger, use, user, words

from gpurt._gpurt import lib
from gpurt.enums import Cause, Tier
from pycontrol import cli
from pycontrol.link.control import Control, connect
from pycontrol.measure import probe
from pycontrol.readable import readable

FAKE = Driver("fake_driver")
have, loaded, cleaned_up, remove_driver = FAKE.have, FAKE.loaded, FAKE.cleaned_up, FAKE.remove
ROUNDS = 200 if LONG else 12 if THOROUGH else 6
#: It is a program, and does the same in each kernel.
the_whole_probe = pytest.mark.skipif(not THOROUGH, reason="the whole probe runs in amd64-6.1")

pytestmark = pytest.mark.skipif(not FAKE.file.exists(), reason="needs fake_driver.ko, which test_matrix.py builds")


def test_the_tier_and_the_driver_are_told() -> None:
    with loaded() as control:
        (status,) = control.status()
        assert (status.tier, status.driver, status.tsgs) == (Tier.PATCHED, "amdgpu", 0)
        (fact,) = facts()
        assert (fact["driver"], fact["device"], fact["state"]) == ("amdgpu", "fake:0", "on")


def test_who_begins_runs_alone_until_the_end() -> None:
    with loaded() as control, stranger() as (tsg, _), user() as low, user() as high:
        assert (tsg.word(), low.run(words)) == ("on", ["on"])
        assert low.do("begin", priority=10) == RUNNING
        assert (tsg.word(), low.run(words), high.run(words)) == ("off", ["on"], ["off"])
        assert high.do("begin", priority=20) == RUNNING
        assert (tsg.word(), low.run(words), high.run(words)) == ("off", ["off"], ["on"])
        high.do("end")
        assert (tsg.word(), low.run(words), high.run(words)) == ("off", ["on"], ["off"])
        low.do("end")
        assert (tsg.word(), low.run(words), high.run(words)) == ("on", ["on"], ["on"])
        counts = {one.cause: one.count for one in control.latency()}
        assert (counts[Cause.BEGIN], counts[Cause.END]) == (2, 2)


def test_13_18_tsgs_are_born_off_and_lists_that_the_driver_builds_are_counted() -> None:
    with loaded() as control, user() as owner:
        owner.do("begin", priority=10)
        asked = int(facts()[0]["asks"])
        with stranger() as (tsg, _), user() as other:
            assert (tsg.word(), other.run(words)) == ("off", ["off"])
            have("rebuild", 0)
            assert (tsg.word(), other.run(words), owner.run(words)) == ("off", ["off"], ["on"])
            assert int(facts()[0]["asks"]) >= asked + 3
            owner.run(open_tsg)
            assert owner.run(words) == ["on", "on"]
            owner.do("end")
            assert tsg.word() == "on"
            before = int(facts()[0]["asks"])
            have("rebuild", 0)
            assert int(facts()[0]["asks"]) == before
        assert control.status()[0].faults == 0


def test_20_exemptions_of_processes_that_are_no_clients() -> None:
    with loaded() as control, user() as owner, stranger() as (tsg, pid), stranger() as (other, _):
        owner.do("begin", priority=10)
        assert tsg.word() == "off"
        control.set_exempt(True, pid=pid)
        assert (tsg.word(), other.word()) == ("on", "off")
        control.set_exempt(False, pid=pid)
        assert tsg.word() == "off"
        control.set_exempt(True, comm=Path(f"/proc/{pid}/comm").read_text().strip())
        with stranger() as (third, _):
            assert (tsg.word(), other.word(), third.word()) == ("on", "on", "on")
        control.set_exempt(False, comm=Path(f"/proc/{pid}/comm").read_text().strip())
        assert (tsg.word(), other.word()) == ("off", "off")


def test_the_processes_of_a_group_run_alone_together_until_its_last_end() -> None:
    with loaded() as control, stranger() as (tsg, _), user() as engine, user() as worker:
        for member in (engine, worker):
            assert member.do("join", group="llm") == 0
            assert member.do("begin") == RUNNING  # a client from now on
            member.do("end")
        control.set_priority(engine.pid, 20)
        assert engine.do("begin") == RUNNING
        assert (tsg.word(), engine.run(words), worker.run(words)) == ("off", ["on"], ["on"])
        have("rebuild", 0)
        assert worker.do("begin") == RUNNING
        engine.do("end")
        assert (tsg.word(), engine.run(words), worker.run(words)) == ("off", ["on"], ["on"])
        worker.do("end")
        assert (tsg.word(), engine.run(words), worker.run(words)) == ("on", ["on"], ["on"])
        assert control.status()[0].faults == 0


def test_a_process_that_the_administrator_puts_into_the_owners_group_runs() -> None:
    with loaded() as control, stranger() as (tsg, _), user() as owner, user() as helper:
        assert helper.do("begin") == RUNNING
        helper.do("end")
        assert owner.do("begin", priority=10) == RUNNING
        for one in (owner, helper):
            assert helper.run(words) == ["off"]
            control.set_group(one.pid, "llm")
        assert (tsg.word(), owner.run(words), helper.run(words)) == ("off", ["on"], ["on"])
        owner.kill()
        eventually(lambda: tsg.word() == "on")
        assert helper.run(words) == ["on"]


def test_an_exempt_client() -> None:
    with loaded() as control, user() as owner, user() as other:
        owner.do("begin", priority=10)
        control.set_exempt(True, pid=other.pid)
        assert (owner.run(words), other.run(words)) == (["on"], ["on"])
        control.set_exempt(False, pid=other.pid)
        assert (owner.run(words), other.run(words)) == (["on"], ["off"])


def test_tsgs_that_are_older_than_the_client_or_the_module() -> None:
    """A descriptor is a client from its first call on."""
    with stranger_before_everything() as tsg, connect(str(DEVICE)) as control, client_of(DEVICE) as client:
        mine = Tsg()
        client.begin()
        eventually(lambda: control.status()[0].tsgs == 1)
        with client_of(DEVICE) as second:
            assert second.begin(priority=10) == RUNNING
            eventually(lambda: control.status()[0].tsgs == 2)
            assert (mine.word(), tsg.word()) == ("on", "off")
            second.end()
        client.end()
        assert client.begin(priority=10) == RUNNING
        assert (mine.word(), tsg.word()) == ("on", "off")
        mine.close()  # the process's last one: the segment is over
        eventually(lambda: tsg.word() == "on")
        assert control.clients()[0].depth == 0


@contextmanager
def stranger_before_everything() -> Iterator[Tsg]:
    """A process that has a TSG before gpurt is loaded."""
    with cleaned_up():
        FAKE.insert()
        with stranger() as (tsg, _):
            load("vgpus=0")
            yield tsg


#: What the kernel's log says of a driver's numbers that gpurt gives a meaning.
REASONS = {errno.ETIMEDOUT: "isolation may be lost"}


@pytest.mark.parametrize("number", [errno.EIO, errno.ETIMEDOUT, errno.EINPROGRESS, errno.ENOTRECOVERABLE])
def test_commits_that_fail_are_tried_again(number: int) -> None:
    """Also with numbers that mean more to gpurt than to a driver."""
    with loaded() as control, client_of(DEVICE) as client, stranger() as (tsg, _):
        have("error", number)
        have("fail", 3)
        before = len(kernel_log())
        assert client.begin(priority=10) == PENDING
        assert granted(client) == 0
        assert tsg.word() == "off"
        assert control.status()[0].faults == 3
        told = REASONS.get(number, "could not be updated")
        eventually(lambda: any(told in line for line in kernel_log()[before:]))
        others = {"isolation may be lost", "before the driver resets", "could not be updated"} - {told}
        assert not [line for line in kernel_log()[before:] if any(other in line for other in others)]
        client.end()


def test_21_a_driver_that_cannot_switch_for_now_says_so() -> None:
    """A user's domain of NVIDIA's scheduler, for one."""
    with loaded(), client_of(DEVICE) as client:
        have("error", errno.EOPNOTSUPP)
        have("fail", 1_000_000)
        assert client.begin(priority=10) == PENDING
        eventually(lambda: facts()[0]["state"] == "unable")
        have("fail", 0)
        assert granted(client) == 0
        assert facts()[0]["state"] == "on"
        client.end()


def test_commits_that_take_long() -> None:
    with loaded() as control, user() as low, user() as high:
        have("late_ms", 30)
        assert low.do("begin", priority=10) == RUNNING
        assert high.do("begin", priority=20) == RUNNING
        assert (low.run(words), high.run(words)) == (["off"], ["on"])
        assert min(one.minimum for one in control.latency()) >= 30 * MS


def test_a_reset_ends_every_segment_and_the_gpu_is_used_again() -> None:
    with loaded() as control, client_of(DEVICE) as client, user() as other:
        mine = Tsg()
        assert client.begin(priority=20) == RUNNING
        assert other.do("begin", priority=10) == PENDING
        have("reset", 20)
        eventually(lambda: [one.depth for one in control.clients()] == [0, 0])
        assert client.code(lib.GPURT_IOC_END) == -errno.EIO
        client.begin(priority=20)
        assert granted(client) == 0
        assert (mine.word(), other.run(words)) == ("on", ["off"])
        mine.close()


def test_a_reset_that_fails_is_over_with_the_next_one() -> None:
    with loaded(), client_of(DEVICE) as client:
        have("break_down", 0)
        assert facts()[0]["state"] == "resetting"
        assert client.begin(priority=20) == PENDING
        have("reset", 0)
        assert granted(client) == 0
        assert facts()[0]["state"] == "on"
        client.end()


def test_all_clients_of_a_process_whose_work_was_aborted_hear_of_it() -> None:
    with loaded() as control, client_of(DEVICE) as owner, client_of(DEVICE) as second, user() as other:
        mine = Tsg()
        assert owner.begin(priority=30) == RUNNING
        assert other.do("begin", priority=20) == PENDING
        assert second.begin(priority=10) == PENDING
        have("kill", os.getpid())
        eventually(lambda: other.run(words) == ["on"] and mine.word() == "off")
        eventually(lambda: sorted(one.depth for one in control.clients()) == [0, 0, 1])
        assert [one.code(lib.GPURT_IOC_END) for one in (owner, second)] == [-errno.EIO] * 2
        # told once: a new segment is not the old one
        assert owner.begin(priority=30) == RUNNING
        time.sleep(0.1)
        owner.end()
        mine.close()


def test_gpus_come_and_go_while_they_are_owned() -> None:
    with loaded() as control, user() as owner, stranger() as (tsg, _):
        owner.do("begin", priority=10)
        assert tsg.word() == "off"
        have("gpus", 0)
        assert (control.status(), facts(), tsg.word()) == ([], [], "gone")
        have("gpus", 3)
        assert [one.driver for one in control.status()] == ["amdgpu"] * 3
        assert [fact["device"] for fact in facts()] == ["fake:0", "fake:1", "fake:2"]


def test_a_gpu_goes_while_a_client_waits_for_it() -> None:
    with loaded(), client_of(DEVICE) as client, ThreadPoolExecutor(1) as pool:
        have("fail", 1_000_000)
        assert client.begin(priority=10) == PENDING
        waiting = pool.submit(granted, client)
        eventually(lambda: FAKE.says("commits") > 2)
        assert not waiting.done()
        have("gpus", 0)
        assert waiting.result(PATIENCE) == -errno.ENODEV


def come_killed(count: int) -> None:
    have("gpus_killed", count)


def test_a_gpu_comes_although_the_process_that_opens_it_first_is_killed() -> None:
    """Tegra's driver powers a GPU up, and adds it, in the first process that uses it, which any user may kill."""
    with loaded() as control:
        have("gpus", 0)
        _, status = os.waitpid(forked(come_killed, 4), 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        assert [fact["state"] for fact in facts()] == ["on"] * 4
        assert len(control.status()) == 4


def test_a_gpu_that_is_refused_runs_everyone_and_says_why() -> None:
    with loaded('refuse="no scheduler of its own"') as control, stranger() as (tsg, _), client_of(DEVICE) as client:
        assert control.status() == []
        assert facts()[0] == {
            "driver": "amdgpu", "device": "fake:0", "gpu": "-", "state": "refused", "error": "0", "asks": "0",
            "reason": "no scheduler of its own",
        }  # fmt: skip
        assert client.code(lib.GPURT_IOC_BEGIN, priority=10) == -errno.ENODEV
        for what in ("rebuild", "reset", "kill"):
            have(what, os.getpid() if what == "kill" else 0)
        assert tsg.word() == "on"


def test_a_gpu_for_which_there_is_no_number() -> None:
    """It is refused without a commit, for which the driver is not ready."""
    with loaded(gpurt=("vgpus=15",)) as control:
        assert len(control.status()) == 16
        have("gpus", 2)
        assert [fact["state"] for fact in facts()] == ["on", "refused"]
        assert facts()[1]["reason"] == "gpurt has as many GPUs as it can"


DEVICES = ["fake:2", "fake:3"]  # two GPUs of a driver that announces them from the last address to the first


def numbered(control: Control) -> list[tuple[int, str]]:
    return [(one.gpu, one.device) for one in control.status()]


def test_numbers_follow_addresses_whichever_module_is_loaded_first() -> None:
    with FAKE.cleaned_up():
        FAKE.insert("backwards=1")
        have("gpus", 2)
        for first in ("driver", "gpurt", "driver", "gpurt"):
            if first == "gpurt":
                FAKE.remove()
                load("vgpus=0")
                FAKE.insert("backwards=1")
                have("gpus", 2)
            else:
                load("vgpus=0")
            with connect(str(DEVICE)) as control:
                assert numbered(control) == list(enumerate(DEVICES)), first
            assert [fact["device"] for fact in facts()] == DEVICES
            with client_of(DEVICE) as client, stranger(gpu=0) as (last, _), stranger(gpu=1) as (near, _):
                client.begin(priority=10)  # on GPU 0, which is the driver's second
                assert (near.word(), last.word()) == ("off", "on")
            unload()


def test_a_gpu_that_comes_while_another_is_used_takes_no_number_away() -> None:
    with loaded("backwards=1") as control, client_of(DEVICE) as client:
        client.begin(priority=10)
        have("gpus", 2)
        assert numbered(control) == [(0, "fake:3"), (1, "fake:2")]
        with stranger(gpu=0) as (tsg, _):
            assert tsg.word() == "off"
        assert any("numbers do not follow addresses" in line for line in kernel_log())


def test_a_gpu_that_comes_back_has_its_number_again() -> None:
    with loaded("backwards=1") as control:
        have("gpus", 2)
        have("gpus", 1)
        assert numbered(control) == [(1, "fake:3")]
        have("gpus", 2)
        assert numbered(control) == list(enumerate(DEVICES))


def test_10_14_a_driver_with_another_port_is_not_used() -> None:
    with loaded("version=77") as control:
        assert control.status() == []
        assert facts()[0]["reason"] == "its port has version 77, this module needs 1"
        assert FAKE.says("attached") == 0
        remove_driver()
        assert facts() == []
        FAKE.insert()
        assert len(control.status()) == 1


def test_gpurt_goes_first() -> None:
    with stranger_before_everything() as tsg:
        with client_of(DEVICE) as client:
            client.begin(priority=10)
            assert tsg.word() == "off"
            assert not remove("gpurt")
        unload()
        assert tsg.word() == "on"
        have("rebuild", 0)
        load("vgpus=0")
        assert FAKE.says("attached") == 2


def test_the_driver_goes_first_and_comes_back() -> None:
    with loaded() as control:
        with client_of(DEVICE) as client:
            client.begin(priority=10)
            assert not remove("fake_driver")  # it stays for clients
        remove_driver()
        assert (control.status(), facts()) == ([], [])
        FAKE.insert()
        assert len(control.status()) == 1
        with client_of(DEVICE) as client:
            assert client.begin(priority=10) == RUNNING


def test_both_modules_come_and_go_under_load(capfd: pytest.CaptureFixture[str]) -> None:
    """In both orders; somebody has owned the GPU in between."""
    reader, writer = os.pipe()
    with loaded():
        users = [forked(use, writer) for _ in range(2)]
        try:
            for number in range(ROUNDS):
                with capfd.disabled():  # a machine that prints nothing for long counts as hung
                    print(end=".", flush=True)
                assert readable(reader, PATIENCE), "nobody owns it"
                if number % 3:
                    remove_driver()
                if number % 3 != 1:
                    unload()
                    os.read(reader, 1 << 16)
                    load("vgpus=0")
                if number % 3:
                    os.read(reader, 1 << 16) if readable(reader, 0) else None
                    FAKE.insert()
        finally:
            for pid in users:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(reader)
            os.close(writer)


def test_the_gpu_is_handed_on_when_its_owner_is_killed() -> None:
    with loaded() as control, client_of(DEVICE) as client:
        mine = Tsg()
        for _ in range(ROUNDS):
            assert client.begin(priority=50) in (RUNNING, PENDING)
            victim = forked(own, 0)
            time.sleep(random.random() * 0.03)
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            assert granted(client) == 0
            assert mine.word() == "on"
            client.end()
        mine.close()
        assert control.status()[0].faults == 0


@pytest.mark.skipif(not Path("/sys/power/pm_test").exists(), reason="this kernel cannot try to sleep")
def test_a_machine_that_sleeps() -> None:
    """The kernel's own test: everyone is told, processes are frozen, and all that is undone."""
    delay = Path("/sys/module/suspend/parameters/pm_test_delay")
    if delay.exists():
        delay.write_text("1")
    with loaded() as control, user() as owner, stranger() as (tsg, _):
        owner.do("begin", priority=10)
        Path("/sys/power/pm_test").write_text("freezer")
        Path("/sys/power/state").write_text("freeze")
        Path("/sys/power/pm_test").write_text("none")
        assert facts()[0]["state"] == "on"
        eventually(lambda: {one.cause: one.count for one in control.latency()}.get(Cause.RESET) == 1)
        assert (owner.run(words), tsg.word()) == (["on"], "off")
        owner.do("end")
        assert tsg.word() == "on"


LOAD = """
import os, time
fd = os.open("/dev/fake_gpu", os.O_RDWR)
os.write(fd, b"0")
while True:
    if os.read(fd, 9) == b"on":
        os.write(1, b".")
    time.sleep(0.01)
"""


@the_whole_probe
def test_the_probe_finds_nothing_wrong_with_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probe, "SEGMENTS", 30)
    monkeypatch.setattr(probe, "SWITCH_ROUNDS", 3)
    monkeypatch.setattr(probe, "OFF_FOR", 1.0)
    (tmp_path / "load.py").write_text(LOAD)
    with loaded():
        code = cli.run(["measure", "board", "--load", f"{sys.executable} -S {tmp_path}/load.py", "--json"])
        findings = {one["name"]: one for one in json.loads(capfd.readouterr().out)["findings"]}
        assert code == 0, findings
        assert sum(one["status"] == "ok" for one in findings.values()) >= 8, findings
        have("fail", 3)
        assert cli.run(["measure", "board"]) == 1
        assert "FAIL  updates: " in capfd.readouterr().out
        assert cli.run(["status", "--json"]) == 0
        (one,) = json.loads(capfd.readouterr().out)["patched"]
        assert (one["driver"], one["device"], one["condition"]) == ("amdgpu", "fake:0", "on")


@the_whole_probe
def test_the_probe_has_an_answer_while_an_update_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for the driver cannot be killed, and the probe must not wait for it."""
    with loaded() as control:
        (status,) = control.status()
        monkeypatch.setattr(probe, "KILL_PATIENCE_S", 0.5)
        have("late_ms", 15_000)
        before = FAKE.says("commits")
        probed = probe.Target(str(DEVICE), status.gpu, status.driver, None)
        (finding,) = probe.run_probe([probe.Check("updates", 4, probe._updates)], probed)
        assert FAKE.says("commits") == before
        assert finding.text == "no answer within 4 s; its process waits for the driver, and cannot be killed"
        have("late_ms", 0)


def test_the_probe_finds_the_gpu_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SEGMENTS", 3)
    with loaded("gpus=0", gpurt=("vgpus=2",)) as control:
        have("gpus", 1)
        parameter("vgpus").write_text("1")
        assert [one.gpu for one in control.status()] == [0, 2]
        (finding,) = probe.run_probe(
            [probe.Check("updates", 60, probe._updates)], probe.probe_target(str(DEVICE), None)
        )
        assert finding.status.value == "ok", finding


def test_the_probe_says_why_there_is_nothing_to_probe(capfd: pytest.CaptureFixture[str]) -> None:
    with loaded('refuse="no scheduler of its own"'):
        assert cli.run(["measure", "board"]) == 4
        assert "amdgpu fake:0: not switched by gpurt.ko: no scheduler of its own" in capfd.readouterr().err
        assert cli.run(["status"]) == 0
        assert "not switched by gpurt.ko: no scheduler of its own" in capfd.readouterr().out
