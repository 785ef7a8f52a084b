# SPDX-License-Identifier: GPL-2.0
"""Thunks and wrappers, which depend on how a machine passes parameters, on this machine and on arm64."""

from __future__ import annotations

import subprocess
from pathlib import Path

import arm64
import cuda_forms
import hip_headers
import pytest
from cuda_headers import RUNTIMES, preprocessed, read, runtime
from links import PATIENCE
from machines import FAKES, FLAGS, ROOT
from once import once

PRELOAD = ROOT / "userlib/preload"


@pytest.mark.parametrize("machine", ["native", pytest.param("arm64", marks=pytest.mark.slow(1))])
def test_thunks(machine: str, tmp_path: Path) -> None:
    """They pass on every parameter and result, and count calls of four threads exactly."""
    if machine == "arm64":
        arm64.emulator()
    compiler = {"native": "cc", "arm64": arm64.COMPILER}[machine]
    includes = [f"-I{PRELOAD}", f"-I{ROOT}/userlib/include"]
    program = tmp_path / "thunks"
    command = [compiler, *FLAGS, *includes, FAKES / "thunks.c", PRELOAD / "passed.c", "-pthread", "-o", program]
    subprocess.run(command, check=True)
    if machine == "arm64":
        done = arm64.run(program)
    else:
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "80001 strange\n"), done.stdout + done.stderr


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preload library for arm64."""
    arm64.emulator()

    def build(folder: Path) -> None:
        make = ["make", "-s", "-C", ROOT / "userlib", f"BUILD={folder}", f"CC={arm64.COMPILER}"]
        subprocess.run([*make, f"{folder}/libgpurt-preload.so"], check=True)

    return once(tmp_path_factory, "arm64", build) / "libgpurt-preload.so"


def said(folder: Path, library: Path, name: str, flags: list[str]) -> list[str]:
    """A caller's lines on a driver's library that is written from headers, and on the wrappers in front of it."""
    common = [arm64.COMPILER, "-std=gnu11", "-O0", "-w", *flags]
    shared = ["-fPIC", "-shared", "-Wl,-Bsymbolic", f"-Wl,-soname,{name}", "-o", folder / name]
    subprocess.run([*common, *shared, folder / "library.c"], check=True)
    subprocess.run([*common, folder / "caller.c", "-ldl", "-o", folder / "caller"], check=True)
    environment = {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(library), "GPURT_DEVICE": "/nowhere"}
    done = arm64.run(folder / "caller", **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow(1)
@pytest.mark.parametrize("cuda", [*RUNTIMES])
def test_each_form_of_cuda_gets_what_it_is_given(cuda: str, library: Path, tmp_path: Path) -> None:
    include = runtime(cuda) / "include"
    declared, known = cuda_forms.functions(preprocessed(include)), cuda_forms.forms(read(include))
    (tmp_path / "library.c").write_text(cuda_forms.library(declared, known))
    (tmp_path / "caller.c").write_text(cuda_forms.caller(declared, known))
    lines = said(tmp_path, library, "libcuda.so.1", ["-D__CUDA_API_VERSION_INTERNAL", f"-I{include}"])
    assert [line for line in lines if not line.startswith(("symbol ", "form "))] == []
    assert len(lines) > 300


@pytest.mark.slow(1)
def test_each_function_of_hip_gets_what_it_is_given(library: Path, tmp_path: Path) -> None:
    known = hip_headers.functions()
    (tmp_path / "library.c").write_text(hip_headers.library(known))
    (tmp_path / "caller.c").write_text(hip_headers.caller(known))
    lines = said(tmp_path, library, "libamdhip64.so", hip_headers.flags())
    assert [line for line in lines if not line.startswith("symbol ")] == []
    assert len(lines) > 80
