# SPDX-License-Identifier: GPL-2.0
"""The programs of docs/frameworks.md with the frameworks themselves, on a machine without a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from framework_programs import FAKES, PROGRAMS, SEGMENTS, execute, whole
from framework_signatures import RECORDED, beyond, shown
from framework_sites import site
from library import ROOT

from analysis.model import Platform
from pycontrol.act.run.emulator import Emulator
from pycontrol.machine.placement import fifo_permitted

pytestmark = pytest.mark.skipif(os.environ.get("GPURT_LONG") != "1", reason="uses frameworks: GPURT_LONG=1")
#: PyTorch's stream of a GPU, which the CPU has not, is on the virtual GPU, and so is the work of each layer.
ON_THE_VIRTUAL_GPU = f"""
import sys
sys.path.append({str(FAKES)!r})
import torch, virtual_work
torch.cuda.current_stream = virtual_work.current_stream
torch.nn.modules.module.register_module_forward_hook(lambda *_: virtual_work.current_stream().launch())
"""
#: The driver of GPUs puts its streams and launches on the virtual one.
WITH_THE_DRIVER = f"""
import sys
sys.path.append({str(FAKES)!r})
import virtual_driver
"""
#: Sends the ROS 2 program three messages as soon as it listens.
PUBLISHER = """
import time
import rclpy
from std_msgs.msg import String

rclpy.init()
node = rclpy.create_node("camera")
publisher = node.create_publisher(String, "frames", 10)
for _ in range(20_000):
    if publisher.get_subscription_count():
        break
    time.sleep(0.01)
for _ in range(3):
    publisher.publish(String(data="a frame"))
publisher.wait_for_all_acked()
rclpy.shutdown()
"""
#: Cyclone DDS talks to this machine alone, and does not say that its loopback has no multicast.
LOOPBACK = (
    '<CycloneDDS><Domain><General><Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces>'
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    '<Peers><Peer Address="localhost"/></Peers></Discovery></Domain></CycloneDDS>'
)
#: The third message's callback ends the program, as systemd does.
WITH_A_PUBLISHER = f"""
import os, signal, subprocess, sys, torch
publisher = subprocess.Popen([sys.executable, "-c", {PUBLISHER!r}])
calls, call = [], torch.nn.Linear.__call__
def counted(*arguments):
    calls.append(True)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return call(*arguments)
torch.nn.Linear.__call__ = counted
"""


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        yield str(running.socket)


@pytest.mark.parametrize("name", ["PyTorch", "asyncio"])
def test_pytorch_s_programs(name: str, socket: str) -> None:
    """With PyTorch's tensors, layers and hooks; only the stream and its work are ours."""
    path = site("torch")
    program = ON_THE_VIRTUAL_GPU + PROGRAMS[name].replace('"cuda"', '"cpu"')
    found = whole(execute(program, socket, path))
    assert sum(found) == 3
    assert len(found) == SEGMENTS[name]


def test_pytorch_s_program_on_the_cpu_alone(socket: str) -> None:
    """Nothing is replaced except the names of the device: torch.cpu is a stream, as torch.cuda is."""
    path = site("torch")
    program = PROGRAMS["PyTorch"].replace('"cuda"', '"cpu"').replace("torch.cuda.current_stream", "torch.cpu")
    assert whole(execute(program, socket, path)) == [0, 0, 0]


def test_segments_around_pytorch() -> None:
    """Models, modes, gradients, compilers, workers, threads: see real_torch.py."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/userlib/real_torch.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = site("torch")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout.splitlines()[-1]


def test_numba_s_own_simulator(socket: str) -> None:
    """Its work is done on the CPU: the segments are what there is to see."""
    path = site("numba")
    program = PROGRAMS["Numba"] + "\nassert values.copy_to_host()[63] == 63 * 16\n"
    assert whole(execute(program, socket, path, NUMBA_ENABLE_CUDASIM="1")) == [0, 0, 0]


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The folder of a libcuda.so.1 whose streams and launches are on the virtual GPU."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "libcuda.so.1"]
    subprocess.run([*command, FAKES / "virtual_driver.c"], check=True)
    return tmp_path


@pytest.mark.parametrize("waits", [True, False])
def test_numba_s_program(socket: str, driver: Path, waits: bool) -> None:
    """With Numba's and NVIDIA's compilers and Numba's streams; only the driver is ours."""
    path, toolkit = site("numba"), Path(site("nvvm")) / "nvidia/cu13"
    environment = {
        "NUMBA_CUDA_DRIVER": str(driver / "libcuda.so.1"), "CUDA_HOME": str(toolkit), "NUMBA_ENABLE_CUDASIM": "0",
        "LD_LIBRARY_PATH": f"{driver}:{toolkit}/lib", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    }  # fmt: skip
    program = WITH_THE_DRIVER + PROGRAMS["Numba"]
    if not waits:
        program = program.replace("gpurt.segment(stream=stream)", "gpurt.segment()") + "stream.synchronize()\n"
    found = whole(execute(program, socket, path, **environment))
    assert (found == [1, 1, 1]) == waits
    assert (-1 in found) != waits


def test_pycuda_s_program(socket: str, driver: Path) -> None:
    """With PyCUDA's streams and arguments, and what nvcc makes of the source; only the driver is ours."""
    path = site("pycuda")
    if not shutil.which("nvcc"):
        pytest.skip("needs nvcc")
    environment = {"LD_LIBRARY_PATH": str(driver), "PYCUDA_CACHE_DIR": str(driver)}
    assert whole(execute(WITH_THE_DRIVER + PROGRAMS["PyCUDA"], socket, path, **environment)) == [1, 1, 1]


@pytest.mark.skipif(not fifo_permitted(20), reason="SCHED_FIFO is not permitted")
def test_ros_2_s_program(socket: str) -> None:
    """With rclpy, its middleware and messages, on this machine's loopback; PyTorch is the stand-in."""
    path = f"{site('rclpy')}:{os.environ.get('PYTHONPATH', '')}:{FAKES}"
    program = WITH_A_PUBLISHER + PROGRAMS["ROS 2"] + "\nassert publisher.wait() == 0\n"
    environment = {"ROS_LOCALHOST_ONLY": "0", "CYCLONEDDS_URI": LOOPBACK}
    assert whole(execute(program, socket, path, **environment)) == [1, 1, 1]


def test_cupy_without_a_driver_leaves_no_segment_open(socket: str) -> None:
    """Its streams cannot be made; a stream that fails at the end of a block ends the segment."""
    path = site("cupy")
    program = (
        "import cupy, gpurt\n"
        "try:\n"
        "    with gpurt.segment(stream=cupy.cuda.Stream.null): pass\n"
        "except cupy.cuda.runtime.CUDARuntimeError as error: assert 'Driver' in str(error)\n"
        "else: assert cupy.cuda.is_available()\n"
    )
    assert whole(execute(program, socket, path)) == [0]


@pytest.mark.parametrize("framework", RECORDED)
def test_its_stand_in_accepts_no_call_that_it_refuses(framework: str, driver: Path) -> None:
    """In the installed version; the default suite compares with a record.  PyCUDA is not imported without a driver."""
    names = [f"{framework}.{name}" for name in RECORDED[framework]]
    first, environment = (WITH_THE_DRIVER, {"LD_LIBRARY_PATH": str(driver)}) if framework == "pycuda" else ("", {})
    real = shown(names, site(framework), first, **environment, NUMBA_ENABLE_CUDASIM="0")
    stand_in = shown(names, str(FAKES))
    assert {name: beyond(stand_in[name] or "", real[name] or "") for name in names} == dict.fromkeys(names, "")
