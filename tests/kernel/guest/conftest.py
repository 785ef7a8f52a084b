# SPDX-License-Identifier: GPL-2.0
"""Tests that run inside a booted kernel with gpurt.ko, as root; scripts/vm-test brings them there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import loading
import pytest
from loading import BROUGHT, MODULE, KernelLog, complaints, load, unload

from pycontrol.link.control import Control, connect

ROOT = Path(__file__).resolve().parents[3]

if not MODULE:
    pytest.skip("these run in a booted kernel: scripts/vm-test", allow_module_level=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """From now on the module is being used."""
    loading.fresh = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Whatever the test has loaded, it has used as well."""
    loading.fresh = False


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    """After every test the kernel has nothing to complain of."""
    log = KernelLog()
    yield
    assert complaints(log.close()) == []


@pytest.fixture
def module() -> Iterator[Control]:
    """The module freshly loaded, as it comes, and a connection to it; it can be removed afterwards."""
    load()
    with connect("/dev/gpurt") as control:
        yield control
    unload()
    load()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the C programs of this folder and of smoke.c, by name without suffix."""
    if BROUGHT:
        return BROUGHT
    folder = tmp_path_factory.mktemp("programs")
    here = Path(__file__).parent
    for source in (here.parent / "smoke.c", *sorted(here.glob("*.c"))):
        flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include", "-pthread"]
        subprocess.run([shutil.which("gcc") or "cc", *flags, source, "-o", folder / source.stem], check=True)
    return folder
