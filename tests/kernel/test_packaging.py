# SPDX-License-Identifier: GPL-2.0
"""Installing and removing the module: DKMS, udev, sysusers, systemd; into folders of the test's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernels import ROOT, run_script

KMOD = ROOT / "kmod"


def sh(*command: str | Path, **environment: str) -> str:
    """Runs a command that must succeed; its output."""
    run = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def kernel() -> tuple[str, Path]:
    """Version and headers of a kernel that is not the running one."""
    run = run_script("kernel", "amd64-6.1")
    assert run.returncode == 0, run.stderr
    folder = Path(run.stdout.strip())
    return (folder / "version").read_text().strip(), folder / "build"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The files of `make files_install` below a folder."""
    sh("make", "-C", KMOD, "files_install", f"DESTDIR={tmp_path}")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_dkms_builds_installs_and_removes(kernel: tuple[str, Path], tmp_path: Path) -> None:
    if not shutil.which("dkms") or os.geteuid() != 0:
        pytest.skip("needs dkms and root")
    version, headers = kernel
    for name in ("src", "dkms", "modules"):
        (tmp_path / name).mkdir()
    (tmp_path / "modules" / version).mkdir()
    dkms = (
        f"dkms --dkmstree {tmp_path}/dkms --sourcetree {tmp_path}/src --installtree {tmp_path}/modules "
        f"--kernelsourcedir {headers} -k {version} --no-depmod"
    )
    release = re.search(r'PACKAGE_VERSION="(.*)"', (KMOD / "dkms.conf").read_text())
    assert release
    make = ["make", "-C", KMOD, f"DKMS={dkms}", "DKMS_WHICH=", f"DKMS_SOURCE={tmp_path}/src/gpurt-{release.group(1)}"]
    sh(*make, "dkms-install")
    modules = [path.name.partition(".")[0] for path in (tmp_path / "modules").rglob("gpurt*.ko*")]
    assert sorted(modules) == ["gpurt", "gpurt-vgpu"]
    sh(*make, "dkms-remove")
    assert not list((tmp_path / "modules").rglob("gpurt*.ko*"))
    assert not list((tmp_path / "src").iterdir())


@pytest.mark.parametrize(("clang", "tools"), [(0, ""), (190107, "-19")])
@pytest.mark.parametrize("target", ["modules", "modules_install", "clean"])
def test_a_kernel_that_clang_built_gets_a_module_by_clang(target: str, clang: int, tools: str, tmp_path: Path) -> None:
    """Here clang has only the name with its version."""
    (tmp_path / "include/config").mkdir(parents=True)
    (tmp_path / "include/config/auto.conf").write_text(f"CONFIG_64BIT=y\nCONFIG_CLANG_VERSION={clang}\n")
    (tmp_path / "Makefile").write_text("modules modules_install clean:\n\t@echo tools: $(LLVM)\n")
    (tmp_path / "bin").mkdir()
    for name in ("make", "sh", "sed", "uname", "echo"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    make = ["make", "-s", "-C", KMOD, target, f"KDIR={tmp_path}"]
    assert sh(*make, PATH=str(tmp_path / "bin")).split("\n")[-2] == f"tools: {tools}".rstrip()
    assert sh(*make, "LLVM=1", PATH=str(tmp_path / "bin")).split("\n")[-2] == "tools: 1"


def test_versions_agree() -> None:
    found = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    assert f'PACKAGE_VERSION="{found.group(1)}"' in (KMOD / "dkms.conf").read_text()


def test_the_unit_is_right(installed: Path) -> None:
    unit = installed / "usr/lib/systemd/system/gpurt.service"
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    # neither modprobe nor the manual page need be here
    excused = ("not executable", "No such", "man ", "Can't show")
    mine = [line for line in run.stderr.splitlines() if "gpurt" in line and not any(word in line for word in excused)]
    assert mine == []


def test_the_group_is_made(installed: Path) -> None:
    if not shutil.which("systemd-sysusers") or os.geteuid() != 0:
        pytest.skip("needs systemd-sysusers and root")
    (installed / "etc").mkdir(exist_ok=True)
    sh("systemd-sysusers", f"--root={installed}", installed / "usr/lib/sysusers.d/gpurt.conf")
    assert re.search(r"^gpurt:", (installed / "etc/group").read_text(), re.MULTILINE)


def test_the_rule_names_what_the_module_makes(installed: Path) -> None:
    rule = (installed / "lib/udev/rules.d/60-gpurt.rules").read_text()
    source = (KMOD / "uapi/gpurt.h").read_text()
    name = re.search(r'GPURT_DEVICE_NAME\s+"(.*)"', source)
    assert name
    assert f'KERNEL=="{name.group(1)}"' in rule
    assert 'MODE="0660"' in rule


def test_every_parameter_is_documented() -> None:
    text = (ROOT / "docs/kernel.md").read_text()
    for path in [*KMOD.glob("*.c"), *KMOD.glob("drv/*.c")]:
        for name in re.findall(r"^module_param(?:_cb)?\((\w+)", path.read_text(), re.MULTILINE):
            assert f"`{name}`" in text, name
