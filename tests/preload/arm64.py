# SPDX-License-Identifier: GPL-2.0
"""Programs for arm64, run by QEMU's user-mode emulator on a machine of another kind."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from links import PATIENCE

COMPILER = "aarch64-linux-gnu-gcc"
LIBRARIES = Path("/usr/aarch64-linux-gnu")  # where the distribution's cross compiler has its libc


def emulator() -> str:
    """The emulator.  Skips if it or the compiler is not installed, or the machine itself is one of arm64."""
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if platform.machine() == "aarch64":
        pytest.skip("the machine is one of arm64 itself")
    if not found or not shutil.which(COMPILER) or not LIBRARIES.is_dir():
        pytest.skip(f"needs qemu-aarch64 and {COMPILER}")
    return found


def run(program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program for arm64 with these variables."""
    variables = [part for name, value in environment.items() for part in ("-E", f"{name}={value}")]
    command = [emulator(), "-L", LIBRARIES, *variables, program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
