# SPDX-License-Identifier: GPL-2.0
"""The real libhsakmt, ROCr and HIP, as Debian packages them, make and change queues on the fake /dev/kfd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import FAKES, FLAGS, LONG, FakeGpu, Program, Start, real_time
from once import once
from rocm import HIP, HIP_6, OWN, SID, TRIXIE, Runtime, lacking, libraries, loader, unpacked

from pycontrol.link.control import Control

SHORT = "launch 0 20000"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libamdhip64.so over the real runtime, and a libdrm_amdgpu for newer runtimes."""

    def build(folder: Path) -> None:
        for name, source in (("libamdhip64.so", "rocm.c"), ("drm/libdrm_amdgpu.so.1", "drm_amdgpu.c")):
            (folder / name).parent.mkdir(exist_ok=True)
            shared = ["-fPIC", "-shared", "-Wl,-Bsymbolic", f"-Wl,-soname,{Path(name).name}", "-ldl", "-pthread"]
            subprocess.run(["cc", *FLAGS, FAKES / source, *shared, "-o", folder / name], check=True)

    return once(tmp_path_factory, "rocm", build)


long = pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="sid's packages change; GPURT_LONG=1 has them run")


@pytest.fixture(params=[OWN, TRIXIE, pytest.param(SID, marks=long)], ids=lambda one: one.name)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Each release of ROCr that the tests run."""
    chosen: Runtime = request.param
    return chosen


@pytest.fixture
def rocm(start: Start, shim: Path, built: Path, runtime: Runtime) -> Callable[..., Program]:
    """Starts programs over the real runtime."""
    drm = f"{shim}/drm:" if runtime.suite else ""
    how = loader(runtime, f"{shim}:{built}:{drm}{libraries(runtime.packages, runtime.suite)}")
    return lambda **extra: start(family="hip", **how, **extra)


Rocm = Callable[..., Program]


def test_real_time_work_comes_first(rocm: Rocm, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = rocm(), real_time(plane, rocm())
    background.do(LONG)
    urgent.do(SHORT, "all", SHORT, "all")
    assert background.pid not in gpu.order()
    gpu.finish(background.pid)
    background.do("all")
    assert gpu.order() == [urgent.pid] * 2 + [background.pid]


def test_its_queues_are_made_changed_and_destroyed(rocm: Rocm, runtime: Runtime, plane: Control, gpu: FakeGpu) -> None:
    """ROCr 6.4 has libhsakmt inside, and changes a queue's priority only."""
    background, urgent = rocm(), real_time(plane, rocm())
    background.do("own-queue 100")
    before = len(gpu.groups(background.pid))
    assert before >= 2
    assert gpu.enabled(background.pid)
    urgent.do(LONG)
    eventually(lambda: not any(queue["enabled"] for queue in gpu.groups(background.pid)))
    background.do("own-percentage 40" if runtime.thunk else "own-priority 0")
    background.do("own-queue 100", "own-destroy 0")
    assert len(gpu.groups(background.pid)) == before
    assert not any(queue["enabled"] for queue in gpu.groups(background.pid))
    gpu.finish(urgent.pid)
    urgent.do("all")
    what, wanted = ("percentage", 40) if runtime.thunk else ("priority", 0)
    eventually(lambda: gpu.enabled(background.pid))
    assert sorted(queue[what] for queue in gpu.groups(background.pid))[0] == wanted


def test_its_masks_are_intersected(rocm: Rocm, gpu: FakeGpu) -> None:
    program = rocm(GPURT_CU_MASK="0x3c")
    program.do("own-queue 100", "own-mask 0xf0", "own-runtime-mask 0x1c")
    masks = {int.from_bytes(bytes.fromhex(queue["mask"]), "little") for queue in gpu.groups(program.pid)}
    assert masks == {0x30, 0x1C, 0x3C}  # the last is that of ROCr's own queue
    assert not any(queue["bare"] for queue in gpu.groups(program.pid))


def test_a_gpu_by_the_runtimes_own_selection(rocm: Rocm, depth: Callable[..., int]) -> None:
    program = rocm(ROCR_VISIBLE_DEVICES="1")
    program.do("launch 0 100000")
    assert (depth(program, 0), depth(program, 1)) == (0, 1)


def test_a_container_with_one_gpu(rocm: Rocm, depth: Callable[..., int], gpu: FakeGpu) -> None:
    gpu.machine({"id": 4711, "hidden": True}, {"id": 4712})
    program = rocm()
    program.do("launch 0 100000")
    assert (depth(program, 0), depth(program, 1)) == (0, 1)


@pytest.mark.parametrize(
    ("runtime", "packages"), [(OWN, HIP), pytest.param(SID, HIP_6, marks=long)], ids=["5.2.3", "6.4.3"]
)
def test_the_real_hip(
    packages: tuple[str, ...], runtime: Runtime, start: Start, shim: Path, built: Path, host: Path, plane: Control,
    gpu: FakeGpu, tmp_path: Path,
) -> None:  # fmt: skip
    """Its queue is made before the first launch, and is switched.  Then it waits for the GPU to copy HIP's kernels."""
    (library,) = unpacked(packages[0], runtime.suite).glob("usr/lib/*/libamdhip64.so.?.*.*")
    drm = f"{shim}/drm:" if runtime.suite else ""
    path = f"{tmp_path}:{built}:{drm}{libraries((*packages, *runtime.packages), runtime.suite)}"
    if not runtime.suite and (missing := lacking(library, path)):
        pytest.skip(f"HIP needs {', '.join(missing)}")
    (tmp_path / "libamdhip64.so").symlink_to(library)
    program = Program(built, gpu, host, "", "hip", loader(runtime, path))
    try:
        program.send("launch 0 1000")
        eventually(lambda: gpu.groups(program.pid))
        assert gpu.enabled(program.pid)
        real_time(plane, start(family="hip")).do(LONG)
        eventually(lambda: not any(queue["enabled"] for queue in gpu.groups(program.pid)))
    finally:
        program.kill()
