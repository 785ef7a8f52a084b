# SPDX-License-Identifier: GPL-2.0
"""`gpurt partition --mechanism`: sizes that the mechanism has, and masks and percentages in the written file."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller
from test_topology import values, write

from analysis.masks.lint import Masked, lint
from analysis.masks.topology import CHIPS
from analysis.partition import mechanism
from analysis.taskset import load
from pycontrol.commands import partition as commands
from pycontrol.machine import topology

EXAMPLE = (Path(__file__).resolve().parents[2] / "examples/partitions.toml").read_text()
UNITS = "units = { minimum = 4, step = 2 }\n"
AMD = EXAMPLE.replace(UNITS, "").replace("compute_units = 24", 'compute_units = 60\nchip = "radeon-vii"')


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capsys)


def test_the_options_are_what_there_is() -> None:
    assert set(commands.MECHANISMS) == set(mechanism.NAMES)


def test_sizes() -> None:
    assert mechanism.sizes("tpc", 7, None) == (2, 4, 6)
    assert mechanism.sizes("vgpu", 3, None) == (1, 2, 3)
    assert mechanism.sizes("mps", 4, None) == (1, 2, 3, 4)
    assert mechanism.sizes("mps", 250, None)[:4] == (2, 5, 7, 10)  # 1 %, 2 %, 3 % and 4 %, rounded down
    masks = mechanism.sizes("cu-mask", 60, CHIPS["radeon-vii"])
    assert [size in masks for size in (30, 32, 31, 29, 60)] == [True, True, False, False, True]


def test_sizes_that_masks_cannot_have_together() -> None:
    """45 are three whole engines, and the fourth has 15, not 16."""
    chip = CHIPS["radeon-vii"]
    parts, why = mechanism.realised("cu-mask", 60, [("a", 30), ("b", 30)], chip)
    assert not why
    assert not [one for one in lint([Masked(p.name or "", p.cu_mask or 0) for p in parts], chip) if one.error]
    assert "no disjoint masks" in mechanism.realised("cu-mask", 60, [("a", 45), ("b", 16)], chip)[1]


def test_percentages_that_are_too_many() -> None:
    """34 of 101 SMs need 34 %: 33 % are 33.3, rounded down.  So all 101 SMs in three parts need 101 %."""
    parts, why = mechanism.realised("mps", 101, [("a", 34), ("b", 34), ("c", 33)], None)
    assert [one.mps_percentage for one in parts] == [34, 34, 33]
    assert why == "as percentages of MPS the partitions need 101 %"


def test_masks_are_written_and_hold(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(AMD)
    code, _, err = gpurt("partition", file, "--mechanism", "cu-mask", "-o", out)
    assert code == 0, err
    parts = load(out).taskset.partitions
    assert all(one.cu_mask for one in parts)
    assert not [one for one in lint([Masked(p.name or "", p.cu_mask or 0) for p in parts], CHIPS["radeon-vii"])
                if one.error]  # fmt: skip


def test_one_amd_gpu_of_several(gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--device chooses it; without, or with a number that there is not, nothing is guessed."""
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path / "two", None, values("gfx1030"), values("radeon-vii", 129)))
    file = tmp_path / "set.toml"
    file.write_text(AMD.replace('chip = "radeon-vii"', ""))
    given = ("partition", file, "--mechanism", "cu-mask")
    assert gpurt(*given, "--device", "1")[0] == 0
    for arguments, why in (
        ((), "2 AMD GPUs are here; name one of"),
        (("--device", "2"), "2 AMD GPUs are here, none with number 2"),
        (("--device", "0"), "has 80 CUs, the platform 60"),
    ):
        code, out, err = gpurt(*given, *arguments)
        assert (code, out, why in err) == (2, "", True), err


def test_percentages_are_written(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(EXAMPLE.replace(UNITS, ""))
    code, _, err = gpurt("partition", file, "--mechanism", "mps", "-o", out)
    assert (code, "not isolated" in err) == (0, True)
    assert all((one.mps_percentage or 0) * 24 // 100 >= (one.size or 0) for one in load(out).taskset.partitions)


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        (EXAMPLE, ["--mechanism", "cu-mask"], "no AMD GPU is here; name one of radeon-vii"),
        (EXAMPLE, ["--mechanism", "mps", "--sizes", "4:2"], "--mechanism excludes --sizes"),
        (EXAMPLE, ["--mechanism", "slices"], "Invalid value for '--mechanism'"),
        (EXAMPLE, ["--federated", "--mechanism", "mps"], "--mechanism does not go with --federated"),
        (AMD, ["--mechanism", "cu-mask", "--device", "0"], "--device: the file names its chip, radeon-vii"),
        (AMD.replace("= 60", "= 59"), ["--mechanism", "cu-mask"], "radeon-vii has 60 CUs, the platform 59"),
        (EXAMPLE.replace("minimum = 4, step = 2", "minimum = 3, step = 2"), ["--mechanism", "tpc"], "none of its"),
    ],
)
def test_mistakes(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: list[str], why: str
) -> None:
    monkeypatch.setattr(topology, "SYSFS", tmp_path / "nothing")
    file = tmp_path / "set.toml"
    file.write_text(text)
    code, out, err = gpurt("partition", file, *arguments)
    assert (code, out, why in err) == (2, "", True), err
