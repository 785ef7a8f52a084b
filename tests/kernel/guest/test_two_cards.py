# SPDX-License-Identifier: GPL-2.0
"""Unmodified HIP programs under the preload library, two cards, and amdgpu's patched queue manager below gpurt.ko.

The program's own calls go to the model of KFD in tests/preload/fakes.  Each of its queues is also one of kfd_driver.ko,
which says whether that card executes it.  The test tries the way from a launch to the card.  The library finds the
host's number of the program's card and begins a segment there, and the driver takes the others off that card alone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from links import eventually
from loading import BROUGHT, DEVICE, load, unload
from machines import LONG, FakeGpu, Program, build
from patched import Driver, Tsg, facts, stranger

from gpurt.enums import Tier
from pycontrol.link.control import Control, connect

KFD = Driver("kfd_driver")
PIDFD_GETFD = 438
CARDS = ["0000:03:00.0", "0000:04:00.0"]

pytestmark = pytest.mark.skipif(
    not KFD.file.exists(), reason="needs kfd_driver.ko, which test_matrix.py builds if Linux's sources are there"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, the fakes and the program."""
    return BROUGHT / "preload" if BROUGHT else build(tmp_path_factory.mktemp("preload"))


@pytest.fixture
def start(built: Path, tmp_path: Path) -> Iterator[Callable[[int], Program]]:
    """Starts programs that see one card only, which is their device 0."""
    fake = FakeGpu(tmp_path / "gpu.sock", 2)
    made: list[Program] = []

    def one(card: int) -> Program:
        extra = {"FAKE_CARDS": "1", "ROCR_VISIBLE_DEVICES": str(card)}
        made.append(Program(built, fake, DEVICE, "proc", "hip", extra))
        made[-1].do("all")
        return made[-1]

    yield one
    for program in made:
        program.kill()
    fake.close()


@contextmanager
def loaded(first: str, *options: str) -> Iterator[Control]:
    """Both modules, in that order, and the driver announces its cards in an order of its own."""
    with KFD.cleaned_up():
        if first == "gpurt":
            load("vgpus=0")
        KFD.insert("gpus=2", *options)
        if first == "driver":
            load("vgpus=0")
        with connect(str(DEVICE)) as plane:
            yield plane
        unload()


def words(program: Program) -> list[str]:
    """Whether the cards execute the program's queues: read through duplicates of its descriptors."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    pidfd = os.pidfd_open(program.pid)
    for entry in sorted(Path(f"/proc/{program.pid}/fd").iterdir(), key=lambda one: int(one.name)):
        if os.readlink(entry) == "/dev/fake_gpu":
            copy = Tsg(libc.syscall(PIDFD_GETFD, pidfd, int(entry.name), 0))
            found.append(copy.word())
            copy.close()
    os.close(pidfd)
    return found


def urgent(plane: Control, program: Program, priority: int) -> Program:
    eventually(lambda: any(one.pid == program.pid for one in plane.clients()))
    plane.set_priority(program.pid, priority)
    return program


@pytest.mark.parametrize("options", [(), ("mes=1",)], ids=["HWS", "MES"])
def test_programs_own_their_own_card_whichever_module_came_first(
    options: tuple[str, ...], start: Callable[[int], Program]
) -> None:
    for first in ("driver", "gpurt"):
        with loaded(first, *options) as plane, stranger(gpu=0) as (left, _), stranger(gpu=1) as (right, _):
            assert [(one.gpu, one.device, one.tier) for one in plane.status()] == [
                (number, card, Tier.PATCHED) for number, card in enumerate(CARDS)
            ]
            assert [one["device"] for one in facts()] == CARDS
            other, low, high = start(0), urgent(plane, start(1), 10), urgent(plane, start(1), 50)

            def seen(programs: tuple[Program, ...] = (other, low, high), tsgs: tuple[Tsg, ...] = (left, right)) -> str:
                on = [words(one) == ["on"] for one in programs if one.process.poll() is None]
                return "".join("-+"[one] for one in (*on, *(tsg.word() == "on" for tsg in tsgs)))

            assert seen() == "+++++"
            low.do(LONG)
            assert seen() == "++-+-"  # the second card is low's, and the first everyone's
            high.do(LONG)
            assert seen() == "+-++-"
            urgent(plane, other, 20).do(LONG)
            assert seen() == "+-+--"
            high.kill()
            eventually(lambda seen=seen: seen() == "++--")
            low.gpu.finish(low.pid)
            low.do("all")
            assert seen() == "++-+"
            other.kill()
            low.kill()
            eventually(lambda left=left: left.word() == "on")
            assert [one.faults for one in plane.status()] == [0, 0]
