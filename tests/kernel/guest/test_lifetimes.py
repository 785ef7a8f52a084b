# SPDX-License-Identifier: GPL-2.0
"""Clients that die at any instant, and a module that comes and goes under load."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loading import MODULE, PARAMETERS, load, unload

from gpurt._gpurt import ffi, lib
from gpurt.errors import DeviceError
from pycontrol.live.control import Control, connect

LONG = bool(os.environ.get("GPURT_LONG"))
PATIENCE = 5500 if LONG else 550  # s
#: One kernel is tried hard, the others only for what may differ between kernels.
THOROUGH = LONG or os.environ.get("GPURT_TEST_KERNEL") == "amd64-6.1"
USER = """
import sys, time
from gpurt._gpurt import ffi, lib
handle = ffi.new("struct gpurt_handle **")
while lib.gpurt_open(handle, b"/dev/gpurt"):
    time.sleep(0.001)
lib.gpurt_segment_begin(handle[0], 0, 0)
print("in", flush=True)
time.sleep(100)
"""


@pytest.mark.timeout(PATIENCE + 50)
@pytest.mark.parametrize(
    "options", [[], ["vgpu_alpha_ns=300000", "vgpu_theta_ns=100000"], ["vgpu_sleeps=1"], ["policy=5"]]
)
def test_the_gpu_is_handed_on_whenever_its_owner_is_killed(
    compiled: Path, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    load(*options)
    rounds = 10_000 if LONG else 500 if THOROUGH and not options else 50
    command = [compiled / "killed", str(rounds), "1", *(["boosted"] if "policy=5" in options else [])]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, run.stdout
    with capfd.disabled():
        print(f" {run.stdout.strip()}", flush=True)
    with connect("/dev/gpurt") as control:
        (status,) = control.status()
        assert (status.clients, status.tsgs, status.runner_pid) == (0, 0, 0)
    unload()
    load()


SPAWNED = """
import os, select, sys
from links import DeviceClient
from gpurt._gpurt import lib
client = DeviceClient.__new__(DeviceClient)
client.fd = 9
poll = select.poll()
poll.register(9)
assert poll.poll(0) == [(9, select.POLLERR)]
os._exit(-client.code(lib.GPURT_IOC_BEGIN))
"""


@pytest.mark.skipif(not THOROUGH, reason="what inherits a descriptor is asked for in amd64-6.1")
def test_a_program_cannot_use_a_descriptor_that_was_opened_before_it_was_executed(module: Control) -> None:
    """posix_spawn() opens it in a process that shares the memory of this one, which stays."""
    opens = [(os.POSIX_SPAWN_OPEN, 9, "/dev/gpurt", os.O_RDWR, 0)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", SPAWNED], environment, file_actions=opens)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ESTALE
    assert module.status()[0].clients == 0


def test_the_module_stays_while_it_is_used(module: Control) -> None:
    with subprocess.Popen([sys.executable, "-c", USER], stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"in\n"
        refused = subprocess.run(["rmmod", "gpurt"], capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "in use" in refused.stderr
        assert module.status()[0].clients == 1
        user.kill()


def test_the_module_comes_and_goes_under_load(compiled: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At every instant somebody tries to open it, to use it, and to ask it things."""
    times = 1_000 if LONG else 40 if THOROUGH else 5
    users = [
        subprocess.Popen([sys.executable, "-c", OPENER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    gone = 0
    try:
        for _ in range(times):
            with capfd.disabled():  # a machine that prints nothing for long counts as hung
                print(end=".", flush=True)
            deadline = time.monotonic() + 200
            while subprocess.run(["rmmod", "gpurt"], capture_output=True, check=False).returncode:
                assert time.monotonic() < deadline, "it is never free"
            gone += 1
            load()
    finally:
        for user in users:
            user.kill()
            user.wait()
    with capfd.disabled():
        print(f" the module was removed and loaded {gone} times under load", flush=True)
    assert gone == times
    assert all(user.returncode == -signal.SIGKILL for user in users)


OPENER = """
import time
from gpurt._gpurt import ffi, lib
from pycontrol.live.control import connect
from gpurt.errors import GpurtError
handle = ffi.new("struct gpurt_handle **")
while True:
    if not lib.gpurt_open(handle, b"/dev/gpurt"):
        lib.gpurt_segment_begin(handle[0], 0, 0)
        lib.gpurt_segment_end(handle[0], 0)
        lib.gpurt_close(handle[0])
    try:
        with connect("/dev/gpurt") as control:
            control.status()
    except (GpurtError, OSError):
        pass
    time.sleep(0.002)
"""


def test_gpus_come_and_go_under_load(module: Control, compiled: Path) -> None:
    """Unregistering a driver ends its clients' calls, and never a kernel."""
    victims = subprocess.Popen([compiled / "killed", "100000"], stdout=subprocess.DEVNULL)
    handle = ffi.new("struct gpurt_handle **")
    assert lib.gpurt_open(handle, b"/dev/gpurt") == 0
    assert lib.gpurt_segment_begin(handle[0], 0, 0) >= 0
    for _ in range(50 if THOROUGH else 10):
        (PARAMETERS / "vgpus").write_text("0")
        assert module.status() == []
        (PARAMETERS / "vgpus").write_text("3")
        assert len(module.status()) == 3
    assert lib.gpurt_segment_end(handle[0], 0) < 0  # its GPU is another one now
    lib.gpurt_close(handle[0])
    victims.kill()
    victims.wait()
    (PARAMETERS / "vgpus").write_text("1")


def test_the_module_comes_without_a_gpu() -> None:
    """A virtual GPU executes what any user of the device asks for, in the kernel: it is for trying and testing."""
    unload()
    subprocess.run(["insmod", MODULE], check=True)
    with connect("/dev/gpurt") as control:
        assert control.status() == []
    load()


def test_bad_parameters_are_refused() -> None:
    unload()
    for options in (["policy=9"], ["policy=6"], ["vgpus=17"], ["vgpus=x"], ["thread_cpu=4096"], ["nonsense=1"]):
        refused = subprocess.run(["insmod", MODULE, *options], capture_output=True, check=False)
        loaded = PARAMETERS.parent.exists()
        if loaded:
            unload()
        # an unknown parameter is only warned of, as the kernel does with every module
        assert loaded == (options == ["nonsense=1"]), options
        assert (refused.returncode == 0) == loaded
    with pytest.raises(DeviceError):
        connect("/dev/gpurt")
    load()
