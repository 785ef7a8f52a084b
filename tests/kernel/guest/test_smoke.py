# SPDX-License-Identifier: GPL-2.0
"""smoke.c beside this folder, which arm64 kernels run alone, and compat.c."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from loading import load, unload


def test_the_data_plane_and_clients_that_die(compiled: Path) -> None:
    load()
    run = subprocess.run([compiled / "smoke"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "smoke ok" in run.stdout
    unload()
    load()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="interrupt 0x80 is of x86")
def test_the_calls_of_a_32_bit_program(compiled: Path) -> None:
    load()
    run = subprocess.run([compiled / "compat"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "done\n")
