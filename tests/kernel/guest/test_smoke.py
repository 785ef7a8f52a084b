# SPDX-License-Identifier: GPL-2.0
"""smoke.c beside this folder, which arm64 kernels run alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from loading import load, unload


def test_the_data_plane_and_clients_that_die(compiled: Path) -> None:
    load()
    run = subprocess.run([compiled / "smoke"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "smoke ok" in run.stdout
    unload()
    load()
