# SPDX-License-Identifier: GPL-2.0
"""Room for two blocks as `gpurt measure code` takes it, against NVIDIA's occupancy calculator (cuda_occupancy.h)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sm_build import HERE, PATIENCE, compiler, run

from pycontrol.measure.smcheck.limits import SMS, room_of_blocks


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that says how many blocks fit (occupancy.cpp)."""
    program = tmp_path_factory.mktemp("occupancy") / "occupancy"
    done = run(compiler("nvcc"), "-x", "c++", "-cudart", "none", HERE / "occupancy.cpp", "-o", program)
    assert not done.returncode, done.stderr
    return program


def fitting(calculator: Path, lines: list[tuple[object, ...]]) -> list[str]:
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    return subprocess.run([calculator], input=text, capture_output=True, text=True, check=True,
                          timeout=PATIENCE).stdout.split()  # fmt: skip


@pytest.mark.parametrize("capability", SMS)
def test_two_blocks_fit_at_the_limits_and_no_more(calculator: Path, capability: str) -> None:
    there = room_of_blocks(f"sm_{capability}")
    threads, registers, shared = there.threads, there.registers, there.shared
    sm = (capability[:-1], capability[-1], 2 * threads, SMS[capability][1] * 1024)
    cases = [(threads, registers, shared), (threads, registers + 1, shared), (threads, registers, shared + 1)]
    # a block may not have as many registers on 6.2, nor as much shared memory on 6.1, and is not launched
    assert fitting(calculator, [(*sm, *case) for case in cases]) == [
        "2", "0" if capability == "62" else "1", "0" if capability == "61" else "1",
    ]  # fmt: skip
