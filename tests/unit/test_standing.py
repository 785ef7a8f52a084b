# SPDX-License-Identifier: GPL-2.0
"""`gpurt apply` of a file whose partitions pass admission's test: the rest of the file has to hold, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller

FILE = """\
[platform]
cpus = 4
policy = "POLICY"
epsilon = "0ns"
compute_units = 8
"""
PART = '[[partition]]\nname = "{0}"\ncompute_units = 4\n'
TASK = '[[task]]\nname = "{}"\ncpu = {}\npriority = {}\nperiod = "20ms"\n{}segments = [{{ {} }}]\n'
USER = 'misc = "0ms", gpu = "5ms"'
IN_PARTITIONS = FILE + "".join(
    PART.format(part) + TASK.format(name, cpu, 2 - cpu, f'partition = "{part}"\n', USER)
    for name, cpu, part in (("x", 0, "a"), ("y", 1, "b"))
)


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


LATE, STRAY = TASK.format("late", 2, 1, "", 'cpu = "25ms"'), TASK.format("stray", 2, 0, "", USER)
TOO_LATE = "late: no bound below the deadline of 20 ms"


@pytest.mark.parametrize(
    ("policy", "more", "why"),
    [
        ("segment", LATE, TOO_LATE),
        ("boosted", LATE, TOO_LATE),
        ("segment", STRAY, "x: no bound, because stray uses the GPU and names no partition"),
        ("boosted", STRAY, "several partitions share CPUs"),
    ],
)
def test_nothing_is_applied_where_the_rest_of_the_file_fails(
    gpurt: Gpurt, tmp_path: Path, policy: str, more: str, why: str
) -> None:
    """The partitions' test knows neither: apply said that 25 ms of CPU time every 20 ms are in time."""
    path, device = tmp_path / "set.toml", ("--device", tmp_path / "no host")
    path.write_text(IN_PARTITIONS.replace("POLICY", policy))
    assert gpurt(*device, "apply", path)[0] == 4  # all is proved that the file can say
    path.write_text(IN_PARTITIONS.replace("POLICY", policy) + more)
    code, out, _ = gpurt(*device, "apply", path)
    assert code == 1
    assert out.startswith(f"not applied: under policy {policy}, {why}")
