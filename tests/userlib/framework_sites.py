# SPDX-License-Identifier: GPL-2.0
"""Where the frameworks themselves are: installed beside gpurt, or from the package index into a folder of the cache."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CACHE = Path.home() / f".cache/gpurt/frameworks-{sys.implementation.cache_tag}"
#: Arguments of pip, one attempt after the other.  PyTorch's own index has builds without CUDA, which are small.
ASKED: dict[str, list[list[str]]] = {
    "torch": [["--index-url", "https://download.pytorch.org/whl/cpu", "torch"], ["torch"]],
    "numba": [["numba"]],
    "cupy": [["cupy-cuda12x"]],
    "nvvm": [["nvidia-nvvm==13.*"]],  # NVIDIA's compiler, of which Numba uses the library
}


def _install(folder: Path, asked: list[str]) -> str:
    """Installs into the folder, which appears whole.  Returns what pip said, if it failed."""
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", f"{made}/all", *asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["?"])[-1]
        try:
            (Path(made) / "all").rename(folder)
        except OSError:  # another test was faster
            assert folder.exists()
    return ""


def site(framework: str) -> str:
    """The folder in which Python finds the framework; the one that it has already, if it finds it anyway.

    GPURT_LONG=1 downloads it once.  Skips if that is not possible, or not asked for.
    """
    found = importlib.util.find_spec(framework)
    if found and found.origin:
        return str(Path(found.origin).parents[1])
    if os.environ.get("GPURT_LONG") != "1" or framework not in ASKED:
        pytest.skip(f"needs {framework}; GPURT_LONG=1 downloads PyTorch, Numba and CuPy")
    folder = CACHE / framework
    CACHE.mkdir(parents=True, exist_ok=True)
    for asked in ASKED[framework]:
        if folder.exists():
            break
        why = _install(folder, asked)
    if not folder.exists():
        pytest.skip(f"no package index has {framework}: {why}")
    return str(folder)
