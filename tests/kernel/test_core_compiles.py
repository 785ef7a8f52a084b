"""The scheduler core compiles in the kernel, unchanged: the same sources as a module against real headers."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from kernels import ROOT, run_script
from once import once

#: Also what scripts/test boots has the core in it, compiled for that kernel, but warnings do not fail there.
pytestmark = pytest.mark.slow(1)
SOURCES = sorted(path.name for path in (ROOT / "kmod/core").glob("*.c"))
#: Debug information, BTF, and the script for static exports, as in scripts/kmod-build.
NEEDLESS = ["KCFLAGS=-g0", "CONFIG_DEBUG_INFO_BTF_MODULES=", "cmd_check_local_export="]
KBUILD = """
obj-m := gpurt_core_check.o
gpurt_core_check-y := check.o {objects}
ccflags-y := -Werror
"""
MODULE = """
#include <linux/module.h>
#include "core/sched.h"
#include "core/vgpu.h"
static struct gpurt_sched sched;
static struct gpurt_vgpu vgpu;
static int __init check_init(void)
{
	static const struct gpurt_sched_ops sched_ops;
	static const struct gpurt_vgpu_ops vgpu_ops;

	gpurt_sched_init(&sched, &sched_ops, NULL, 0);
	gpurt_vgpu_init(&vgpu, &vgpu_ops, NULL, 1, 0, 0, true, 0);
	return 0;
}
module_init(check_init);
MODULE_LICENSE("GPL");
"""


@pytest.fixture(scope="module")
def headers() -> str:
    """The folder of a distribution kernel's headers."""
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("needs make and gcc")
    name = {"x86_64": "amd64-6.1", "aarch64": "arm64-6.1"}.get(platform.machine(), "")
    if not name:
        pytest.skip(f"no kernel is fetched for {platform.machine()}")
    run = run_script("kernel", name)
    assert run.returncode == 0, run.stderr
    return f"{run.stdout.strip()}/build"


def build(folder: Path, headers: str) -> None:
    """Builds the core as a module in ``folder``, and writes there what make said."""
    shutil.copytree(ROOT / "kmod/core", folder / "core")
    shutil.copytree(ROOT / "kmod/uapi", folder / "uapi")
    objects = " ".join(f"core/{name[:-2]}.o" for name in SOURCES)
    (folder / "Kbuild").write_text(KBUILD.format(objects=objects))
    (folder / "check.c").write_text(MODULE)
    command = ["make", "-C", headers, f"M={folder}", "CC=gcc", "W=1", *NEEDLESS, "modules"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (folder / "stderr").write_text(run.stderr)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, headers: str) -> Path:
    """The core's module and objects, in a folder; also the warnings."""
    return once(tmp_path_factory, "core-module", lambda folder: build(folder, headers))


def test_core_builds_as_a_module_without_a_warning(built: Path) -> None:
    assert (built / "gpurt_core_check.ko").exists()
    warnings = (built / "stderr").read_text()
    assert "core/" not in warnings, warnings


def test_core_needs_nothing_from_the_kernel(built: Path) -> None:
    """No lock, no allocation, no clock: the core's objects refer to memset and memcpy at most."""
    allowed = {"memset", "memcpy", "__fentry__", "__stack_chk_fail", "__x86_return_thunk"}
    allowed |= {"__list_add_valid", "__list_del_entry_valid"}  # CONFIG_DEBUG_LIST
    objects = [str(built / "core" / f"{name[:-2]}.o") for name in SOURCES]
    defined = set(symbols(objects, "--defined-only"))
    foreign = {name for name in symbols(objects, "--undefined-only") if not name.startswith("__x86_indirect")}
    assert foreign - defined - allowed == set()


def symbols(objects: list[str], which: str) -> list[str]:
    """Names of the symbols that ``nm`` lists."""
    run = subprocess.run(["nm", which, *objects], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in run.stdout.splitlines() if line.strip() and not line.endswith(":")]
