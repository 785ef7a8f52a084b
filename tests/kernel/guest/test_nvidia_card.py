# SPDX-License-Identifier: GPL-2.0
"""Patched nvidia.ko, built from NVIDIA's sources, in a kernel with gpurt.ko and a card that is none: fake_pci/.

The module is real with all of RM, its probe and removal.  The patches' additions around RM are real, too: the worker,
locks, references on processes, the port.  The card cannot be opened, so RM has no channels, and nothing is switched;
fake_pci tells what RM would tell of channels.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from links import PENDING, RUNNING, client_of, eventually
from loading import DEVICE, OUT, kernel_log, load, unload
from modules import insert, remove
from patched import facts, forked, granted

from gpurt._gpurt import lib
from gpurt.enums import Tier
from pycontrol import cli
from pycontrol.link.control import Control, connect

CARD = "0042:00:01.0"
FAKE = Path("/sys/module/fake_pci/parameters")
SYSFS = Path("/sys/bus/pci")

pytestmark = pytest.mark.skipif(
    not (OUT / "nvidia.ko").exists(), reason="needs patched nvidia.ko, which test_nvidia_module.py builds"
)


def tell(what: str) -> None:
    (FAKE / "tell").write_text(what)


@dataclass(frozen=True)
class Channel:
    """One that the driver was told of: the number that fake_pci has given it."""

    number: int

    def runs(self) -> bool:
        tell(f"may {self.number}")
        return (FAKE / "may").read_text() == "Y\n"

    def is_(self, what: str) -> None:
        tell(f"{what} {self.number}")


def waits(_: int) -> None:
    os.read(os.pipe()[0], 1)


@contextmanager
def process() -> Iterator[int]:
    """A process that is no client."""
    pid = forked(waits, 0)
    try:
        yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def insert_driver() -> None:
    insert(OUT / "nvidia.ko")


def remove_driver() -> None:
    eventually(lambda: remove("nvidia"))


@contextmanager
def card(*options: str) -> Iterator[None]:
    """The function is there, neither module is; in the end gpurt is as other tests expect it."""
    unload()
    insert(OUT / "fake_pci.ko", *options)
    try:
        yield
    finally:
        if Path("/sys/module/nvidia").exists():
            remove_driver()
        eventually(lambda: remove("fake_pci"))
        load()


@contextmanager
def opened() -> Iterator[Control]:
    """The driver, then gpurt, then the card is opened."""
    with card():
        insert_driver()
        load("vgpus=0")
        tell("opened")
        eventually(facts)
        with connect(str(DEVICE)) as control:
            yield control


def state() -> list[tuple[str, str, str]]:
    return [(one["driver"], one["device"], one["state"]) for one in facts()]


ON = [("nvidia", CARD, "on")]


@pytest.fixture(scope="module", autouse=True)
def _needed() -> Iterator[None]:
    """Modules of this kernel that nvidia.ko needs, which came with it."""
    order = (OUT / "needed").read_text().split()
    for name in order:
        insert(OUT / name)
    yield
    for name in reversed(order):
        eventually(lambda name=name: remove(name.removesuffix(".ko")))  # type: ignore[misc]


@pytest.mark.parametrize("first", ["gpurt", "nvidia"])
def test_both_orders_of_loading(first: str, capfd: pytest.CaptureFixture[str]) -> None:
    """RM does not know yet whether a card that nobody has opened can be switched, so there is no GPU."""
    with card():
        for name in ("gpurt", "nvidia") if first == "gpurt" else ("nvidia", "gpurt"):
            load("vgpus=0") if name == "gpurt" else insert_driver()
        assert facts() == []
        assert "RTX 3090" in Path(f"/proc/driver/nvidia/gpus/{CARD}/information").read_text()
        tell("opened")
        eventually(facts)
        assert state() == ON
        with connect(str(DEVICE)) as control:
            (status,) = control.status()
            assert (status.tier, status.driver, status.tsgs) == (Tier.PATCHED, "nvidia", 0)
        assert cli.run(["status"]) == 0
        assert "nvidia" in capfd.readouterr().out
        assert any("is switched by its driver" in line and CARD in line for line in kernel_log())


def test_channels_of_a_process_may_run_when_nobody_else_has_the_gpu() -> None:
    with opened() as control, process() as pid, client_of(DEVICE) as client:
        tell(f"channel {pid}")
        tell(f"channel {os.getpid()}")
        other, mine = Channel(0), Channel(1)
        assert (other.runs(), mine.runs()) == (True, True)
        assert client.begin(priority=10) == RUNNING
        eventually(lambda: control.status()[0].tsgs == 1)  # those of clients are counted
        assert (other.runs(), mine.runs()) == (False, True)
        tell(f"channel {pid}")
        assert not Channel(2).runs()
        client.end()
        assert (other.runs(), mine.runs()) == (True, True)
        for one in (other, mine, Channel(2)):
            one.is_("closed")
        eventually(lambda: control.status()[0].tsgs == 0)
        assert control.status()[0].faults == 0


def test_a_kill_ends_the_segment_and_nobody_has_a_card_that_is_reset() -> None:
    with opened() as control, client_of(DEVICE) as client:
        tell(f"channel {os.getpid()}")
        assert client.begin(priority=20) == RUNNING
        Channel(0).is_("killed")
        eventually(lambda: control.clients()[0].depth == 0)
        assert client.code(lib.GPURT_IOC_END) == -errno.EIO
        tell("reset")
        assert state() == [("nvidia", CARD, "resetting")]
        assert client.begin(priority=20) == PENDING
        tell("done")
        assert (state(), granted(client)) == (ON, 0)
        client.end()
        Channel(0).is_("closed")


def test_gpurt_goes_and_comes_while_the_driver_has_channels() -> None:
    with opened(), process() as pid:
        tell(f"channel {pid}")
        with client_of(DEVICE) as client:
            client.begin(priority=10)
            assert not Channel(0).runs()
        unload()
        assert Channel(0).runs()
        load("vgpus=0")
        assert state() == ON
        with client_of(DEVICE) as client:
            assert client.begin(priority=10) == RUNNING
            assert not Channel(0).runs()
        Channel(0).is_("closed")


def test_the_driver_goes_under_gpurt_and_comes_back() -> None:
    with opened() as control:
        with client_of(DEVICE) as client:
            client.begin(priority=10)
            assert not remove("nvidia")  # it stays for clients
            client.end()
        remove_driver()
        assert (facts(), control.status()) == ([], [])
        insert_driver()
        assert facts() == []
        tell("opened")
        eventually(facts)
        assert state() == ON


def test_the_card_is_taken_out_while_a_client_has_it_and_comes_back() -> None:
    with opened() as control, process() as pid, client_of(DEVICE) as client:
        tell(f"channel {pid}")
        assert client.begin(priority=10) == RUNNING
        (SYSFS / "devices" / CARD / "remove").write_text("1")
        assert (facts(), control.status()) == ([], [])
        assert client.code(lib.GPURT_IOC_END) < 0
        assert Channel(0).runs()
        Channel(0).is_("closed")
        (SYSFS / "rescan").write_text("1")
        tell("opened")
        eventually(facts)
        assert state() == ON


def test_without_a_card_it_stays_loaded_for_a_bridge_and_there_is_no_gpu() -> None:
    with card("bridge=1"):
        load("vgpus=0")
        insert_driver()
        assert facts() == []
        assert not list(Path("/proc/driver/nvidia/gpus").glob("*"))
        unload()
        load("vgpus=0")
        remove_driver()
