# SPDX-License-Identifier: GPL-2.0
"""Patched nvidia.ko in a booted kernel, built from the trees that GPURT_OPENRM_SOURCE names; its card is a fake."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import openrm
import pytest
from kernels import HERE, explain, helper_module
from test_matrix import failures, run_inside
from test_real_trees import CACHE, OPEN

INSIDE = "tests/kernel/guest/test_nvidia_card.py"

pytestmark = [pytest.mark.slow(15), pytest.mark.timeout(14_400), openrm.LONG]


def needed(module: Path, kernel: Path) -> list[Path]:
    """Modules of the kernel in that folder which have to be loaded before, in that order."""
    names = subprocess.run(["modinfo", "-F", "depends", module], capture_output=True, text=True, check=True).stdout
    found: list[Path] = []
    for name in filter(None, names.strip().split(",")):
        command = ["modprobe", "-d", kernel / "root", "-S", (kernel / "version").read_text().strip(), "--show-depends"]
        lines = subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout.splitlines()
        found += [Path(line.split()[1]) for line in lines if line.startswith("insmod ")]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("_driver", "source"), OPEN)
def test_nvidia_ko_lives_with_gpurt(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree = openrm.patched(source, tmp_path / "tree")
    if not shutil.which("modprobe"):
        pytest.skip("needs modprobe and modinfo (kmod)")
    assert source
    programs = tmp_path / "programs"
    programs.mkdir()
    module = openrm.built(source, tree) / "nvidia.ko"
    others = needed(module, CACHE / openrm.KERNEL)
    for file in (module, helper_module(HERE / "guest/fake_pci", openrm.KERNEL), *others):
        shutil.copy(file, programs)
    (programs / "needed").write_text("\n".join(one.name for one in others))
    out = tmp_path / "out"
    run = run_inside(openrm.KERNEL, "--append", "mem=1024M", "--with", programs, "--out", out, INSIDE)
    assert (out / "junit.xml").exists(), explain(run)
    failed = failures(out / "junit.xml")
    assert not failed, "\n".join(f"{test}:\n{how}" for test, how in failed.items())
    assert run.returncode == 0, explain(run)
    cases = list(ET.parse(out / "junit.xml").getroot().iter("testcase"))
    assert [len(case) for case in cases] == [0] * 8  # none is skipped
