# SPDX-License-Identifier: GPL-2.0
"""Static checks of the module: nothing found, by checkers that find what is planted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ["warnings", "sparse", "clang", "gcc", "checkpatch", "coccinelle"]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs scripts/check-kmod; skips where something is missing."""
    command = [str(ROOT / "scripts/check-kmod"), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=880, check=False)
    if run.returncode == 3:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    return run


@pytest.mark.timeout(900)
def test_nothing_is_found() -> None:
    run = check()
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines() == [f"{name}: nothing" for name in CHECKS]


@pytest.mark.timeout(900)
def test_every_checker_finds_a_planted_bug() -> None:
    run = check("--self-check")
    assert run.stdout.splitlines() == [f"{name} finds its planted bug" for name in CHECKS], run.stdout + run.stderr
    assert run.returncode == 0
