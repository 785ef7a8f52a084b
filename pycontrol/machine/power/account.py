# SPDX-License-Identifier: GPL-2.0
"""Energy of a window of time from a sensor's readings, with what can be said about its error.  Integers only.

A window begins and ends at readings.  Nothing is stored for each reading, so a window may last for days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pycontrol.machine.power.sensor import Reading, SensorError, SensorFacts, SensorKind

#: A counter that stands still for that long, ns, and for that many times its usual time between updates, is stale.
STALE, STALE_UPDATES = 10**9, 10
#: Fewer updates than this in a window resolve nothing.
ENOUGH = 20
_FJ = 10**9  # in a microjoule


@dataclass(frozen=True, slots=True)
class SensorEnergy:
    """The energy of a window, as a sensor tells it.

    ``error``: uJ; if ``bounded``, the true energy differs by no more, if the counter is right whenever it changes.
    Otherwise it is how far the readings leave the energy open: half the change between neighbours, over time.
    ``step``: the largest change between two readings, uJ or uW.  ``late``: how long after (or before) its time the
    window's edges may have been read, ns.  ``why``: what makes the numbers useless; empty if nothing does.
    """

    time: int
    energy: int
    error: int
    bounded: bool
    updates: int
    step: int
    late: int
    why: str

    @property
    def power(self) -> int:
        """Mean power, uW."""
        return round_div(self.energy * _FJ, self.time) if self.time else 0

    @property
    def power_error(self) -> int:
        """The error of the mean power, uW, rounded up: that of the energy, and that of the time."""
        return -(-(self.error * _FJ + abs(self.power) * self.late) // max(self.time - self.late, 1))


class Account(Protocol):
    """Adds readings up."""

    updates: int

    def feed(self, reading: Reading) -> None:
        """The next reading.  Raises SensorError if it cannot follow the one before."""

    def begin(self) -> None:
        """The window begins at the last reading."""

    def end(self) -> None:
        """The window ends at the last reading; more of them may tell the error."""

    @property
    def settled(self) -> bool:
        """Whether further readings would tell nothing about a window that ended."""
        ...

    def energy(self) -> SensorEnergy:
        """The window's energy."""
        ...


def account(about: SensorFacts) -> Account:
    """An empty account for readings of a sensor."""
    return CounterAccount(about) if about.kind is SensorKind.COUNTER else PowerAccount(about)


def round_div(a: int, b: int) -> int:
    """a / b to the nearest integer; b > 0."""
    return (2 * a + b) // (2 * b)


