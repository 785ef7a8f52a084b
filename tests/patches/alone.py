# SPDX-License-Identifier: GPL-2.0
"""Parts of gpurt.ko in user space, between a few lines that stand for the kernel: adapter/*.c."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from trees import ROOT

HERE = ROOT / "tests/patches/adapter"


def code_of(*files: str) -> str:
    """These files of kmod as one text without what they include of the kernel."""
    texts = [(ROOT / "kmod" / name).read_text() for name in files]
    return '#include "uapi/gpurt.h"\n' + "\n".join(re.sub(r"^#include .*\n", "", text, flags=re.M) for text in texts)


def run(harness: str, code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Compiles the harness, which includes the code as HARNESS.inc, with sanitizers, and runs it."""
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler (gcc)")
    (folder / f"{harness}.inc").write_text(code)
    flags = ["-std=gnu11", "-g", "-O0", "-Wall", "-Werror", "-Wno-unused", "-fsanitize=address,undefined"]
    includes = [f"-I{folder}", f"-I{ROOT}/kmod"]
    subprocess.run(["gcc", *flags, *includes, HERE / f"{harness}.c", "-o", folder / harness], check=True)
    return subprocess.run([folder / harness, *arguments], capture_output=True, text=True)


def expect_notice(harness: str, code: str, mutants: dict[str, tuple[str, str]], folder: Path, *arguments: str) -> None:
    """Each mutant, which replaces one text by another, is noticed."""
    for name, (old, new) in mutants.items():
        assert code.count(old) == 1, name
        assert run(harness, code.replace(old, new), folder, *arguments).returncode != 0, name
