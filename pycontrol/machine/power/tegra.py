# SPDX-License-Identifier: GPL-2.0
"""Jetson boards: the rails of their INA3221 sensors, for NVML has no power there.

Mainline and L4T 34 and newer: hwmon, in mV and mA; L4T 32: iio, in mW.  Which rail is the GPU's differs from board to
board: AGX Xavier has one for the GPU alone, Xavier NX and Orin have none.  So rails go by their labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpurt import files
from pycontrol.machine.power import sysfs
from pycontrol.machine.power.sensor import Absent, Scope, SensorError, SensorFacts, SensorKind

#: Labels of rails that feed the GPU and nothing else: AGX Xavier, TX2, TX1.
GPU_ALONE = ("GPU", "VDD_SYS_GPU", "VDD_GPU")
#: Labels of channels that nothing is connected to.
UNUSED = ("NC", "N/A")
_LABEL = re.compile(r"(?:in([123])_label|rail_name_([0-9]))")


@dataclass(frozen=True)
class Rail:
    """A channel by its voltage, mV, and its current, mA.

    The two are read one after the other: the product is inexact while the power changes.
    """

    voltage: Path
    current: Path
    about: SensorFacts

    def value(self) -> int:
        """The power, uW.  A small negative current is an offset of the sensor, and stays negative."""
        return sysfs.natural(self.voltage) * sysfs.read_number(self.current)


@dataclass(frozen=True)
class IioRail:
    """A channel of L4T 32's driver, mW."""

    path: Path
    about: SensorFacts

    def value(self) -> int:
        """The power, uW."""
        return sysfs.natural(self.path) * 1000


def find() -> Iterator[Rail | IioRail | Absent]:
    """All rails with a label, of both drivers."""
    for pattern in ("bus/i2c/drivers/ina3221/*/hwmon/hwmon*", "bus/i2c/drivers/ina3221x/*/iio:device*"):
        for folder in sysfs.matching_sysfs(pattern):
            yield from _rails(folder)


def _rails(folder: Path) -> Iterator[Rail | IioRail | Absent]:
    hwmon = folder.name.startswith("hwmon")
    chip = folder.parent.parent.name if hwmon else folder.parent.name
    for file in sorted(files.matching(folder, "*")):
        found = _LABEL.fullmatch(file.name)
        label = sysfs.word(file) if found else None
        if found is None or label is None or label in UNUSED:
            continue
        channel, name = found[1] or found[2], f"tegra:{chip}:{label}"
        alone = label in GPU_ALONE
        about = SensorFacts(
            name, f"INA3221 rail {label}", SensorKind.INSTANT, Scope.GPU if alone else Scope.RAIL, None, 1000
        )
        rail: Rail | IioRail
        if hwmon:
            rail = Rail(folder / f"in{channel}_input", folder / f"curr{channel}_input", about)
        else:
            rail = IioRail(folder / f"in_power{channel}_input", about)
        try:
            rail.value()
        except SensorError as error:
            yield Absent(name, str(error))
        else:
            yield rail
