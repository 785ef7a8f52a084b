# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan partitions --mechanism`: sizes that the mechanism has, and masks and percentages in the written file."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller
from test_topology import values, write

from analysis.masks.lint import Masked, lint
from analysis.masks.topology import CHIPS
from analysis.partition import mechanism
from analysis.taskset import load
from analysis.taskset.mechanisms import guaranteed, percentage_of
from pycontrol.commands import partitions as commands
from pycontrol.machine import topology

EXAMPLE = (Path(__file__).resolve().parents[2] / "examples/partitions.toml").read_text()
UNITS = "units = { minimum = 4, step = 2 }\n"
AMD = EXAMPLE.replace(UNITS, "").replace("compute_units = 24", 'compute_units = 60\nchip = "radeon-vii"')
GREEN = """
[platform]
cpus = 4
epsilon = "0.1ms"
compute_units = 132
policy = "segment"
[[task]]
name = "a"
cpu = 0
priority = 20
period = "20ms"
segments = [{ cpu = "1ms" }, { misc = "0.1ms", gpu = { parallel = "600ms", serial = "1ms" } }]
[[task]]
name = "b"
cpu = 1
priority = 15
period = "40ms"
segments = [{ cpu = "1ms" }, { misc = "0.1ms", gpu = { parallel = "900ms", serial = "1ms" } }]
"""


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capsys)


def test_the_options_are_what_there_is() -> None:
    assert set(commands.MECHANISMS) == set(mechanism.MECHANISM_NAMES)


def test_sizes() -> None:
    assert mechanism.sizes("tpc", 7, None) == (2, 4, 6)
    assert mechanism.sizes("vgpu", 3, None) == (1, 2, 3)
    assert mechanism.sizes("mps", 4, None) == (2, 4)
    assert mechanism.sizes("mps", 250, None)[:4] == (2, 4, 6, 10)  # 1 %, 2 %, 3 % and 4 %, rounded down to pairs
    assert mechanism.sizes("mps-static", 26, None) == (8, 16, 24)
    masks = mechanism.sizes("cu-mask", 60, CHIPS["radeon-vii"])
    assert [size in masks for size in (30, 32, 31, 29, 60)] == [True, True, False, False, True]


def test_sizes_that_masks_cannot_have_together() -> None:
    """45 are three whole engines, and the fourth has 15, not 16."""
    chip = CHIPS["radeon-vii"]
    parts, why = mechanism.realised("cu-mask", 60, [("a", 30), ("b", 30)], chip)
    assert not why
    assert not [one for one in lint([Masked(p.name or "", p.cu_mask or 0) for p in parts], chip) if one.error]
    assert "no disjoint masks" in mechanism.realised("cu-mask", 60, [("a", 45), ("b", 16)], chip)[1]


@pytest.mark.parametrize(("percentage", "units"), [(27, 34), (25, 32), (29, 38), (100, 132), (26, 34), (1, 0), (7, 8)])
def test_what_an_h200_guarantees(percentage: int, units: int) -> None:
    """Measured on 132 SMs (docs/hardware): the even number below the percentage.  The 8 SMs of 1 % do not count."""
    assert guaranteed(percentage, 132) == units
    least = percentage_of(units, 132)
    assert not units or guaranteed(least, 132) >= units > guaranteed(least - 1, 132)


def test_percentages_that_are_too_many() -> None:
    """34 of 101 SMs need 34 %: 33 % are 33.3, rounded down.  So three times that are 102 %."""
    parts, why = mechanism.realised("mps", 101, [("a", 34), ("b", 34), ("c", 33)], None)
    assert [one.mps_percentage for one in parts] == [34, 34, 34]
    assert why == "as percentages of MPS the partitions need 102 %"


