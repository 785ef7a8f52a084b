# SPDX-License-Identifier: GPL-2.0
"""The fake NVML of fake_nvml.c, and searches that are made once."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from _ctypes import dlclose
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.answers.growth import Growth, Show, growth
from analysis.model import Taskset
from pycontrol.commands import margins
from pycontrol.observe.report import evidence
from pycontrol.output import render

SOURCE = Path(__file__).with_name("fake_nvml.c")
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def libnvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(library)], check=True, timeout=60)
    return library


@pytest.fixture
def fake_nvml(libnvml: Path) -> Iterator[Any]:
    """A driver with one GPU, where nvidia-ml-py finds it: the loader takes a library of that name that is loaded."""
    import pynvml

    fake = ctypes.CDLL(str(libnvml))
    fake.fake_reset(1, 1)
    yield fake
    theirs, pynvml.nvmlLib = pynvml.nvmlLib, None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    for one in filter(None, (theirs, fake)):
        dlclose(one._handle)


@cache
def _searched(taskset: Taskset, name: str | None, own: bool) -> Growth:
    return growth(taskset, name, render.progress, own)


@pytest.fixture
def margins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margins of a taskset are searched once for all tests of a page: that is most of what it takes."""

    def searched(taskset: Taskset, name: str | None, _show: Show, own: bool = True, interrupted: Any = None) -> Growth:
        return _searched(taskset, name, own)

    for module in (evidence, margins):
        monkeypatch.setattr(module, "growth", searched)
