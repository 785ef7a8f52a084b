# SPDX-License-Identifier: GPL-2.0
"""The command that reads sensors of power and energy: measure energy."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import click

from gpurt.errors import RuntimeFailure, UsageError
from gpurt.types import Document
from pycontrol.commands.options import JSON, Output, Time, command
from pycontrol.ending import asked
from pycontrol.machine.power import find
from pycontrol.machine.power.account import SensorEnergy
from pycontrol.machine.power.measure import MeterOptions, Round
from pycontrol.machine.power.measure import measure_power as measured
from pycontrol.machine.power.plan import NAME, Turn, turns
from pycontrol.machine.power.record import Record
from pycontrol.machine.power.sensor import Sensor, SensorError, SensorKind, read_sensor
from pycontrol.output import render
from pycontrol.signals import INTERRUPTED

#: How long a round of several configurations goes on before it counts, ns: clocks and temperature settle.
SETTLES = 2 * 10**9


@command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  gpurt measure energy --at-least 2s                             the sensors here, and how often each one changes
  gpurt measure energy -- ./detector --frames 1000
  gpurt measure energy --kernel mmul --units 1,2,4,8 --rounds 3 -o powers.csv -- ./mmul {units} 20
  gpurt measure energy --rounds 3 -o powers.csv -- sleep 20      the idle GPU

\b
A program that is too short for the sensor is started again until the sensor has changed 20 times.  What it writes on
stdout goes to stderr.  Several kernels (--kernel more than once) and numbers of units are measured in an order by
chance; {kernel} and {units} in the program's arguments say which.

\b
Exit codes: 0 measured, or a sensor can be read; 1 the sensor does not resolve it, is stale, or is constant, or none can
be read; 2 wrong usage; 3 a file cannot be written; 6 there is no such sensor, it failed meanwhile, or the program
failed; 130 Ctrl-C, SIGTERM or SIGHUP.""",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--sensor", "names", multiple=True, metavar="NAME",
              help="The sensor, and others to read beside it; unless given, the best one of the only GPU.")  # fmt: skip
@click.option("--rounds", default=1, show_default=True, type=click.IntRange(1, 10**6), help="How often to measure.")
@click.option("--discard", metavar="TIME", type=Time(),
              help="A round does not count before that; unless given 2s with several kernels or units, else 0s.")
@click.option("--at-least", "least", metavar="TIME", type=Time(),
              help="How long a round lasts at least; unless given 10s with sensors that average, else 0s.")  # fmt: skip
@click.option("--at-most", "most", metavar="TIME", type=Time(), default="120s", show_default=True,
              help="The program is not started again after that.")  # fmt: skip
@click.option("--interval", metavar="TIME", type=Time(), default="10ms", show_default=True, help="Between readings.")
@click.option("--kernel", "kernels", metavar="NAME", multiple=True,
              help="What the program runs; kernels side by side as A+B.")
@click.option("--units", metavar="NUMBERS", help="The SMs or CUs of a kernel; 1,2,4 for several; 4+2 for A+B.")
@click.option("--gpu-name", "gpu", metavar="NAME", help="The GPU's name, for the file.")
@click.option("--gpu-clock", "clock", metavar="CLOCK",
              help='The clock that the GPU is locked to, such as "1725MHz", for the file.')  # fmt: skip
