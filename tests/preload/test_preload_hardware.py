# SPDX-License-Identifier: GPL-2.0
"""The model of the hardware that benchmarks use does what docs/hardware says that an H200 does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from machines import FAKES, FLAGS

#: A switch, and the kernel, us.
THETA, KERNEL = 222, 50
#: Phases are 3 us apart.
NEAR = 8
EXPECTED = {
    "beside_1": THETA + KERNEL,  # the other one has used up its slice, which did not cut it while it was alone
    "beside_1_at_2us": THETA + KERNEL,
    # the bound of yield: four slices and five switches; two units of 1.024 us are more than 2 us, so one is left
    "beside_4_at_2us": 4 * (THETA + 1) + THETA + KERNEL,
    "beside_4_at_500us": 4 * (THETA + 499) + THETA + KERNEL,
    "alone_at_2us": THETA + 30_000,
    "turns_at_10us": round(100_000 / (THETA + 9.216) * 9.216),
    "off_returns": 620,
    "off_executes_on": 360,
    "on_behind_another_call": 5300,
    "stale": 0x21,
}


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_slices_switches_and_calls(tmp_path: Path) -> None:
    program = tmp_path / "scenes"
    subprocess.run(["cc", *FLAGS, FAKES / "hardware_scenes.c", "-pthread", "-o", program], check=True)
    told = subprocess.run([program, tmp_path / "state"], capture_output=True, text=True, check=True).stdout
    seen = {name: int(value) for name, value in map(str.split, told.splitlines())}
    assert {name: (value, EXPECTED[name]) for name, value in seen.items() if abs(value - EXPECTED[name]) > NEAR} == {}
    assert set(seen) == set(EXPECTED)
