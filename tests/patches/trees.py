# SPDX-License-Identifier: GPL-2.0
"""Helpers of this folder's tests: running scripts/patch-driver, and the trees of files that it changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/patch-driver"


def need_patch() -> None:
    """Skips the test on a machine without the program that applies patches."""
    if not shutil.which("patch"):
        pytest.skip("needs the program patch")


def patch_driver(*arguments: str | Path, script: Path = SCRIPT, path: Path | None = None) -> tuple[int, str, str]:
    """Its exit code, and what it printed: to standard output, and as errors; with a path that has no programs."""
    if path is None:
        need_patch()
    environment = os.environ | ({} if path is None else {"PATH": str(path)})
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def contents(tree: Path) -> dict[str, bytes]:
    """All files of a tree."""
    return {str(one.relative_to(tree)): one.read_bytes() for one in sorted(tree.rglob("*")) if one.is_file()}
