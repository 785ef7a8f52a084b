# SPDX-License-Identifier: GPL-2.0
"""Static checks of the module: nothing is found, by checkers that find what is planted."""

from __future__ import annotations

import os

import pytest
from kernels import run_script

#: The compilers' checks share one build.  What analyses paths takes six minutes of CPU time.
CHECKS = ["warnings sparse", "checkpatch"]
if os.environ.get("GPURT_LONG"):
    CHECKS += ["clang gcc", "coccinelle"]


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("names", CHECKS)
def test_each_checker_finds_its_planted_bug_and_nothing_else(names: str) -> None:
    run = run_script("check-kmod", "--self-check", *names.split())
    found = run.stdout.splitlines()
    assert found == [f"{name}: nothing but its planted bug" for name in names.split()], run.stdout + run.stderr
    assert run.returncode == 0
