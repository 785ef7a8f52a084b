# SPDX-License-Identifier: GPL-2.0
"""Static checks of the module: nothing is found, by checkers that find what is planted."""

from __future__ import annotations

import pytest
from kernels import run_script

#: Not "warnings": scripts/kmod-build takes them for errors, for every kernel.
CHECKS = ["sparse", "clang", "gcc", "checkpatch", "coccinelle"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CHECKS)
def test_a_checker_finds_the_planted_bug_and_nothing_else(name: str) -> None:
    run = run_script("check-kmod", "--self-check", name)
    assert run.stdout.splitlines() == [f"{name}: nothing but its planted bug"], run.stdout + run.stderr
    assert run.returncode == 0
