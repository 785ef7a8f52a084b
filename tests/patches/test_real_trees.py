# SPDX-License-Identifier: GPL-2.0
"""The patches on the drivers' sources: Linux 6.1, which the tests build a kernel from, and trees that a person names.

GPURT_NVGPU_SOURCE and GPURT_AMDGPU_SOURCE name trees, several with colons between them, and are not changed.  An nvgpu
tree that is named with GPURT_NVIDIA_OOT (nvidia-oot, of the same release) is compiled for arm64 as well.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from trees import ROOT, contents, patch_driver

#: A test may wait for sources that scripts/kernel fetches.
pytestmark = pytest.mark.timeout(3600)
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpurt/kernels"
FOLDERS = {"nvgpu": "drivers/gpu/nvgpu", "amdgpu": "drivers/gpu/drm/amd"}


def named(variable: str) -> list[Path]:
    return [Path(one) for one in os.environ.get(variable, "").split(":") if one]


TREES = {"nvgpu": named("GPURT_NVGPU_SOURCE"), "amdgpu": [CACHE / "source-6.1", *named("GPURT_AMDGPU_SOURCE")]}
CASES = [pytest.param(driver, tree, id=f"{driver}-{tree.name}") for driver, trees in TREES.items() for tree in trees]
if not TREES["nvgpu"]:
    CASES.append(pytest.param("nvgpu", None, id="nvgpu"))


@pytest.fixture(autouse=True)
def _stays() -> Iterator[None]:
    """While a test reads the sources in the cache, scripts/kernel does not fetch others."""
    if not CACHE.is_dir():
        yield
        return
    with (CACHE / ".lock-source").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def copy_of(source: Path | None, driver: str, copy: Path, whole: bool) -> Path:
    """The files that patches touch; or all, as links, so that what is written does not change them."""
    if source is None:
        pytest.skip("GPURT_NVGPU_SOURCE names no tree with nvgpu's sources; no package has them")
    if not (source / FOLDERS[driver]).is_dir():
        pytest.skip(f"the sources of Linux 6.1 are not there ({source}); scripts/kernel uml fetches them")
    if not whole:
        texts = [one.read_text() for one in (ROOT / "kmod/patches" / driver).glob("*/*.patch")]
        names = set(re.findall(r"^diff --git a/(\S+)", "".join(texts), re.M)) | {"Makefile"}
        for name in names:
            if (source / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, copy / name)
        return copy
    top = Path(FOLDERS[driver]) if driver == "amdgpu" else Path()
    shutil.copytree(source / top, copy / top, copy_function=os.symlink, ignore=shutil.ignore_patterns(".git"))
    if driver == "amdgpu":
        shutil.copy(source / "Makefile", copy / "Makefile")
    return copy


@pytest.mark.parametrize(("driver", "source"), CASES)
def test_patches_apply_to_a_driver_and_are_taken_back(driver: str, source: Path | None, tmp_path: Path) -> None:
    tree = copy_of(source, driver, tmp_path / "tree", whole=False)
    before = contents(tree)
    code, out, err = patch_driver(driver, tree)
    assert code == 0, err
    patched = contents(tree)
    assert patched.keys() > before.keys()
    assert patch_driver(driver, tree)[:2] == (0, f"{out.rstrip()}, as before\n")
    assert contents(tree) == patched
    assert patch_driver("--reverse", driver, tree)[0] == 0
    assert contents(tree) == before


def amd64_headers(tree: Path) -> list[str | Path]:
    version = re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", (tree / "Makefile").read_text(), re.M)
    folder = CACHE / f"amd64-{'.'.join(version)}/build"
    if not folder.exists():
        pytest.skip(f"that kernel's headers are not there ({folder}); scripts/kernel {folder.parent.name} fetches them")
    return ["--kernel", folder]


def arm64_headers() -> list[str | Path]:
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("needs a compiler for arm64 (aarch64-linux-gnu-gcc)")
    folder = CACHE / "arm64-6.1/build"
    if not folder.exists():
        pytest.skip(f"that kernel's headers are not there ({folder}); scripts/kernel arm64-6.1 fetches them")
    if not named("GPURT_NVIDIA_OOT"):
        pytest.skip("GPURT_NVIDIA_OOT names no tree with the headers that nvgpu includes")
    return ["--kernel", folder, "--oot", named("GPURT_NVIDIA_OOT")[0]]


@pytest.mark.slow(0.5)
@pytest.mark.parametrize(("driver", "source"), CASES)
def test_what_is_patched_compiles_without_a_warning(driver: str, source: Path | None, tmp_path: Path) -> None:
    """Some seconds of CPU time each."""
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    headers = amd64_headers(tree) if driver == "amdgpu" else arm64_headers()
    variables = [] if driver == "amdgpu" else ["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"]
    code, out, err = patch_driver("--compile", *headers, driver, tree, *variables)
    assert code == 0, err[-3000:]
    assert "compiled what the patches change" in out


@pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="takes ten minutes of CPU time; GPURT_LONG=1 has it run")
@pytest.mark.parametrize(("driver", "source"), [case for case in CASES if case.values[0] == "amdgpu"])
def test_the_whole_module_is_built(driver: str, source: Path, tmp_path: Path) -> None:
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    code, out, err = patch_driver("--build", *amd64_headers(tree), driver, tree)
    assert code == 0, err[-3000:]
    assert "built for" in out
    module = (tree / FOLDERS[driver] / "amdgpu/amdgpu.ko").read_bytes()
    assert b"amdgpu_gpurt_port" in module
    assert len(module) < 40_000_000
