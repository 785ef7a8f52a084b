# SPDX-License-Identifier: GPL-2.0
"""The fake NVML of power_fake/, for each test file that needs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import power_trees as trees
import pytest


@pytest.fixture(scope="session")
def libnvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    return trees.compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake_nvml(libnvml: Path) -> Iterator[Any]:
    """The library with one GPU of 100 W, where nvidia-ml-py finds it."""
    yield from trees.loaded(libnvml)
