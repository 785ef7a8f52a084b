# SPDX-License-Identifier: GPL-2.0
"""Clients that die at any instant, and a module that comes and goes under load."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

import pytest
from actors import Actor
from links import PATIENCE, client_of, eventually
from loading import DEVICE, LOADED, LONG, MODULE, THOROUGH, KernelLog, load, unload
from modules import insert, insert_gpurt, parameter, remove

from gpurt._gpurt import ffi, lib
from gpurt.errors import DeviceError, GpurtError
from pycontrol.link.control import Control, connect
from pycontrol.readable import readable

LASTS = 5500 if LONG else 550  # s
VIRTUAL = Path(MODULE).with_name("gpurt-vgpu.ko")


@pytest.mark.timeout(LASTS + 50)
@pytest.mark.parametrize(
    "options", [[], ["vgpu_alpha_ns=300000", "vgpu_theta_ns=100000"], ["vgpu_sleeps=1"], ["policy=5"], ["vgpus=2"]]
)
def test_the_gpu_is_handed_on_whenever_its_owner_is_killed(
    compiled: Path, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    load(*options)
    rounds = 10_000 if LONG else 300 if THOROUGH and not options else 50
    modes = [mode for option, mode in (("policy=5", "boosted"), ("vgpus=2", "grouped")) if option in options]
    command = [compiled / "killed", str(rounds), "1", *modes]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LASTS, check=False)
    assert run.returncode == 0, run.stdout
    with capfd.disabled():
        print(f" {run.stdout.strip()}", flush=True)
    with connect("/dev/gpurt") as control:
        assert {(one.client_count, one.tsgs, one.runner_pid) for one in control.status()} == {(0, 0, 0)}
    unload()
    load()


@pytest.mark.skipif(not THOROUGH, reason="what inherits a descriptor is asked for in amd64-6.1")
def test_a_program_cannot_use_a_descriptor_that_was_opened_before_it_was_executed(
    module: Control, compiled: Path
) -> None:
    """posix_spawn() opens it in a process that shares the memory of this one, which stays."""
    opens = [(os.POSIX_SPAWN_OPEN, 9, "/dev/gpurt", os.O_RDWR, 0)]
    program = str(compiled / "inherited")
    child = os.posix_spawn(program, [program, "9"], os.environ, file_actions=opens)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ESTALE
    assert module.status()[0].client_count == 0


def test_the_module_stays_while_it_is_used(module: Control) -> None:
    with Actor(DEVICE) as user:
        user.do("begin")
        assert not remove("gpurt_vgpu")
        assert not remove("gpurt")
        assert module.status()[0].client_count == 1


def test_the_module_stays_for_that_of_virtual_gpus(module: Control) -> None:
    assert not remove("gpurt")
    assert len(module.status()) == 1
    assert remove("gpurt_vgpu")
    assert module.status() == []


def test_virtual_gpus_come_and_go_with_their_module_under_load() -> None:
    """gpurt.ko stays, and so do descriptors of it, whose clients are killed, end, or lose their GPU."""
    load()
    reader, writer = os.pipe()
    fork = get_context("fork")
    users = [fork.Process(target=use_forever, args=(writer,)) for _ in range(2)]
    for user in users:
        user.start()
    handle = ffi.new("struct gpurt_handle **")
    with connect("/dev/gpurt") as control:
        for turn in range(500 if LONG else 25 if THOROUGH else 10):
            assert readable(reader, PATIENCE), "nobody uses it"
            os.read(reader, 1 << 16)
            assert lib.gpurt_open(handle, b"/dev/gpurt") == 0
            assert lib.gpurt_segment_begin(handle[0], 0, 0) >= 0
            assert not remove("gpurt_vgpu")
            users[turn % 2].kill()
            users[turn % 2].join()
            if turn % 3:
                parameter("vgpus").write_text("0")  # which ends clients, and what they wait for
            else:
                assert lib.gpurt_segment_end(handle[0], 0) >= 0
                lib.gpurt_close(handle[0])
            eventually(lambda: remove("gpurt_vgpu"))
            assert control.status() == []
            if turn % 3:
                assert lib.gpurt_segment_end(handle[0], 0) < 0
                lib.gpurt_close(handle[0])
            insert(VIRTUAL, f"vgpu_sleeps={turn // 2 % 2}")
            assert len(control.status()) == 1
            users[turn % 2] = fork.Process(target=use_forever, args=(writer,))
            users[turn % 2].start()
        for user in users:
            user.kill()
            user.join()
        eventually(lambda: not control.clients())
    os.close(reader)
    os.close(writer)


def test_the_module_comes_and_goes_under_load(compiled: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At every instant somebody tries to open it, to use it, and to ask it things; somebody has used it in between."""
    times = 1_000 if LONG else 20 if THOROUGH else 5
    load()
    reader, writer = os.pipe()
    users = [get_context("fork").Process(target=use_forever, args=(writer,)) for _ in range(2)]
    try:
        for user in users:
            user.start()
        for _ in range(times):
            with capfd.disabled():  # a machine that prints nothing for long counts as hung
                print(end=".", flush=True)
            assert readable(reader, PATIENCE), "nobody uses it"
            unload()
            os.read(reader, 1 << 16)  # all that was written while it was there
            load()
    finally:
        for user in users:
            user.kill()
            user.join()
        os.close(reader)
        os.close(writer)
    with capfd.disabled():
        print(f" the module was removed and loaded {times} times under load", flush=True)
    assert [user.exitcode for user in users] == [-signal.SIGKILL] * 2