def test_an_odd_number_of_sms_is_not_planned(gpurt: Gpurt, tmp_path: Path) -> None:
    """Task a needs 35 of 132 SMs.  27 % were taken for 35 and are 34, so a file that says so is refused, too."""
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(GREEN)
    assert gpurt("plan", "partitions", file, "--mechanism", "mps", "-o", out)[0] == 0
    parts = load(out).taskset.partitions
    assert [(one.size, one.mps_percentage) for one in parts] == [(36, 28), (24, 19)]
    planned = "compute_units = 36\nmps_percentage = 28"
    file.write_text(out.read_text().replace(planned, "compute_units = 35\nmps_percentage = 27"))
    code, _, err = gpurt("analyze", file)
    why = "27 % of 132 are 34 units, in whole pairs, compute_units says 35; 28 % are enough"
    assert (code, why in err) == (3, True)


def test_static_partitions_of_mps(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(GREEN)
    code, _, err = gpurt("plan", "partitions", file, "--mechanism", "mps-static")
    assert (code, "say by --units how many SMs its chunks have" in err) == (2, True)
    code, _, err = gpurt("plan", "partitions", file, "--mechanism", "mps-static", "--units", "120", "-o", out)
    assert (code, "(40 SMs, 24 SMs) by `sm_partition add" in err) == (0, True), err
    name = f"GPU-{'0' * 36}/Dx4"
    out.write_text(out.read_text().replace("compute_units = 40\n", f'compute_units = 40\nmps_partition = "{name}"\n'))
    assert load(out).taskset.partitions[0].mps_partition == name
    assert gpurt("plan", "partitions", file, "--mechanism", "mps-static", "--units", "60")[0] == 1


def test_masks_are_written_and_hold(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(AMD)
    code, _, err = gpurt("plan", "partitions", file, "--mechanism", "cu-mask", "-o", out)
    assert code == 0, err
    parts = load(out).taskset.partitions
    assert all(one.cu_mask for one in parts)
    assert not [one for one in lint([Masked(p.name or "", p.cu_mask or 0) for p in parts], CHIPS["radeon-vii"])
                if one.error]  # fmt: skip


def test_one_amd_gpu_of_several(gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--gpu chooses it; without, or with a number that there is not, nothing is guessed."""
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path / "two", None, values("gfx1030"), values("radeon-vii", 129)))
    file = tmp_path / "set.toml"
    file.write_text(AMD.replace('chip = "radeon-vii"', ""))
    given = ("plan partitions", file, "--mechanism", "cu-mask")
    assert gpurt(*given, "--gpu", "1")[0] == 0
    for arguments, why in (
        ((), "2 AMD GPUs are here; name one of"),
        (("--gpu", "2"), "2 AMD GPUs are here, none with number 2"),
        (("--gpu", "0"), "has 80 CUs, the platform 60"),
    ):
        code, out, err = gpurt(*given, *arguments)
        assert (code, out, why in err) == (2, "", True), err


def test_percentages_are_written(gpurt: Gpurt, tmp_path: Path) -> None:
    file, out = tmp_path / "set.toml", tmp_path / "out.toml"
    file.write_text(EXAMPLE.replace(UNITS, ""))
    code, _, err = gpurt("plan", "partitions", file, "--mechanism", "mps", "-o", out)
    assert (code, "not isolated" in err) == (0, True)
    parts = load(out).taskset.partitions
    assert all((one.mps_percentage or 0) * 24 // 100 // 2 * 2 >= (one.size or 0) for one in parts)


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        (EXAMPLE, ["--mechanism", "cu-mask"], "no AMD GPU is here; name one of radeon-vii"),
        (EXAMPLE, ["--mechanism", "mps", "--sizes", "4:2"], "--mechanism excludes --sizes"),
        (EXAMPLE, ["--mechanism", "slices"], "Invalid value for '--mechanism'"),
        (AMD, ["--mechanism", "cu-mask", "--gpu", "0"], "--gpu: the file names its chip, radeon-vii"),
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
    code, out, err = gpurt("plan", "partitions", file, *arguments)
    assert (code, out, why in err) == (2, "", True), err
