# SPDX-License-Identifier: GPL-2.0
"""Patched nvidia.ko in a booted kernel, built from the trees that GPURT_OPENRM_SOURCE names; its card is a fake.

With GPURT_LONG only: to build RM takes ten minutes of CPU time.  What was built stays in the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from kernels import HERE, ROOT, explain, helper_module
from test_matrix import failures, run_inside
from test_real_trees import CACHE, OPEN, copy_of
from trees import SCRIPT, patch_driver

KERNEL = "amd64-6.1"
INSIDE = "tests/kernel/guest/test_nvidia_card.py"
#: Without debug information, which would make the module ten times as large.
FLAGS = ["KCFLAGS=-g0"]

pytestmark = [
    pytest.mark.slow(15),
    pytest.mark.timeout(14_400),
    pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="builds nvidia.ko; GPURT_LONG=1 has it run"),
]


def key(source: Path) -> str:
    """Of all that nvidia.ko depends on."""
    patches = sorted((ROOT / "kmod/patches/nvidia-open").rglob("*.patch"))
    files = [source / "version.mk", CACHE / KERNEL / "version", SCRIPT, *patches]
    text = b"".join(one.read_bytes() for one in files) + f"{source.resolve()} {FLAGS}".encode()
    return hashlib.sha256(text).hexdigest()[:16]


def driver(source: Path, scratch: Path) -> Path:
    """nvidia.ko of that tree, with the patches of this checkout."""
    built = CACHE.parent / "nvidia-open" / f"{key(source)}.ko"
    built.parent.mkdir(parents=True, exist_ok=True)
    with built.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            tree = copy_of(source, "nvidia-open", scratch / "tree", whole=True)
            code, out, err = patch_driver("--build", "--kernel", CACHE / KERNEL / "build", "nvidia-open", tree, *FLAGS)
            assert code == 0, err[-3000:]
            assert "built for" in out
            shutil.copy(tree / "kernel-open/nvidia.ko", built.with_suffix(".new"))
            built.with_suffix(".new").rename(built)
    return built


def needed(module: Path) -> list[Path]:
    """Modules of that kernel which have to be loaded before, in that order."""
    names = subprocess.run(["modinfo", "-F", "depends", module], capture_output=True, text=True, check=True).stdout
    found: list[Path] = []
    for name in names.strip().split(","):
        command = ["modprobe", "-d", CACHE / KERNEL / "root", "-S", (CACHE / KERNEL / "version").read_text().strip(),
                   "--show-depends", name]  # fmt: skip
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() if name else []
        found += [Path(line.split()[1]) for line in lines if line.startswith("insmod ")]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("_driver", "source"), OPEN)
def test_nvidia_ko_lives_with_gpurt(_driver: str, source: Path | None, tmp_path: Path) -> None:
    if source is None:
        pytest.skip("GPURT_OPENRM_SOURCE names no tree of open-gpu-kernel-modules; no package has all of them")
    if not shutil.which("modprobe"):
        pytest.skip("needs modprobe and modinfo (kmod)")
    fake = helper_module(HERE / "guest/fake_pci", KERNEL)
    programs = tmp_path / "programs"
    programs.mkdir()
    module = driver(source, tmp_path)
    shutil.copy(module, programs / "nvidia.ko")
    shutil.copy(fake, programs)
    others = needed(module)
    for other in others:
        shutil.copy(other, programs)
    (programs / "needed").write_text("\n".join(one.name for one in others))
    out = tmp_path / "out"
    run = run_inside(KERNEL, "--append", "mem=1024M", "--with", programs, "--out", out, INSIDE)
    assert (out / "junit.xml").exists(), explain(run)
    failed = failures(out / "junit.xml")
    assert not failed, "\n".join(f"{test}:\n{how}" for test, how in failed.items())
    assert (run.returncode, "skipped" in run.stdout.splitlines()[-1]) == (0, False), explain(run)