class CounterAccount:
    """Readings of an energy counter.

    Let the window be read at b and f, and c be the counter.  The counter is the true energy at some instant before the
    reading.  At the next change the counter grows to the true energy of a later instant.  So true(b) is in
    [c(b), c(b) + s], where s is the first change seen after b, and true(f) likewise.  Hence the error is at most the
    larger of both changes plus the counter's resolution, since the counter may truncate.  A counter's range may be its
    largest value, after which 0 is one unit of its 32 bits more: each wrap may lack that.
    """

    def __init__(self, about: SensorFacts) -> None:
        self._about = about
        self._last: Reading | None = None
        self._changed: Reading | None = None  # the first reading with the present value
        self._total = 0
        self._begin: tuple[int, Reading] | None = None
        self._end: tuple[int, Reading] | None = None
        self._first_step = self._end_step = 0
        self.updates, self._step, self._still, self._wraps = 0, 0, 0, 0

    def feed(self, reading: Reading) -> None:
        """The next reading.  Raises SensorError if the counter went back, for which nobody knows the energy."""
        last = self._last
        self._last = reading
        if last is None or self._changed is None:
            self._changed = reading
            return
        delta = self._since(last, reading)
        if not delta:
            if self._end is None:
                self._still = max(self._still, reading.begin - self._changed.end)
            return
        self._changed = reading
        self._total += delta
        if self._end is None:
            self.updates += 1
            self._step = max(self._step, delta)
            self._first_step = self._first_step or delta
        else:
            self._end_step = self._end_step or delta

    def _since(self, last: Reading, reading: Reading) -> int:
        delta, wraps, name = reading.value - last.value, self._about.range, self._about.name
        if delta >= 0:
            return delta
        if wraps is None:
            raise SensorError(f"{name}: the counter went back from {last.value} to {reading.value} uJ")
        if max(last.value, reading.value) > wraps or delta + wraps > wraps // 2:
            text = f"{name}: the counter went from {last.value} to {reading.value} uJ, which is no wrap at {wraps}"
            raise SensorError(text)
        self._wraps += 1
        return delta + wraps

    def begin(self) -> None:
        """The window begins at the last reading."""
        assert self._last is not None
        self._begin, self._end = (self._total, self._last), None
        self._changed = self._last  # so that standing still counts from here
        self._first_step = self._end_step = self.updates = self._step = self._still = self._wraps = 0

    def end(self) -> None:
        """The window ends at the last reading."""
        assert self._last is not None
        self._end = self._total, self._last

    @property
    def settled(self) -> bool:
        """Whether the first change after the window was seen."""
        return self._end_step > 0

    def energy(self) -> SensorEnergy:
        """The window's energy."""
        assert self._begin is not None
        assert self._end is not None
        (before, first), (after, last) = self._begin, self._end
        time, step = last.at - first.at, max(self._first_step, self._end_step)
        late = (first.end - first.begin + last.end - last.begin + 1) // 2
        error = step + self._about.resolution + self._wraps * (((self._about.range or 0) >> 32) + 1)
        return SensorEnergy(time, after - before, error, self.settled, self.updates, self._step, late, self._why(time))

    def _why(self, time: int) -> str:
        if not self.updates:
            return f"the counter stood still for all of {time / 1e9:.3f} s"
        if self._still > max(STALE, STALE_UPDATES * time // self.updates):
            usual = f"it changed {self.updates} times in {time / 1e9:.3f} s"
            return f"the counter is stale: it stood still for {self._still / 1e9:.3f} s, though {usual}"
        if self.updates < ENOUGH:
            return f"the counter changed only {self.updates} times, and {ENOUGH} are needed to resolve anything"
        return "" if self.settled else "the counter did not change after the program, which would tell its error"


class PowerAccount:
    """Readings of power: the trapezoids under them."""

    def __init__(self, about: SensorFacts) -> None:
        self._about = about
        self._last: Reading | None = None
        self._begin: Reading | None = None
        self._end: Reading | None = None
        self._area = self._spread = 0  # twice the energy and twice the error, fJ
        self.updates, self._step = 0, 0

    def feed(self, reading: Reading) -> None:
        """The next reading."""
        last = self._last
        if last is not None and self._end is None:
            time, change = reading.at - last.at, abs(reading.value - last.value)
            self._area += (last.value + reading.value) * time
            self._spread += change * time
            self._step = max(self._step, change)
            self.updates += change > 0
        self._last = reading

    def begin(self) -> None:
        """The window begins at the last reading."""
        assert self._last is not None
        self._begin, self._end = self._last, None
        self._area = self._spread = self.updates = self._step = 0

    def end(self) -> None:
        """The window ends at the last reading."""
        self._end = self._last

    @property
    def settled(self) -> bool:
        """Always: nothing after the window matters."""
        return True

    def energy(self) -> SensorEnergy:
        """The window's energy."""
        assert self._begin is not None
        assert self._end is not None
        first, last = self._begin, self._end
        time, energy = last.at - first.at, round_div(self._area, 2 * _FJ)
        late = (first.end - first.begin + last.end - last.begin + 1) // 2
        why = ""
        if not self.updates:
            why = f"the sensor said {last.value / 1e6:.6f} W all of {time / 1e9:.3f} s: a constant is no measurement"
        elif self.updates < ENOUGH:
            why = f"the sensor changed only {self.updates} times, and {ENOUGH} are needed to resolve anything"
        return SensorEnergy(time, energy, -(-self._spread // (2 * _FJ)), False, self.updates, self._step, late, why)
