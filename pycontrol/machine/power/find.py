# SPDX-License-Identifier: GPL-2.0
"""The sensors that this machine has, and the one that is meant."""

from __future__ import annotations

from collections.abc import Sequence

from gpurt.errors import UsageError
from pycontrol.machine.power import amdgpu, nvml, rapl, tegra
from pycontrol.machine.power.sensor import Absent, Scope, Sensor, SensorError

FAMILIES = (nvml, amdgpu, tegra, rapl)


def every() -> tuple[list[Sensor], list[Absent]]:
    """The sensors that can be read now, best first in each family, and what is absent."""
    sensors: list[Sensor] = []
    absent: list[Absent] = []
    for family in FAMILIES:
        for found in family.find():
            if isinstance(found, Absent):
                absent.append(found)
            else:
                sensors.append(found)
    return sensors, absent


def chosen_sensors(names: Sequence[str]) -> list[Sensor]:
    """The sensors of these names; without any, the best one of the only GPU.

    Raises:
        SensorError: there is no such sensor, or none of a GPU.
        UsageError: a name stands twice, or none is given and several GPUs or rails have sensors.
    """
    sensors, absent = every()
    known = {sensor.about.name: sensor for sensor in sensors}
    if len(known) < len(sensors):
        raise SensorError("two sensors have the same name; `gpurt measure energy` lists them")
    if twice := next((name for name in names if list(names).count(name) > 1), None):
        raise UsageError(f"--sensor: {twice!r} stands twice")
    for name in names:
        if name not in known:
            why = next((f": {one.why}" for one in absent if one.name == name), "; `gpurt measure energy` lists all")
            raise SensorError(f"there is no sensor {name!r}{why}")
    return [known[name] for name in names] or [_only(sensors, absent)]


def _only(sensors: Sequence[Sensor], absent: Sequence[Absent]) -> Sensor:
    """The best sensor of the only GPU."""
    of_gpus = [sensor for sensor in sensors if sensor.about.scope in (Scope.GPU, Scope.BOARD)]
    best = {sensor.about.name.rpartition(":")[0]: sensor for sensor in reversed(of_gpus)}
    if len(best) == 1:
        return next(iter(best.values()))
    if best:
        raise UsageError(f"several GPUs have sensors; name one: --sensor {', '.join(s.about.name for s in of_gpus)}")
    if rails := [sensor.about.name for sensor in sensors if sensor.about.scope is Scope.RAIL]:
        raise UsageError(f"no rail is the GPU's alone; name one: --sensor {', '.join(rails)}")
    reasons = "".join(f"; {one.name}: {one.why}" for one in absent if not one.name.startswith("rapl"))
    raise SensorError(f"this machine has no sensor of a GPU{reasons}")