@click.option("-o", "--output", type=Output(), help="Add a line for each round to this CSV file.")
@click.option("--samples", type=Output(), help="Add every reading to this CSV file.")
@JSON
def energy_command(
    command: tuple[str, ...], names: tuple[str, ...], rounds: int, discard: int | None, least: int | None,
    most: int, interval: int, kernels: tuple[str, ...], units: str | None, gpu: str | None, clock: str | None,
    output: Path | None, samples: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a program, and say what energy the GPU needs meanwhile; without one, list the sensors.

    A sensor that vanishes, Ctrl-C, SIGTERM and SIGHUP end the measurement; what was measured is printed and in files.
    """
    if not command and (kernels or units or output or samples):
        raise UsageError("name a program to measure")
    if not command:
        return _list(least or 0, as_json)
    label, plan = _label(gpu, clock), turns(command, kernels, units, rounds)
    if interval <= 0:
        raise UsageError("--interval: must be longer than 0")
    if output and samples and output.resolve() == samples.resolve():
        raise UsageError("-o and --samples name the same file")
    sensors = find.chosen_sensors(names)
    if discard is None:
        discard = SETTLES if len({turn.command for turn in plan}) > 1 else 0
    options = MeterOptions(interval, least, most, discard)
    record, found, ended = Record(output, samples, sensors), list[Round](), ""
    with contextlib.closing(record), asked() as noted:
        for turn in plan:
            if ended:
                break
            try:
                found.append(measured(sensors, turn.command, options, record.reading, noted))
                _keep(record, {**label, "kernel": turn.kernel, "units": turn.units or "0"}, sensors, found[-1])
            except SensorError as error:  # between two rounds
                if not found:
                    raise
                ended = str(error)
            early = noted.is_set() and len(found) < len(plan)
            ended = ended or found[-1].why or ("interrupted" if early else "")
    useless = ended or next((one.useless for one in found if one.useless), "")
    notes = _notes(sensors, found)
    whole = {
        "program": command, "complete": not ended, "interrupted": noted.is_set(), "why": useless or None,
        "rounds": [_data(turn, sensors, one) for turn, one in zip(plan, found, strict=False)],
        "files": [path for path in (output, samples) if path], "notes": notes,
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    render.emit(whole, as_json, _text(plan, sensors, found, ended, useless))
    if noted.is_set():
        return INTERRUPTED
    return RuntimeFailure.exit_code if ended else 1 if useless else 0


def _keep(record: Record, label: dict[str, str], sensors: list[Sensor], one: Round) -> None:
    """Writes what a round says, for each sensor that says something."""
    for sensor, energy in zip(sensors, one.energies, strict=True):
        if not one.why and not energy.why:
            record.measurement({**label, **_row(sensor, one, energy)})


def _label(gpu: str | None, clock: str | None) -> dict[str, str]:
    """The GPU's name and clock, as the user gives them; empty if not given.  Raises UsageError."""
    if gpu is not None and not NAME.fullmatch(gpu):
        raise UsageError("--gpu-name: expected a name of letters, digits, '.', '_' and '-'")
    if clock is not None and not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?(MHz|GHz)", clock):
        raise UsageError('--gpu-clock: expected a clock such as "1725MHz"')
    return {"gpu": gpu or "", "clock": clock or ""}


def _row(sensor: Sensor, one: Round, energy: SensorEnergy) -> dict[str, object]:
    return {
        "sensor": sensor.about.name, "runs": one.runs, "time_ns": energy.time, "energy_uj": energy.energy,
        "power_uw": energy.power, "error_uw": energy.power_error, "updates": energy.updates,
    }  # fmt: skip


def _data(turn: Turn, sensors: list[Sensor], one: Round) -> Document:
    """The JSON object of a round."""
    energies = []
    for sensor, energy in zip(sensors, one.energies, strict=True):
        counter = sensor.about.kind is SensorKind.COUNTER
        energies.append({
            "name": sensor.about.name, "reads": sensor.about.kind, "scope": sensor.about.scope,
            "time_ns": energy.time, "energy_uj": energy.energy, "power_uw": energy.power, "error_uj": energy.error,
            "error_uw": energy.power_error, "error_bounded": energy.bounded, "changes": energy.updates,
            "step_uj": energy.step if counter else None, "step_uw": None if counter else energy.step,
            "why": energy.why or None,
        })  # fmt: skip
    about = {"about": turn.about, "runs": one.runs, "program_ns": one.ran, "why": one.useless or None}
    return {**about, "sensors": energies}


def _notes(sensors: list[Sensor], found: list[Round]) -> list[str]:
    """Remarks for the user."""
    notes = []
    whole = [one.energies for one in found if not one.why]
    for sensor, energies in zip(sensors, zip(*whole, strict=True), strict=bool(whole)):
        if whys := [energy.why for energy in energies if energy.why]:
            notes.append(f"{sensor.about.name}: {whys[0]}")
        elif not all(energy.bounded for energy in energies):
            notes.append(f"{sensor.about.name}: samples of power have no error bound: between them it may be anything")
    runs, ran = sum(one.runs for one in found), sum(one.ran for one in found)
    passed = sum(one.energies[0].time for one in found)
    if runs > len(found) and passed > 0 and ran * 100 < passed * 95:
        share = 100 * ran / passed
        notes.append(f"the program itself ran {share:.1f} % of the time; the rest is for starting it {runs} times")
    return notes


def _text(
    plan: list[Turn], sensors: list[Sensor], found: list[Round], ended: str, useless: str
) -> str:  # fmt: skip
    headers = ("round", "of", "sensor", "runs", "s", "J", "+- J", "mean W", "+- W", "changes", "step")
    rows = []
    for index, one in enumerate(found, 1):
        for sensor, energy in zip(sensors, one.energies, strict=True):
            numbers = (energy.energy, energy.error, energy.power, energy.power_error)
            unit = "J" if sensor.about.kind.value == "counter" else "W"
            cells = (f"{energy.time / 1e9:.6f}", *(f"{number / 1e6:.6f}" for number in numbers))
            step = f"{energy.step / 1e6:.6f} {unit}"
            what = plan[index - 1].about, sensor.about.name
            rows.append((str(index), *what, str(one.runs), *cells, str(energy.updates), step))
    lines = [render.table(headers, rows)]
    if useless:
        lines.append(f"ENDED EARLY: {ended}" if ended else f"NOT MEASURED: {useless}")
    return "\n".join(lines)


def _list(watch: int, as_json: bool) -> int:
    """Prints the sensors, what they say, how often they change in ``watch`` ns, and why others are absent.

    Returns the exit code.
    """
    found, absent = find.every()
    rows = _watched(found, watch)
    still = f"did not change in {watch / 1e9:g} s: is it stuck?"
    notes = [f"{one['name']}: {one['why'] or still}" for one in rows if one["why"] or one["changes"] == 0]
    render.note(*notes, as_json=as_json)
    whole = {"sensors": rows, "absent": absent, "notes": notes}
    cells = [(row["name"], row["about"], row["reads"].value, row["scope"].value, _now(row), _changes(row))
             for row in rows]  # fmt: skip
    headers = ("sensor", "of", "reads", "scope", "now", "changes")
    lines = [render.table(headers, cells)] if rows else ["there is no sensor that can be read"]
    if absent:
        lines += ["", render.table(("absent", "why"), [(one.name, one.why) for one in absent])]
    render.emit(whole, as_json, "\n".join(lines))
    return 0 if rows else 1


def _watched(found: list[Sensor], watch: int) -> list[Document]:
    """A row for each sensor, with what it says now, and how often it changed meanwhile."""
    last: list[int | None] = [None] * len(found)
    changes, whys = [0] * len(found), list[str | None]([None] * len(found))
    until = time.monotonic_ns() + watch
    while True:
        for index, sensor in enumerate(found):
            try:
                value = read_sensor(sensor).value
                changes[index] += last[index] not in (None, value)
                last[index] = value
            except SensorError as error:
                whys[index] = str(error)
        if time.monotonic_ns() >= until:
            break
        time.sleep(0.002)
    rows = []
    for sensor, now, changed, why in zip(found, last, changes, whys, strict=True):
        about, counter = sensor.about, sensor.about.kind is SensorKind.COUNTER
        rows.append({
            "name": about.name, "about": about.what, "reads": about.kind, "scope": about.scope,
            "wrap_uj": about.range, "energy_uj": now if counter else None, "power_uw": None if counter else now,
            "changes": changed if watch else None, "why": why,
        })  # fmt: skip
    return rows


def _now(row: Document) -> str:
    if row["energy_uj"] is not None:
        return f"{row['energy_uj'] / 1e6:.6f} J"
    return "-" if row["power_uw"] is None else f"{row['power_uw'] / 1e6:.6f} W"


def _changes(row: Document) -> str:
    return "-" if row["changes"] is None else str(row["changes"])
