# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites in user-mode Linux; test_debug_kernel.py runs them in the kernel that reports whatever it can."""

from __future__ import annotations

import os

import pytest
from kernels import explain, run_script
from kunit import cases, results


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="the debug kernel runs the same suites: GPURT_LONG=1")
def test_every_case_passes() -> None:
    done = run_script("uml-run", "--kunit", "dmesg")
    assert done.returncode == 0, explain(done)
    assert results(done.stdout) == dict.fromkeys(cases(), "ok")
