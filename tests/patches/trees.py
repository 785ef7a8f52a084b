# SPDX-License-Identifier: GPL-2.0
"""What the tests of this folder share: running scripts/patch-driver, and the trees of files that it changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/patch-driver"


def patch_driver(*arguments: str | Path, script: Path = SCRIPT) -> tuple[int, str, str]:
    """Its exit code, and what it printed: to standard output, and as errors."""
    done = subprocess.run([script, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def contents(tree: Path) -> dict[str, bytes]:
    """All files of a tree."""
    return {str(one.relative_to(tree)): one.read_bytes() for one in sorted(tree.rglob("*")) if one.is_file()}
