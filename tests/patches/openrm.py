# SPDX-License-Identifier: GPL-2.0
"""NVIDIA's open kernel modules with the patches of this checkout, built once: nvidia.ko, and RM (nv-kernel.o) in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_real_trees import CACHE, copy_of
from trees import SCRIPT, all_texts, patch_driver

#: For tests that need what is built.
LONG = pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="builds nvidia.ko; GPURT_LONG=1 has it run")
KERNEL = "amd64-6.1"
#: Without debug information, which would make the module ten times as large.
FLAGS = ["KCFLAGS=-g0"]
#: Where each is in the tree.
FILES = {"nvidia.ko": "kernel-open/nvidia.ko", "nv-kernel.o": "src/nvidia/_out/Linux_x86_64/nv-kernel.o"}


def key(source: Path) -> str:
    """One word for all that the module depends on."""
    files = [source / "version.mk", CACHE / KERNEL / "version", SCRIPT]
    more = f"{all_texts('nvidia-open')} {source.resolve()} {FLAGS}"
    text = b"".join(one.read_bytes() for one in files) + more.encode()
    return hashlib.sha256(text).hexdigest()[:16]


def patched(source: Path | None, folder: Path) -> Path:
    """A copy of that tree with the patches, in a new folder; skips the test if there is no tree."""
    tree = copy_of(source, "nvidia-open", folder, whole=True)
    code, _, err = patch_driver("nvidia-open", tree)
    assert code == 0, err
    return tree


def built(source: Path, tree: Path) -> Path:
    """The folder with nvidia.ko and nv-kernel.o of the patched tree, which is built if nobody has built it before."""
    if not (CACHE / KERNEL / "build").exists():
        pytest.skip(f"that kernel's headers are not there; scripts/kernel {KERNEL} fetches them")
    folder = CACHE.parent / "nvidia-open" / key(source)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = ["--build", "--kernel", CACHE / KERNEL / "build", "nvidia-open", tree, *FLAGS]
            code, out, err = patch_driver(*command)
            assert code == 0, err[-3000:]
            assert "built for" in out
            for name, place in FILES.items():
                shutil.copy(tree / place, folder / name)
            (folder / "complete").touch()
    return folder


def compile_command(tree: Path) -> str:
    """How RM's files are compiled in that tree, by a shell in src/nvidia, up to the names of files; for a process."""
    done = subprocess.run(
        ["make", "-n", "-B", "-C", tree / "src/nvidia", "OUTPUTDIR=_out/here", "_out/here/kernel_fifo_gpurt.o"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"&& ((?:\S*)cc .*) -c \S+kernel_fifo_gpurt\.c -o ", done.stdout)
    assert found
    return found[1].replace("-mcmodel=kernel", "-mcmodel=small")
