# SPDX-License-Identifier: GPL-2.0
"""The manual's tutorial, on a fake driver: its program is compiled, run unmodified, and its system analysed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from machines import FakeGpu
from manual_pages import MANUAL, carry_out

from gpurt.units import parse_time

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The parts of CUDA's header that the tutorial's program needs.  The fake library loads no files.
HEADER = """#include <stddef.h>
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef void *CUmodule, *CUfunction;
typedef int CUresult, CUdevice;
CUresult cuInit(unsigned int), cuDeviceGet(CUdevice *, int), cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuModuleLoadData(CUmodule *, const void *), cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuCtxSynchronize(void), cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
						unsigned, CUstream, void **, void **);
#define cuCtxCreate cuCtxCreate_v2
#define cuModuleLoad cuModuleLoadData
"""


@pytest.mark.slow
def test_the_tutorial(built: Path, gpu: FakeGpu, host: Path, tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text("570.86.15\n")
    (tmp_path / "cuda.h").write_text(HEADER)
    # The programs need the fake driver, and not the compiler or the shell; they are children of `gpurt run`.
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GPURT_DEVICE": str(host),
        "GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "LD_LIBRARY_PATH": str(built), "FAKE_GPU": str(gpu.path),
        "LIBRARY_PATH": str(built), "CPATH": str(tmp_path), "FAKE_NVIDIA_VERSION": str(version),
        "FAKE_FAMILY": "nvidia", "LD_PRELOAD": str(built / "libdriver.so"),
    }  # fmt: skip
    executed = carry_out(MANUAL / "tutorial.md", tmp_path, environment)
    assert sum("gpurt run --auto" in one for one in executed) == 2
    assert sum(group["pid"] > 0 for group in gpu.ask()["groups"]) == 0  # all programs are gone
    assert len(gpu.order()) == 40 + 80  # frames of two runs, and of the four that are measured
    (measured,) = tomllib.loads((tmp_path / "detector.toml").read_text())["task"]
    assert [set(one) for one in measured["segments"]] == [{"cpu"}, {"misc", "gpu"}]
    assert (measured["priority"], measured["segments"][1]["misc"]) == (20, "?")
    assert parse_time(measured["segments"][1]["gpu"]["worst"]) > parse_time(measured["segments"][1]["gpu"]["best"])
