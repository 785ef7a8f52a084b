# SPDX-License-Identifier: GPL-2.0
"""Sensors on fake sysfs trees and on a fake NVML: units, names, and that what is absent is an error and never 0."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import power_trees as trees
import pytest

from gpurt.errors import UsageError
from pycontrol.machine.power import amdgpu, find, nvml, rapl, sysfs, tegra
from pycontrol.machine.power.sensor import Absent, Scope, Sensor, SensorError, SensorKind


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sysfs, "ROOT", tmp_path)
    return tmp_path


def split(found: Iterator[Any]) -> tuple[dict[str, Sensor], dict[str, str]]:
    """Sensors by name, and why others are absent."""
    every = list(found)
    absent = {one.name: one.why for one in every if isinstance(one, Absent)}
    return {one.about.name: one for one in every if not isinstance(one, Absent)}, absent


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so it becomes another user for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_nothing_is_there(root: Path) -> None:
    for family in (rapl, amdgpu, tegra):
        assert list(family.find()) == []


def test_rapl_zones(root: Path) -> None:
    trees.rapl(root, energy=123_456)
    trees.rapl(root, "intel-rapl:0:1", 7)
    trees.rapl(root, "intel-rapl-mmio:0", 8)
    (root / "class/powercap/intel-rapl").mkdir()
    found, absent = split(rapl.find())
    assert {name: one.value() for name, one in found.items()} == {
        "rapl:0": 123_456, "rapl:0:1": 7, "rapl-mmio:0": 8}  # fmt: skip
    about = found["rapl:0"].about
    assert (about.kind, about.scope, about.range) == (SensorKind.COUNTER, Scope.HOST, 262_143_328_850)
    assert absent == {}


@pytest.mark.parametrize(
    ("energy", "most", "why"),
    [("", 100, "expected an integer, got ''"), ("x\x1b[2J", 100, "expected an integer"), (-5, 100, "is negative: -5"),
     (5, 0, "nobody knows where the counter wraps"), ("9" * 30, 100, "expected an integer"), ("1e3", 9, "an integer")],
)  # fmt: skip
def test_rapl_zones_with_wrong_numbers_are_absent(root: Path, energy: object, most: object, why: str) -> None:
    trees.rapl(root, energy=energy, most=most)
    found, absent = split(rapl.find())
    assert found == {}
    assert why in absent["rapl:0"]
    assert absent["rapl:0"].isprintable()


def test_rapl_without_permission_says_so(root: Path) -> None:
    counter = trees.rapl(root)
    (zone,) = split(rapl.find())[0].values()
    counter.chmod(0)
    with as_nobody(), pytest.raises(SensorError, match="energy_uj: cannot be read: only root may read it"):
        zone.value()


def test_amdgpu_prefers_the_instant_and_reads_microwatts(root: Path) -> None:
    trees.amdgpu(root, 3, {"power1_average": 31_000_000, "power1_input": 30_000_000, "power1_label": "PPT"})
    trees.amdgpu(root, 4, {"power1_input": 9})
    trees.amdgpu(root, 5, {"temp1_input": 9})
    trees.amdgpu(root, 6, {"power1_input": 77}, driver="nvme")
    found, absent = split(amdgpu.find())
    assert [(name, one.value(), one.about.kind) for name, one in found.items()] == [
        ("amdgpu:0000:03:00.0:input", 30_000_000, SensorKind.INSTANT),
        ("amdgpu:0000:03:00.0:average", 31_000_000, SensorKind.AVERAGE),
        ("amdgpu:0000:04:00.0:input", 9, SensorKind.INSTANT),
    ]  # fmt: skip
    assert list(absent) == ["amdgpu:0000:05:00.0"]
    with pytest.raises(UsageError, match="several GPUs have sensors; name one"):
        find.chosen_sensors(())
    assert [one.about.name for one in find.chosen_sensors(("amdgpu:0000:04:00.0:input",))] == [
        "amdgpu:0000:04:00.0:input"
    ]


def test_a_gpu_that_goes_away_is_an_error(root: Path) -> None:
    trees.amdgpu(root, 3, {"power1_input": 30_000_000})
    (sensor,) = find.chosen_sensors(())
    assert sensor.value() == 30_000_000
    (root / "class/hwmon/hwmon3/power1_input").unlink()
    with pytest.raises(SensorError, match="the sensor is gone"):
        sensor.value()


def test_the_rail_of_an_agx_xavier_is_the_gpu_s_alone(root: Path) -> None:
    trees.ina3221(root, "1-0040", {1: ("GPU", 19_000, 210), 2: ("CPU", 19_000, 100), 3: ("SOC", 19_000, 50)})
    trees.ina3221(root, "1-0041", {1: ("CV", 19_000, 0), 2: ("NC", 0, 0), 3: ("SYS5V", 5000, -2)})
    (gpu,) = find.chosen_sensors(())
    assert (gpu.about.name, gpu.about.scope, gpu.value()) == ("tegra:1-0040:GPU", Scope.GPU, 19_000 * 210)
    found, absent = split(tegra.find())
    assert [one.split(":")[2] for one in found] == ["GPU", "CPU", "SOC", "CV", "SYS5V"]
    assert found["tegra:1-0041:CV"].value() == 0  # a reading of 0 is one
    assert found["tegra:1-0041:SYS5V"].value() == -10_000
    assert absent == {}


def test_a_board_without_a_gpu_rail_is_not_guessed_at(root: Path) -> None:
    """Xavier NX and Orin NX."""
    trees.ina3221(root, "7-0040", {1: ("VDD_IN", 5000, 900), 2: ("VDD_CPU_GPU_CV", 5000, 300), 3: ("VDD_SOC", 5000, 1)})
    with pytest.raises(UsageError, match=r"no rail is the GPU's alone; .*tegra:7-0040:VDD_CPU_GPU_CV"):
        find.chosen_sensors(())
    (chosen,) = find.chosen_sensors(("tegra:7-0040:VDD_CPU_GPU_CV",))
    assert (chosen.value(), chosen.about.scope) == (1_500_000, Scope.RAIL)


def test_a_channel_without_current_is_absent(root: Path) -> None:
    folder = trees.ina3221(root, "1-0040", {1: ("GPU", 19_000, 210)})
    (folder / "curr1_input").unlink()
    found, absent = split(tegra.find())
    assert found == {}
    assert "curr1_input: cannot be read" in absent["tegra:1-0040:GPU"]


def test_the_older_driver_of_jetsons(root: Path) -> None:
    folder = "bus/i2c/drivers/ina3221x/1-0040/iio:device0"
    trees.grow(root, {f"{folder}/rail_name_0": "GPU", f"{folder}/in_power0_input": 1234})
    (gpu,) = find.chosen_sensors(())
    assert (gpu.about.name, gpu.value()) == ("tegra:1-0040:GPU", 1_234_000)


def test_the_host_s_sensors_are_never_taken_for_a_gpu_s(root: Path) -> None:
    trees.rapl(root)
    with pytest.raises(SensorError, match="no sensor of a GPU"):
        find.chosen_sensors(())
    assert find.chosen_sensors(("rapl:0",))[0].value() == 1000
    with pytest.raises(SensorError, match="there is no sensor 'rapl:1'"):
        find.chosen_sensors(("rapl:1",))
    with pytest.raises(UsageError, match="stands twice"):
        find.chosen_sensors(("rapl:0", "rapl:0"))


def test_nvml_s_sensors(fake_nvml: Any, root: Path) -> None:
    found, absent = split(nvml.find())
    assert absent == {}
    assert list(found) == [f"nvml:0:{word}" for word in ("energy", "instant", "average", "power")]
    assert found["nvml:0:energy"].about.what == "Fake 0 GPU-00000000-0000-0000-0000-000000000000"
    assert found["nvml:0:power"].value() == found["nvml:0:average"].value() == 100_000_000
    assert 100_000_000 <= found["nvml:0:instant"].value() < 101_000_000
    assert found["nvml:0:energy"].value() % 1000 == 0
    assert [one.about.name for one in find.chosen_sensors(())] == ["nvml:0:energy"]


def test_nvml_without_an_energy_counter(fake_nvml: Any, root: Path) -> None:
    """As before Volta, and as a T400 or a Jetson may be: "not supported" is no 0."""
    fake_nvml.fake_has(0, 0, 1, 0)
    found, absent = split(nvml.find())
    assert list(found) == ["nvml:0:power"]
    assert absent == dict.fromkeys(("nvml:0:energy", "nvml:0:instant", "nvml:0:average"), "NVML says: Not Supported")
    with pytest.raises(SensorError, match="no sensor 'nvml:0:energy': NVML says: Not Supported"):
        find.chosen_sensors(("nvml:0:energy",))
    fake_nvml.fake_has(0, 0, 0, 0)
    with pytest.raises(SensorError, match="no sensor of a GPU; nvml:0:energy: NVML says: Not Supported"):
        find.chosen_sensors(())


def test_nvml_without_a_driver_or_a_gpu(fake_nvml: Any) -> None:
    fake_nvml.fake_reset(0, 1)
    assert list(split(nvml.find())[1].values()) == ["the driver has no GPU that this user may see"]
    fake_nvml.fake_reset(1, 0)
    assert list(split(nvml.find())[1].values()) == ["NVML says: Driver Not Loaded"]


def test_a_gpu_that_nvml_loses(fake_nvml: Any) -> None:
    sensor = split(nvml.find())[0]["nvml:0:energy"]
    fake_nvml.fake_lose_after(0, 1)
    sensor.value()
    with pytest.raises(SensorError, match="nvml:0:energy: NVML says: GPU is lost"):
        sensor.value()


def test_the_fake_is_strict(fake_nvml: Any) -> None:
    """The fake refuses what the real library refuses; nothing works before it is initialised."""
    import pynvml

    handle, number = ctypes.c_void_p(), ctypes.c_ulonglong()
    assert fake_nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == pynvml.NVML_ERROR_UNINITIALIZED
    assert fake_nvml.nvmlShutdown() == pynvml.NVML_ERROR_UNINITIALIZED
    assert fake_nvml.nvmlInitWithFlags(0) == 0
    assert fake_nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert fake_nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    assert fake_nvml.nvmlDeviceGetTotalEnergyConsumption(handle, None) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    stranger = ctypes.c_void_p(1)
    assert fake_nvml.nvmlDeviceGetTotalEnergyConsumption(stranger, ctypes.byref(number)) == 2
    assert fake_nvml.nvmlDeviceGetName(handle, ctypes.create_string_buffer(8), 8) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    fields = (pynvml.c_nvmlFieldValue_t * 2)()
    fields[0].fieldId, fields[1].fieldId = pynvml.NVML_FI_DEV_POWER_AVERAGE, 12345
    assert fake_nvml.nvmlDeviceGetFieldValues(handle, 0, ctypes.byref(fields)) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert fake_nvml.nvmlDeviceGetFieldValues(handle, 2, ctypes.byref(fields)) == 0
    assert (fields[0].nvmlReturn, fields[0].value.uiVal) == (0, 100_000)
    assert (fields[1].nvmlReturn, fields[1].value.uiVal) == (pynvml.NVML_ERROR_INVALID_ARGUMENT, 0xDEADBEEF)
    assert (nvml.POWER_AVERAGE, nvml.POWER_INSTANT) == (
        pynvml.NVML_FI_DEV_POWER_AVERAGE, pynvml.NVML_FI_DEV_POWER_INSTANT)  # fmt: skip


def test_nvml_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list(nvml.find()) == [Absent("nvml", "nvidia-ml-py is not installed: pip install 'gpurt[nvml]'")]
