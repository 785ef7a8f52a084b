# SPDX-License-Identifier: GPL-2.0
"""Kernels of best effort keep off no task's units: whichever command is asked, nothing is proved beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import caller

from analysis.answers.registry import UNITS

#: A task with a kernel, or one that only copies, and a best-effort one with a kernel.
OWNER = "[{ kernel = '2ms' }]"
COPIER = "[{ copy = '2ms' }]"
STRAY = "[{ kernel = '1ms' }]"
FILE = """
[platform]
cpus = 2
policy = "federated"
epsilon = "0ns"
compute_units = 4
[[task]]
name = "a"
cpu = 0
priority = 1
period = "10ms"
waiting = "{waiting}"
segments = {segments}
{partition}
[[task]]
name = "b"
cpu = 1
priority = 0
period = "10ms"
waiting = "{waiting}"
segments = {others}
"""


def written(folder: Path, segments: str, others: str, waiting: str = "suspend", partition: str = "") -> Path:
    path = folder / "set.toml"
    path.write_text(FILE.format(segments=segments, others=others, waiting=waiting, partition=partition))
    return path


@pytest.mark.parametrize("partition", ["", "partition = { compute_units = 3 }"])
@pytest.mark.parametrize("name", UNITS)
def test_no_test_of_own_units_proves_anything_beside_kernels_of_best_effort(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str, partition: str
) -> None:
    waiting = "busy" if name.startswith("stgm") else "suspend"
    gpurt, both = caller(capfd), written(tmp_path, OWNER, STRAY, waiting, partition)
    code, out, _ = gpurt("analyze", both, "--test", name)
    assert code == 1
    assert "b is best effort" in out
    written(tmp_path, OWNER, COPIER, waiting, partition)
    assert gpurt("analyze", both, "--test", name)[0] == (0 if UNITS[name].sound else 1)


def test_every_command_has_the_same_rule(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gpurt, file = caller(capfd), written(tmp_path, OWNER, STRAY)
    planned = tmp_path / "planned.toml"
    for words in (["plan", "units", file, "-o", planned], ["margins", file, "--test", "rtgpu"]):
        code, out, _ = gpurt(*words)
        assert (code, "nothing keeps them off the units of the others" in out) == (1, True)
    assert not planned.exists()
    code, _, err = gpurt("simulate", file, "--policy", "federated", "--runs", "1")
    assert (code, "nothing keeps them off the units of the others" in err) == (2, True)


def test_kernels_of_best_effort_do_not_matter_where_no_task_owns_units(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A task that only copies has no unit that a kernel could take."""
    assert caller(capfd)("analyze", written(tmp_path, COPIER, STRAY), "--test", "rtgpu")[0] == 0
