# SPDX-License-Identifier: GPL-2.0
"""The module in one stock kernel: the only test that boots a kernel unless all are asked for."""

from __future__ import annotations

import platform

import pytest
from kernels import HERE, explain, run_script, static_program


@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are fetched for x86-64 machines only")
@pytest.mark.timeout(14_400)
def test_the_module_loads_and_works_in_a_stock_kernel() -> None:
    """With its self-tests; a debug build differs in nothing else."""
    run = run_script("vm-test", "--kernel", "amd64-6.1", "--debug", "--program", static_program(HERE / "smoke.c"))
    assert run.returncode == 0, explain(run)
    assert "smoke ok" in run.stdout