def use_forever(used: int) -> NoReturn:
    """Opens the module, uses it and asks it things, whether it is there or not.  Writes a byte in each segment."""
    handle = ffi.new("struct gpurt_handle **")
    while True:
        if not lib.gpurt_open(handle, b"/dev/gpurt"):
            if lib.gpurt_segment_begin(handle[0], 0, 0) >= 0:
                os.write(used, b".")
            lib.gpurt_segment_end(handle[0], 0)
            lib.gpurt_close(handle[0])
        with suppress(GpurtError, OSError), connect("/dev/gpurt") as control:
            control.status()
        time.sleep(0.002)


def test_gpus_come_and_go_under_load(module: Control, compiled: Path) -> None:
    """Unregistering a driver ends its clients' calls, and never a kernel."""
    victims = subprocess.Popen([compiled / "killed", "100000"], stdout=subprocess.DEVNULL)
    handle = ffi.new("struct gpurt_handle **")
    assert lib.gpurt_open(handle, b"/dev/gpurt") == 0
    assert lib.gpurt_segment_begin(handle[0], 0, 0) >= 0
    for _ in range(500 if LONG else 25 if THOROUGH else 10):
        parameter("vgpus").write_text("0")
        assert module.status() == []
        parameter("vgpus").write_text("3")
        assert len(module.status()) == 3
    assert lib.gpurt_segment_end(handle[0], 0) < 0  # its GPU is another one now
    lib.gpurt_close(handle[0])
    victims.kill()
    victims.wait()
    parameter("vgpus").write_text("1")


def use_partition(gpu: int) -> NoReturn:
    """Uses a GPU for ever, whether it is there or not: memory-intensive work, segments, slices and levels."""
    flags = [0, lib.GPURT_SUBMIT_MEMORY, lib.GPURT_SUBMIT_COMPUTE, lib.GPURT_SUBMIT_MEMORY | lib.GPURT_SUBMIT_PARALLEL]
    while True:
        with suppress(OSError), client_of(DEVICE) as client:
            code, made = client.call(lib.GPURT_IOC_TSG_OPEN, gpu=gpu)
            for turn in range(0 if code else 40):
                about = {"gpu": gpu, "tsg": made.tsg}
                shape = {"level": turn % 3, "slice_ns": lib.GPURT_MIN_SLICE_NS}
                client.code(lib.GPURT_IOC_TSG_SHAPE, **about, **shape)
                client.code(lib.GPURT_IOC_SUBMIT, **about, flags=flags[turn % 4], duration_ns=400_000)
                client.code(lib.GPURT_IOC_BEGIN, gpu=gpu, priority=turn % 5)
                client.code(lib.GPURT_IOC_END, gpu=gpu)
            if not code and gpu % 2:
                client.code(lib.GPURT_IOC_WAIT, gpu=gpu, what=lib.GPURT_WAIT_IDLE, timeout_ns=5_000_000)
        time.sleep(0.001)


def test_partitions_come_and_go_under_load() -> None:
    """Two GPUs in two partitions each; users are killed amid work that slows other partitions down."""
    load("vgpu_units=4,8", "vgpu_cross=1500", "vgpu_theta_ns=1000")
    fork = get_context("fork")
    users = [fork.Process(target=use_partition, args=(gpu,)) for gpu in range(4)]
    for user in users:
        user.start()
    with connect("/dev/gpurt") as control:
        for turn in range(600 if LONG else 30 if THOROUGH else 12):
            count = (4, 1, 3, 0, 2)[turn % 5]
            parameter("vgpus").write_text(str(count))
            assert len(control.status()) == count
            time.sleep(0.02)
            victim = turn % 4
            users[victim].kill()
            users[victim].join()
            users[victim] = fork.Process(target=use_partition, args=(victim,))
            users[victim].start()
        parameter("vgpus").write_text("4")
        for user in users:
            user.kill()
            user.join()
        eventually(lambda: not control.clients())
        assert [(one.tsgs, one.runner_pid) for one in control.status()] == [(0, 0)] * 4
    unload()
    load()


def test_the_module_comes_without_a_gpu() -> None:
    """A virtual GPU executes what any user of the device asks for, in the kernel: it is for trying and testing."""
    unload()
    insert(MODULE)
    with connect("/dev/gpurt") as control:
        assert control.status() == []
    load()


def test_bad_parameters_are_refused() -> None:
    unload()
    for option, why in {
        "vgpu_cross=999": "vgpu_cross=999: 1000 to 64000 thousandths",
        "vgpu_cross=64001": "vgpu_cross=64001: 1000 to 64000 thousandths",
        "vgpu_alpha_ns=10000000001": "vgpu_alpha_ns=10000000001: 10000000000 at most",
        "vgpu_theta_ns=18446744073709551615": "vgpu_theta_ns=18446744073709551615: 10000000000 at most",
        "vgpu_units=0": "vgpu_units: partition 0 has 0 units: 1 or more",
        "vgpu_units=4,0": "vgpu_units: partition 1 has 0 units: 1 or more",
        "policy=9": "policy=9: 0 to 5", "policy=6": "policy=6: 0 to 5", "thread_cpu=4096": "thread_cpu=4096: there is",
        "vgpu_units=4,x": "invalid for parameter `vgpu_units'",
        "vgpus=17": "`17' invalid for parameter `vgpus'", "vgpus=x": "`x' invalid for parameter `vgpus'",
    }.items():  # fmt: skip
        log = KernelLog()
        with pytest.raises(OSError, match="gpurt"):
            insert_gpurt(MODULE, option)
        assert not LOADED.exists(), option
        lines = log.close()
        assert any(re.match(r"gpurt(_vgpu)?: ", line) and re.search(why, line) for line in lines), (option, lines)
    insert(MODULE, "nonsense=1")  # only warned of, as the kernel does with every module
    unload()
    with pytest.raises(DeviceError):
        connect("/dev/gpurt")
    load()
