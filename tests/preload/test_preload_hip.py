# SPDX-License-Identifier: GPL-2.0
"""The table of HIP's functions against Debian's headers and library, and what the functions do to segments."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import hip_headers
import pytest
import wrappers
from links import PATIENCE
from machines import FLAGS, ROOT, FakeGpu, Start

from pycontrol.observe.doctor import NEWEST_HIP

Depth = Callable[..., int]
TABLE = ROOT / "userlib/preload/hip.table"


@pytest.fixture(scope="module")
def table() -> wrappers.Table:
    return wrappers.parse_wrappers(TABLE.read_text())


def symbols(table: wrappers.Table) -> dict[str, str]:
    """The symbols that have wrappers, and how their parameters are passed."""
    return {row.symbol + ending: row.letters for row in table.rows for ending in {"", row.threads}}


def expect_known(table: wrappers.Table, found: set[str]) -> None:
    """The functions of this distribution's HIP are in the table.  `gpurt doctor` tells of a release that is newer."""
    unknown = {symbol.removesuffix("_spt") for symbol in found} - {row.name for row in table.rows} - set(table.passing)
    if unknown and hip_headers.version() > NEWEST_HIP:
        pytest.skip(f"the distribution's HIP is newer than the table; add to hip.table: {', '.join(sorted(unknown))}")
    assert unknown == set()


def test_every_function_of_the_headers_is_classified(table: wrappers.Table) -> None:
    declared, wrapped = hip_headers.declared(), symbols(table)
    assert len(declared) > 330
    expect_known(table, set(declared))
    working = {symbol for symbol in declared if symbol.removesuffix("_spt") not in table.passing}
    assert {symbol for symbol in working if symbol.endswith("_spt")} - set(wrapped) == set()
    assert {symbol: letters for symbol, letters in declared.items() if wrapped.get(symbol, letters) != letters} == {}


def test_every_function_of_the_library_is_classified(table: wrappers.Table) -> None:
    exported = hip_headers.exported()
    assert len(exported) > 350
    expect_known(table, exported)


def test_doctor_knows_up_to_which_hip_the_table_goes(table: wrappers.Table) -> None:
    major, minor = NEWEST_HIP
    assert table.newest == 1000 * major + minor


LAYOUTS = """
#define SAME(ours, theirs) _Static_assert((unsigned long)(ours) == (unsigned long)(theirs), #theirs)
#define AT(us, our, them, their) SAME(offsetof(struct us, our), offsetof(them, their))
SAME(sizeof(struct dim), sizeof(dim3));
SAME(sizeof(struct extent), sizeof(hipExtent));
SAME(sizeof(struct pitched), sizeof(hipPitchedPtr));
SAME(sizeof(struct hip_launch_params), sizeof(hipLaunchParams));
AT(hip_launch_params, stream, hipLaunchParams, stream);
SAME(2, hipMemcpyDeviceToHost);
SAME(2, hipStreamPerThread);
"""


def test_the_layouts_that_the_library_reads() -> None:
    code = f'#include <stddef.h>\n#include <hip/hip_runtime_api.h>\n#include "hip_layouts.h"\n{LAYOUTS}'
    command = ["cc", *FLAGS, "-w", *hip_headers.flags(), "-fsyntax-only", "-I", ROOT / "userlib/preload", "-xc", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_function_gets_what_it_is_given(built: Path, tmp_path: Path, table: wrappers.Table) -> None:
    """Over a library that is written from the headers."""
    known = hip_headers.functions()
    (tmp_path / "library.c").write_text(hip_headers.library(known))
    (tmp_path / "caller.c").write_text(hip_headers.caller(known))
    flags = ["-std=gnu11", "-O0", "-w", *hip_headers.flags()]
    shared = ["-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,-soname,libamdhip64.so", "-o", tmp_path / "libamdhip64.so"]
    subprocess.run(["cc", *flags, *shared, tmp_path / "library.c"], check=True)
    subprocess.run(["cc", *flags, tmp_path / "caller.c", "-ldl", "-o", tmp_path / "caller"], check=True)
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": str(built / "libgpurt-preload.so"),
        "GPURT_DEVICE": "/nowhere",
    }  # fmt: skip
    done = subprocess.run(
        [tmp_path / "caller"], capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE
    )
    said = done.stdout.splitlines()
    assert [line for line in said if not line.startswith("symbol ")] == []
    assert done.returncode == 0, done.stderr
    assert {line.removeprefix("symbol ") for line in said} == set(symbols(table)) & set(known)


WORK = ["hipDrvMemcpy3D", "hipExtModuleLaunchKernel", "hipGraphLaunch", "hipLaunchByPtr", "hipLaunchCooperativeKernel",
        "hipLaunchKernelExC", "hipLaunchKernel_spt", "hipMemcpy2DAsync", "hipMemcpyPeer", "hipMemcpyToSymbolAsync",
        "hipMemsetD32Async", "hipStreamWriteValue64"]  # fmt: skip


@pytest.mark.parametrize("how", ["call", "proc"])
def test_work_begins_a_segment(how: str, start: Start, depth: Depth) -> None:
    program = start(family="hip")
    for name in WORK:
        program.do(f"{how}-{name}")
        assert depth(program) == 1, name
        program.do("all")
        assert depth(program) == 0, name


@pytest.mark.parametrize(
    ("size", "kind", "left"), [(1000, 2, 0), (1000, 1, 1), (1000, 4, 1), (0, 2, 1)],
    ids=["download", "upload", "any-direction", "nothing"],
)  # fmt: skip
def test_what_a_copy_proves(size: int, kind: int, left: int, start: Start, depth: Depth, gpu: FakeGpu) -> None:
    program = start(family="hip")
    program.do("launch 0 100000", f"copy {size} {kind}")
    assert depth(program) == left


@pytest.mark.parametrize("how", ["call", "proc"])
def test_a_function_that_is_newer_is_counted(how: str, start: Start, depth: Depth) -> None:
    program = start(family="hip")
    program.do(f"{how}-hipNewerThanTheTable", f"{how}-hipNewerThanTheTable")
    assert depth(program) == 0
    program.do("all")
    assert "2 calls of functions that are not known" in program.quit().splitlines()[-1]


def test_the_library_leaves_no_error_of_its_own(start: Start, depth: Depth) -> None:
    """Before the first launch it queries the default stream, which is busy here."""
    program = start(family="hip")
    program.do("call-hipNewerThanTheTable", "launch 0 1000", "call-hipPeekAtLastError")
    assert depth(program) == 1
