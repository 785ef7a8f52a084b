# SPDX-License-Identifier: GPL-2.0
"""The energy that a program costs: the program is repeated until the sensors resolve its energy."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

from pycontrol.machine.power.account import ENOUGH, Account, SensorEnergy, account
from pycontrol.machine.power.program import Program
from pycontrol.machine.power.sensor import Reading, Sensor, SensorError, SensorKind, read_sensor

#: A sensor that averages over a second says little about a window that is not much longer, ns.
LONG_ENOUGH = 10 * 10**9
#: How long the first change of a counter after the program is waited for, ns.
COUNTER_PATIENCE_NS = 2 * 10**9
#: How long is waited between readings that look for that change, ns: what is seen late makes the error larger.
COUNTER_PAUSE_NS = 10**6
_S = 10**9


@dataclass(frozen=True)
class MeterOptions:
    """How to measure: times in ns.

    ``interval``: between readings.  ``least``: how long a measurement lasts; None: 10 s if a sensor averages, else 0.
    ``most``: the program is not started again after that.  ``discard``: how long the program runs, and is started
    again, before what is read counts.
    """

    interval: int = 10**7
    least: int | None = None
    most: int = 120 * _S
    discard: int = 0

    def least_for(self, sensors: Sequence[Sensor]) -> int:
        """How long a measurement with these sensors lasts."""
        if self.least is not None:
            return self.least
        return LONG_ENOUGH if any(sensor.about.kind is SensorKind.AVERAGE for sensor in sensors) else 0


@dataclass
class Round:
    """One measurement.  ``ran``: how long the program itself was running, ns.  ``energies``: by sensor.

    ``why``: why it ended early; empty if it did not.
    """

    runs: int = 0
    ran: int = 0
    energies: list[SensorEnergy] = field(default_factory=list)
    why: str = ""

    @property
    def useless(self) -> str:
        """Why the first sensor's numbers mean nothing; empty if they mean something."""
        return self.why or next((energy.why for energy in self.energies[:1] if energy.why), "")


#: Takes each reading, with its sensor's name.
Log = Callable[[str, Reading], None]


def measure_power(
    sensors: Sequence[Sensor], command: Sequence[str], options: MeterOptions, log: Log, noted: Event
) -> Round:
    """Runs the program, at least once and until every sensor has changed often enough, and reads the sensors.

    A sensor that fails ends the measurement, but not the program.  Both end when ``noted`` is set.  The
    readings until then count.

    Raises:
        RuntimeFailure: the program cannot be started.
        SensorError: a sensor cannot be read at the beginning.
    """
    found = Round()
    accounts = [account(sensor.about) for sensor in sensors]

    def sample() -> None:
        for sensor, one in zip(sensors, accounts, strict=True):
            reading = read_sensor(sensor)
            log(sensor.about.name, reading)
            one.feed(reading)

    sample()
    for one in accounts:
        one.begin()
    try:
        _repeat(found, command, options, options.least_for(sensors), accounts, sample, noted)
    except SensorError as error:
        found.why = str(error)
    for one in accounts:
        one.end()
    if not found.why:
        with contextlib.suppress(SensorError):  # then the error remains unknown, and the account says so
            _settle(accounts, options, sample, noted)
    found.energies = [one.energy() for one in accounts]
    return found


def _repeat(
    found: Round, command: Sequence[str], options: MeterOptions, least: int, accounts: Sequence[Account],
    sample: Callable[[], None], noted: Event,
) -> None:  # fmt: skip
    """Runs the program until there is nothing more to learn."""
    begin, counts = time.monotonic_ns() + options.discard, not options.discard

    def look() -> None:
        """Reads the sensors; the window begins at the first readings after what is discarded, however late they are."""
        nonlocal counts, begin
        now = time.monotonic_ns()
        sample()
        if not counts and now >= begin:
            counts, begin, found.runs, found.ran = True, time.monotonic_ns(), 0, 0
            for one in accounts:
                one.begin()

    while True:
        program = Program(command)
        try:
            while not program.wait(options.interval / _S) and not noted.is_set():
                look()
        except SensorError:
            _finish(program, noted)
            _count(found, program, begin)
            raise
        except BaseException:
            program.stop()
            raise
        if noted.is_set():
            program.stop()
            _count(found, program, begin)
            found.why = "interrupted"
            sample()
            return
        now = time.monotonic_ns()  # before the readings: between those at the window's edges is no less time
        look()
        _count(found, program, begin)
        if found.why:
            return
        passed = now - begin
        if not counts:
            continue
        if passed >= options.most or (passed >= least and all(one.updates >= ENOUGH for one in accounts)):
            return


def _finish(program: Program, noted: Event) -> None:
    """Lets a program end whose measurement is over."""
    while not program.wait(0.1):
        if noted.is_set():
            program.stop()


def _count(found: Round, program: Program, begin: int) -> None:
    """Counts one more run; its time before ``begin`` does not count."""
    found.runs += 1
    found.ran += max(0, program.end - max(program.begin, begin))
    found.why = program.failure


def _settle(accounts: Sequence[Account], options: MeterOptions, sample: Callable[[], None], noted: Event) -> None:
    """Reads on until counters have changed once more, which tells their error."""
    until = time.monotonic_ns() + COUNTER_PATIENCE_NS
    while not all(one.settled for one in accounts) and time.monotonic_ns() < until and not noted.is_set():
        time.sleep(min(options.interval, COUNTER_PAUSE_NS) / _S)
        sample()
