# SPDX-License-Identifier: GPL-2.0
"""Best effort that uses the GPU in no partition: whichever command divides it, the answer is no, as `analyze` says."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("more", [[], ["--gpu-only"], ["--variant", "exact"]])
def test_partition_plans_for_no_best_effort(gpurt: Gpurt, tmp_path: Path, more: list[str]) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(EXAMPLE.read_text())
    assert gpurt("plan", "partitions", file, *more)[0] == 0
    file.write_text(EXAMPLE.read_text() + STRAY)
    code, text, _ = gpurt("plan", "partitions", file, *more, "-o", out)
    assert (code, out.exists()) == (1, False)
    assert text.startswith("NOT PROVED: stray is best effort and uses the GPU, and no partition is planned for it")


def planned(gpurt: Gpurt, folder: Path, more: str) -> Path:
    """The example's plan, with a task that is in none of its partitions."""
    path = folder / "planned.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", path)[0] == 0
    path.write_text(path.read_text() + more)
    return path


def test_nothing_is_admitted_beside_best_effort_in_no_partition(gpurt: Gpurt, tmp_path: Path) -> None:
    file, late = planned(gpurt, tmp_path, STRAY), tmp_path / "late.toml"
    late.write_text(LATE.replace("1400ms", "40ms"))
    code, out, err = gpurt("plan", "partitions", file, late)
    line = file.read_text()[: file.read_text().index(STRAY)].count("\n") + 2
    assert (code, out) == (3, "")
    assert err.startswith(f"gpurt: {file}:{line}: stray uses the GPU and names no partition")
    planned(gpurt, tmp_path, STRAY + 'partition = "rest"\n' + REST)
    assert gpurt("plan", "partitions", file, late)[0] == 0


def test_best_effort_in_a_partition_is_not_moved_away(gpurt: Gpurt, tmp_path: Path) -> None:
    """The new division has partitions for real-time tasks only; its p1 could be one that best effort names."""
    file, late, out = planned(gpurt, tmp_path, REST), tmp_path / "late.toml", tmp_path / "out.toml"
    late.write_text(LATE)
    assert gpurt("plan", "partitions", file, late)[0] == 1
    assert gpurt("plan", "partitions", file, late, "--others", "move")[0] == 0
    planned(gpurt, tmp_path, STRAY + 'partition = "rest"\n' + REST)
    code, text, _ = gpurt("plan", "partitions", file, late, "--others", "move", "-o", out, "--json")
    assert (code, out.exists(), json.loads(text)["admitted"]) == (1, False, False)
    assert "a new division of the GPU: stray is best effort" in json.loads(text)["why"]
