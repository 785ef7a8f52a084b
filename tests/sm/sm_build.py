# SPDX-License-Identifier: GPL-2.0
"""Compilers for gpurt_sm.h: the host's, and clang for NVIDIA's and AMD's GPUs without their headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cuda_headers import installed

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/sm"
INCLUDE = ROOT / "userlib/include"
EXAMPLE = ROOT / "userlib/examples/gpurt_sm.cu"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
PATIENCE = 1200


def compiler(name: str) -> str:
    """The compiler's path; skips without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def built(source: Path, output: Path, *options: str | Path) -> Path:
    """A program for this machine, compiled without a warning.  ``options`` stand before the header's own folder."""
    command = (compiler("g++"), *options, "-pthread")
    folders = (f"-I{INCLUDE}", f"-I{HERE}")
    alone = ("-std=c++11", "-O1", "-g", *WARNINGS, *folders, "-x", "c++", "-c", source)  # as ccache knows it
    for words in ((*alone, "-o", f"{output}.o"), (f"{output}.o", "-o", output)):
        done = run(*command, *words)
        assert not done.returncode, done.stderr
    return output


def cuda_include() -> Path:
    """The folder with CUDA's headers; skips without them."""
    found = installed()
    if not found:
        pytest.skip("needs CUDA's headers (cuda.h)")
    return found[-1]


def fake_driver(folder: Path) -> tuple[str, ...]:
    """Compiles the fake libcuda.so.1 into the folder; returns the options to compile and link with it."""
    options = (*WARNINGS, f"-I{cuda_include()}", "-pthread")
    library = folder / "libcuda.so.1"
    done = run(compiler("cc"), "-std=gnu11", *options, "-shared", "-fPIC", HERE / "cuda_fake.c",
               "-Wl,-soname,libcuda.so.1", "-o", library)  # fmt: skip
    assert not done.returncode, done.stderr
    return (*options, f"-I{INCLUDE}", str(library), f"-Wl,-rpath,{folder}")


def ptx(source: Path, output: Path, arch: str, threads: int) -> str:
    """The code that clang makes of a CUDA kernel, for an architecture such as sm_70."""
    options = (f"--cuda-gpu-arch={arch}", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version")
    _device("cuda", options, source, output, threads)
    return output.read_text()


def amdgcn(source: Path, output: Path, arch: str, threads: int) -> str:
    """The code that clang makes of a HIP kernel, for an architecture such as gfx90a."""
    _device("hip", (f"--offload-arch={arch}", "-nogpuinc", "-nogpulib"), source, output, threads)
    return output.read_text()


def _device(language: str, options: tuple[str, ...], source: Path, output: Path, threads: int) -> None:
    # Without -std=c++ GCC 13's headers have a __float128, which Ubuntu's clang 18 refuses for a GPU.
    done = run(compiler("clang++"), "-x", language, "-std=c++14", "--cuda-device-only", *options, "-O2", "-S",
               *WARNINGS, f"-DTHREADS={threads}", f"-I{INCLUDE}", source, "-o", output)  # fmt: skip
    if "No available targets" in done.stderr or "unknown target triple" in done.stderr:
        pytest.skip(f"this clang has no target for {language}")
    assert not done.returncode, done.stderr
