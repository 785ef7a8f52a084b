# SPDX-License-Identifier: GPL-2.0
"""The interface of all sensors.  A sensor that is absent, or cannot be read, is an error and never 0.

Times are integer nanoseconds of CLOCK_MONOTONIC, energies integer microjoules, powers integer microwatts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gpurt.errors import RuntimeFailure


class SensorError(RuntimeFailure):
    """A sensor is absent, cannot be read, or gives no number."""


class SensorKind(Enum):
    """The meaning of a sensor's numbers."""

    COUNTER = "counter"  # energy since some time in the past, uJ
    INSTANT = "instant"  # power at a time, uW
    AVERAGE = "average"  # mean power of about the last second, uW


class Scope(Enum):
    """What a sensor sees."""

    GPU = "gpu"
    BOARD = "board"  # the GPU with its memory and voltage regulators
    RAIL = "rail"  # a supply that the GPU shares with others, or that is not the GPU's
    HOST = "host"


@dataclass(frozen=True, slots=True)
class SensorFacts:
    """The facts that are known of a sensor without reading it.

    ``range``: a counter that reaches it goes on at 0; None if it never wraps.  ``resolution``: the least difference
    of two values; uJ or uW.
    """

    name: str
    what: str
    kind: SensorKind
    scope: Scope
    range: int | None = None
    resolution: int = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, uJ or uW, which the sensor had at some time from ``begin`` to ``end``."""

    begin: int
    end: int
    value: int

    @property
    def at(self) -> int:
        """The middle of that time."""
        return (self.begin + self.end) // 2


class Sensor(Protocol):
    """A source of readings."""

    @property
    def about(self) -> SensorFacts:
        """The known facts of the sensor."""
        ...

    def value(self) -> int:
        """The present value, uJ or uW.  Raises SensorError if there is none."""
        ...


def read_sensor(sensor: Sensor) -> Reading:
    """A value, and when it was read.  Raises SensorError."""
    begin = time.monotonic_ns()
    value = sensor.value()
    return Reading(begin, time.monotonic_ns(), value)


@dataclass(frozen=True, slots=True)
class Absent:
    """Something that looks like a sensor, or could have some, and why there is none."""

    name: str
    why: str
