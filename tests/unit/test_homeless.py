# SPDX-License-Identifier: GPL-2.0
"""Best effort that uses the GPU in no partition: whichever command divides it, the answer is no, as `analyze` says."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/partitions.toml"
SEGMENTS = 'segments = [{ misc = "1ms", gpu = { parallel = "PARALLEL", serial = "1ms" } }]\n'
TASK = '\n[[task]]\nname = "NAME"\ncpu = 4\npriority = LEVEL\nperiod = "200ms"\nintensity = "compute"\n' + SEGMENTS
STRAY = TASK.replace("NAME", "stray").replace("LEVEL", "0").replace("PARALLEL", "40ms")
LATE = TASK.replace("NAME", "late").replace("LEVEL", "5").replace("PARALLEL", "1400ms")  # 8 units or more
REST = '\n[[partition]]\nname = "rest"\ncompute_units = 4\n\n[[partition]]\nname = "other"\ncompute_units = 4\n'


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


def test_partition_plans_for_no_best_effort(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(EXAMPLE.read_text())
    assert gpurt("plan", "partitions", file)[0] == 0
    file.write_text(EXAMPLE.read_text() + STRAY)
    code, text, _ = gpurt("plan", "partitions", file, "-o", out)
    assert (code, out.exists()) == (1, False)
    assert text.startswith("NOT PROVED: stray is best effort and uses the GPU, and no partition is planned for it")
