# SPDX-License-Identifier: GPL-2.0
"""Each wrapper passes on what it gets, in every form that CUDA's headers have; what the real CUDA runtimes look up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cuda_forms
import pytest
import wrappers
from cuda_headers import RUNTIMES, preprocessed, read, runtime
from links import PATIENCE
from machines import ROOT
from once import once

CUDA_ERROR_NOT_FOUND = 500


@pytest.fixture(scope="module", params=[*RUNTIMES])
def cuda(request: pytest.FixtureRequest) -> Path:
    """A CUDA runtime."""
    return runtime(request.param)


@pytest.fixture(scope="module")
def strict(cuda: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that is written from the headers, and with its caller."""
    return once(tmp_path_factory, f"strict-{cuda.name}", lambda folder: build(folder, cuda))


def build(folder: Path, cuda: Path) -> None:
    include = cuda / "include"
    declared = cuda_forms.functions(preprocessed(include))
    known = cuda_forms.forms(read(include))
    (folder / "library.c").write_text(cuda_forms.library(declared, known))
    (folder / "caller.c").write_text(cuda_forms.caller(declared, known))
    flags = ["-std=gnu11", "-O0", "-w", "-D__CUDA_API_VERSION_INTERNAL", "-I", include]
    shared = ["-shared", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1"]
    for name, target, link in (("library", "libcuda.so.1", shared), ("caller", "caller", ["-ldl"])):
        subprocess.run(["cc", *flags, "-fPIC", "-c", f"{name}.c"], cwd=folder, check=True)  # as ccache knows it
        subprocess.run(["cc", f"{name}.o", *link, "-o", target], cwd=folder, check=True)


def test_each_form_gets_what_it_is_given(cuda: Path, strict: Path, built: Path) -> None:
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(strict), "LD_PRELOAD": str(built / "libgpurt-preload.so"),
        "GPURT_DEVICE": "/nowhere",
    }  # fmt: skip
    done = subprocess.run(
        [strict / "caller"], capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE
    )
    said = done.stdout.splitlines()
    assert [line for line in said if not line.startswith(("symbol ", "form "))] == []
    assert done.returncode == 0, done.stderr
    table = wrappers.parse_wrappers((ROOT / "userlib/preload/cuda.table").read_text())
    headers = read(cuda / "include")
    symbols = {row.symbol + ending for row in table.rows for ending in ("", row.threads)}
    assert {line.split()[1] for line in said if line.startswith("symbol ")} == symbols & set(headers.symbols)
    wrapped = {row.name for row in table.rows}
    wanted = {f"form {name} {since} {int(per)}" for name, since, per, _ in cuda_forms.forms(headers) if name in wrapped}
    assert {line for line in said if line.startswith("form ")} == wanted


RUNTIME = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
version, devices = ctypes.c_int(), ctypes.c_int()
print(runtime.cudaRuntimeGetVersion(ctypes.byref(version)), version.value)
print(runtime.cudaGetDeviceCount(ctypes.byref(devices)))
"""


def test_the_table_knows_what_the_real_runtime_looks_up(cuda: Path, strict: Path, built: Path, tmp_path: Path) -> None:
    """It looks up all functions when it is first used.  Then it asks for what has no names, and the fake has none.

    CUDA 13.5's runtime also looks up functions that no header has (cuSubgridCreate): they are passed on and counted.
    """
    asked = tmp_path / "asked"
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(strict), "GPURT_PRELOAD": str(built / "libgpurt-preload.so"),
        "FAKE_ASKED": str(asked),
    }  # fmt: skip
    (library,) = (cuda / "lib").glob("libcudart.so.*")
    program = [sys.executable, "-c", RUNTIME, str(library)]
    command = [sys.executable, "-m", "pycontrol", "--device", "/nowhere", "run", "--auto", "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
    version, devices = done.stdout.splitlines()
    assert version.split()[0] == "0", done.stderr
    assert int(devices) == CUDA_ERROR_NOT_FOUND
    table = wrappers.parse_wrappers((ROOT / "userlib/preload/cuda.table").read_text())
    wrapped, declared = {row.name for row in table.rows}, read(cuda / "include").names()
    looked_up = [line.rsplit(" ", 2) for line in asked.read_text().splitlines()]
    assert len({name for name, _, _ in looked_up} & wrapped) > 60
    unknown = {
        (name, version) for name, version, _ in looked_up
        if name in declared - set(table.passing)
        and not any(row.name == name and (row.since or 0) <= int(version) < table.until(row) for row in table.rows)
    }  # fmt: skip
    assert unknown == set()
