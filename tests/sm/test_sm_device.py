# SPDX-License-Identifier: GPL-2.0
"""gpurt_sm.h for GPUs: what clang and nvcc make of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sm_build import EXAMPLE, HERE, INCLUDE, amdgcn, compiler, ptx, run

KERNEL = HERE / "kernel.cu"


def check_ptx(text: str) -> None:
    """One read of %smid in the kernel, before any loop; an addition for each of what is counted; barriers."""
    assert text.count("%smid") == 1
    assert "call" not in text  # all is in the kernel, so that this is what a block executes
    assert len(re.findall(r"\batom\.(?:global\.)?add\.u64", text)) == 1
    assert len(re.findall(r"\batom\.(?:global\.)?add\.u32", text)) == 4
    assert len(re.findall(r"\bbar(?:rier)?\.sync\b", text)) >= 2
    lines = [line.partition("//")[0] for line in text.splitlines()]  # clang 19 has comments behind labels
    at = next(number for number, line in enumerate(lines) if "%smid" in line)
    labels = {line.strip().rstrip(":"): number for number, line in enumerate(lines)
              if re.match(r"\s*\$?\w+:\s*$", line)}  # fmt: skip
    jumps = [(number, labels[target]) for number, line in enumerate(lines)
             for target in re.findall(r"\bbra(?:\.uni)?\s+(\$?\w+);", line)]  # fmt: skip
    assert jumps
    # No way leads from the read back to it.
    seen, left = set(), [at + 1]
    while left:
        number = left.pop()
        if number in seen or number >= len(lines):
            continue
        seen.add(number)
        line = lines[number]
        left += [target for source, target in jumps if source == number]
        if not re.match(r"\s*(ret|exit|bra(\.uni)?\s)", line):
            left.append(number + 1)
    assert at not in seen


@pytest.mark.parametrize(("arch", "threads"), [("sm_61", 1024), ("sm_75", 512), ("sm_86", 768)])
def test_clang_builds_ptx_that_reads_the_sm_once(tmp_path: Path, arch: str, threads: int) -> None:
    text = ptx(KERNEL, tmp_path / "kernel.ptx", arch, threads)
    check_ptx(text)
    assert re.search(rf"\.maxntid {threads}(, 1, 1)?$", text, re.MULTILINE)


@pytest.mark.parametrize(("arch", "register"), [("gfx906", "HW_REG_HW_ID, 8, 8"), ("gfx90a", "HW_REG_HW_ID, 8, 8"),
                                                ("gfx1030", "HW_REG_HW_ID1, 10, 21")])  # fmt: skip
def test_clang_builds_amdgcn_that_reads_the_cu_once(tmp_path: Path, arch: str, register: str) -> None:
    text = amdgcn(KERNEL, tmp_path / "kernel.s", arch, 1024)
    assert [line for line in text.splitlines() if "s_getreg_b32" in line and f"hwreg({register})" in line]
    assert text.count("s_getreg_b32") == 1
    assert text.count("global_atomic_add_x2") == 1
    assert text.count("s_barrier") >= 2


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_nvcc_builds_the_kernel_and_the_example(tmp_path: Path, arch: str) -> None:
    nvcc = compiler("nvcc")
    strict = ("-Werror", "all-warnings", f"-arch={arch}", f"-I{INCLUDE}")
    done = run(nvcc, *strict, "-DTHREADS=512", "-ptx", KERNEL, "-o", tmp_path / "kernel.ptx")
    assert not done.returncode, done.stderr
    check_ptx((tmp_path / "kernel.ptx").read_text())
    done = run(nvcc, *strict, "-c", EXAMPLE, "-o", tmp_path / "example.o")
    assert not done.returncode, done.stderr
