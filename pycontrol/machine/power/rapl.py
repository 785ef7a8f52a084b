# SPDX-License-Identifier: GPL-2.0
"""The host's CPU packages and memory: RAPL, as /sys/class/powercap shows it (also on AMD CPUs).

The counters wrap at max_energy_range_uj.  Since Linux 5.10 only root may read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycontrol.machine.power import sysfs
from pycontrol.machine.power.sensor import Absent, Scope, SensorError, SensorFacts, SensorKind

_ZONE = re.compile(r"intel-rapl(-[a-z]+)?(:[0-9]+)+")


@dataclass(frozen=True)
class Zone:
    """A RAPL zone, such as a package; ``path``: its folder."""

    path: Path
    about: SensorFacts

    def value(self) -> int:
        """Its energy counter, uJ."""
        return sysfs.natural(self.path / "energy_uj")


def find() -> Iterator[Zone | Absent]:
    """All zones; those inside a package are parts of it."""
    for path in sysfs.matching_sysfs("class/powercap/intel-rapl*:*"):
        if not _ZONE.fullmatch(path.name):
            continue
        label = sysfs.word(path / "name") or "unnamed"
        name = path.name.removeprefix("intel-")
        try:
            wraps = sysfs.natural(path / "max_energy_range_uj")
            if wraps == 0:
                raise SensorError(f"{path}/max_energy_range_uj: is 0, so that nobody knows where the counter wraps")
            sysfs.natural(path / "energy_uj")
        except SensorError as error:
            yield Absent(name, str(error))
            continue
        yield Zone(path, SensorFacts(name, f"RAPL {label}", SensorKind.COUNTER, Scope.HOST, wraps))
