# SPDX-License-Identifier: GPL-2.0
"""Helpers of this folder's tests: running scripts/patch-driver, and the trees of files that it changes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/patch-driver"


def _module() -> Any:
    """The script, which has no ending that Python would import it by."""
    loader = SourceFileLoader("patch_driver", str(SCRIPT))
    spec = importlib.util.spec_from_loader("patch_driver", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["patch_driver"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


PATCH_DRIVER = _module()
#: Drivers and their releases that there are patches for.
RELEASES = [(one.parts[-3], one.parts[-2]) for one in sorted((ROOT / "kmod/patches").glob("*/*/series"))]


def texts(driver: str, release: str) -> dict[str, str]:
    """The patches of a release in order, by their names."""
    return {patch.name: patch.text for patch in PATCH_DRIVER.series(driver, release)}


def all_texts(driver: str) -> str:
    """The patches of all releases of a driver."""
    return "".join("".join(texts(one, release).values()) for one, release in RELEASES if one == driver)


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
