# SPDX-License-Identifier: GPL-2.0
"""AMD GPUs: the hwmon device of amdgpu.  power1_average or, on newer parts, only power1_input; uW."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycontrol.machine.power import sysfs
from pycontrol.machine.power.sensor import Absent, Scope, SensorError, SensorFacts, SensorKind

#: File -> the last word of the sensor's name, and what its numbers are.
FILES = {"power1_input": ("input", SensorKind.INSTANT), "power1_average": ("average", SensorKind.AVERAGE)}


@dataclass(frozen=True)
class Power:
    """One of the two power files of a GPU."""

    path: Path
    about: SensorFacts

    def value(self) -> int:
        """The power, uW."""
        return sysfs.natural(self.path)


def find() -> Iterator[Power | Absent]:
    """The power sensors of all GPUs that amdgpu drives."""
    for hwmon in sysfs.matching_sysfs("class/hwmon/hwmon*"):
        if sysfs.word(hwmon / "name") != "amdgpu":
            continue
        place = (hwmon / "device").resolve().name if (hwmon / "device").exists() else hwmon.name
        label = sysfs.word(hwmon / "power1_label") or "power"
        files = [file for file in FILES if (hwmon / file).exists()]
        if not files:
            yield Absent(f"amdgpu:{place}", f"{hwmon} has neither power1_average nor power1_input")
        for file in files:
            suffix, kind = FILES[file]
            name = f"amdgpu:{place}:{suffix}"
            sensor = Power(hwmon / file, SensorFacts(name, f"amdgpu {label}", kind, Scope.BOARD))
            try:
                sensor.value()
            except SensorError as error:
                yield Absent(name, str(error))
            else:
                yield sensor
