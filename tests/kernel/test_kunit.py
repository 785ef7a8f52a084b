# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites in user-mode Linux; test_debug_kernel.py runs them in the kernel that reports whatever it can."""

from __future__ import annotations

import pytest
from kernels import explain, run_script
from kunit import cases, results


@pytest.mark.slow(0.5)
@pytest.mark.timeout(14_400)
def test_every_case_passes() -> None:
    done = run_script("uml-run", "--kunit", "dmesg")
    assert done.returncode == 0, explain(done)
    assert results(done.stdout) == dict.fromkeys(cases(), "ok")
