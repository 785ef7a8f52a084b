# SPDX-License-Identifier: GPL-2.0
"""The whole of patched amdgpu.ko, built once from each tree of Linux that is there, and loaded beside gpurt.ko."""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from kernels import HERE, ROOT, explain, helper_module
from test_matrix import failures, run_inside
from test_nvidia_module import needed
from test_real_trees import CACHE, CASES, FOLDERS, amd64_headers, copy_of
from trees import SCRIPT, all_texts, patch_driver

pytestmark = [
    pytest.mark.slow(30),
    pytest.mark.timeout(14_400),
    pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="builds amdgpu.ko; GPURT_LONG=1 has it run"),
]
INSIDE = "tests/kernel/guest/test_amdgpu_whole.py"


def built(source: Path, folder: Path) -> tuple[Path, str]:
    """The module, built in that new folder if nobody has built it before: ten minutes of CPU time; and its kernel."""
    headers = Path(amd64_headers(source)[1])
    kernel = headers.parent
    files = [source / "Makefile", kernel / "version", SCRIPT]
    text = b"".join(one.read_bytes() for one in files) + f"{all_texts('amdgpu')} {source.resolve()}".encode()
    module = CACHE.parent / "amdgpu" / f"{hashlib.sha256(text).hexdigest()[:16]}.ko"
    module.parent.mkdir(parents=True, exist_ok=True)
    with module.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.exists():
            tree = copy_of(source, "amdgpu", folder, whole=True)
            code, out, err = patch_driver("--build", "--kernel", headers, "amdgpu", tree)
            assert code == 0, err[-3000:]
            assert "built for" in out
            shutil.copy(tree / FOLDERS["amdgpu"] / "amdgpu/amdgpu.ko", module.with_suffix(".new"))
            module.with_suffix(".new").rename(module)
    return module, kernel.name


def port_probe(kernel: str) -> Path:
    """A module that asks the driver's port."""
    folder = ROOT / "build/port_probe"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*(HERE / "guest/port_probe").iterdir(), ROOT / "kmod/drv/port.h"):
        shutil.copy(file, folder)
    return helper_module(folder, kernel)


@pytest.mark.parametrize(("_driver", "source"), [case for case in CASES if case.values[0] == "amdgpu"])
def test_the_whole_module_is_built_and_lives_with_gpurt(_driver: str, source: Path, tmp_path: Path) -> None:
    if not shutil.which("modprobe"):
        pytest.skip("needs modprobe and modinfo (kmod)")
    if not (source / FOLDERS["amdgpu"]).is_dir():
        pytest.skip(f"the sources of Linux are not there ({source})")
    module, kernel = built(source, tmp_path / "tree")
    assert b"amdgpu_gpurt_port" in module.read_bytes()
    assert module.stat().st_size < 40_000_000
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    shutil.copy(module, programs / "amdgpu.ko")
    shutil.copy(port_probe(kernel), programs)
    others = needed(module, CACHE / kernel)
    for file in others:
        text = file.read_bytes()
        (programs / f"{file.name.split('.')[0]}.ko").write_bytes(
            lzma.decompress(text) if file.suffix == ".xz" else text
        )
    (programs / "needed").write_text("\n".join(f"{one.name.split('.')[0]}.ko" for one in others))
    run = run_inside(kernel, "--with", programs, "--out", out, INSIDE)
    assert (out / "junit.xml").exists(), explain(run)
    failed = failures(out / "junit.xml")
    assert not failed, "\n".join(f"{test}:\n{how}" for test, how in failed.items())
    assert run.returncode == 0, explain(run)
    cases = list(ET.parse(out / "junit.xml").getroot().iter("testcase"))
    assert [len(case) for case in cases] == [0, 0]  # none is skipped
