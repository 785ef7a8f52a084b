# SPDX-License-Identifier: GPL-2.0
"""The fields of the tables [[gpu]] and [[profile]], and of [[task]] for energy plans."""

from __future__ import annotations

from analysis.model import Kernel
from analysis.model.energy import MAX_ENERGY_TIME_NS, MAX_SLOTS, MAX_UNITS, STRONGEST
from analysis.taskset import schema
from analysis.taskset.fields import NAME, PLATFORM, TASK
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Field, Mistakes, ValueKind
from gpurt.types import TomlValue
from gpurt.units import POWER_PATTERN, TIME_PATTERN, parse_power


def power(low: int = 0) -> ValueKind:
    """A power with a unit, at least ``low`` uW, read as microwatts."""

    def read(value: TomlValue, path: Where, report: Mistakes) -> int | None:
        if not isinstance(value, str):
            report.add(path, f'{path[-1]}: expected a power such as "46W" or "445mW"')
            return None
        try:
            microwatts = parse_power(value)
        except ValueError as error:
            report.add(path, f"{path[-1]}: {error}")
            return None
        if low <= microwatts <= STRONGEST:
            return microwatts
        report.add(path, f"{path[-1]}: must be {'more than 0 and ' if low else ''}at most 1 MW")
        return None

    return ValueKind(read, {"type": "string", "pattern": POWER_PATTERN})


def short_time(low: int = 0) -> ValueKind:
    """A time of at most 13 days, so that sums of such times fit into 64 bits."""
    plain = schema.time(low)

    def read(value: TomlValue, path: Where, report: Mistakes) -> int | None:
        ns: int | None = plain.read(value, path, report)
        if ns is not None and ns > MAX_ENERGY_TIME_NS:
            report.add(path, f"{path[-1]}: is longer than 13 days")
            return None
        return ns

    return ValueKind(read, {"type": "string", "pattern": TIME_PATTERN})


_TABLE = schema.array(schema.span(), "an array of times, or { work, saturates }")
_FORMULA = schema.table_of_fields({
    "work": Field(short_time(1), "e(1)", required=True),
    "saturates": Field(schema.integer(1, MAX_UNITS), "units beyond which nothing is gained", required=True),
})  # fmt: skip


def times() -> ValueKind:
    """Kernel times by number of units: [e(1), ..., e(M)], or { work, saturates }: e(m) = work / min(m, saturates)."""

    def read(value: TomlValue, path: Where, report: Mistakes) -> Kernel | None:
        if isinstance(value, dict):
            formula = _FORMULA.read(value, path, report)
            return formula and Kernel.saturating(formula["work"], formula["saturates"])
        table = _TABLE.read(value, path, report)
        if table is None:
            return None
        for index, span in enumerate(table):
            if not 0 < span.worst <= MAX_ENERGY_TIME_NS:
                report.add((*path, index), f"{path[-1]}: a kernel time is longer than 0 and at most 13 days")
                return None
        return Kernel.measured(table)

    return ValueKind(read, {"anyOf": [_TABLE.schema, _FORMULA.schema]})


CLOCK = schema.string("^[0-9]{1,6}(\\.[0-9]{1,3})?(MHz|GHz)$", 'a clock such as "1725MHz"')
GPU = {
    "name": Field(NAME, "the GPU's name, used once", required=True),
    "type": Field(NAME, "the name under which profiles know it; its own unless given"),
    "compute_units": Field(schema.integer(1, MAX_UNITS), "M, its SMs or CUs", required=True),
    "limit": Field(schema.integer(1, MAX_UNITS), "L, how many of them jobs may use; all unless given"),
    "granularity": Field(schema.integer(1, MAX_UNITS), "jobs get multiples of this number of units; 1 unless given"),
    "slots": Field(schema.integer(1, MAX_SLOTS), "how many kernels may execute at a time; 2 unless given"),
    "static_power": Field(power(1), "power that always flows", required=True),
    "idle_power": Field(power(), "power of one idle unit while a kernel executes", required=True),
    "clock": Field(CLOCK, "the clock that powers and times were measured at"),
}
ON = {
    "gpu": Field(NAME, "the type of GPU", required=True),
    "copy_in": Field(short_time(), "time of the copy to the GPU; 0 unless given"),
    "copy_out": Field(short_time(), "time of the copy back; 0 unless given"),
    "kernel": Field(times(), "kernel times by number of units", required=True),
    "power": Field(power(1), "power of one active unit", required=True),
    "measured_power": Field(
        schema.array(power(), "an array of powers"),
        "power of the whole GPU, static included, while the kernel executes alone on 1 to M units",
    ),
    "clock": Field(CLOCK, "the clock that this was measured at"),
    "source": Field(schema.string("^[^\\u0000]*$", "a string without NUL"), "where the numbers are from"),
}
PROFILE = {
    "name": Field(NAME, "the profile's name, used once", required=True),
    "on": Field(
        schema.array(schema.table_of_fields(ON), "[[profile.on]] tables"), "its times and power on a GPU", required=True
    ),
}
FROM_FILE = {"file": Field(schema.string("^[^\\u0000]+$", "a path"), "a file with [[profile]] tables", required=True)}
TASKS = {
    **{key: Field(one.kind, one.about) for key, one in TASK.items()},
    "name": TASK["name"],
    "period": Field(short_time(1), "minimum time between releases", required=True),
    "deadline": Field(short_time(1), "relative deadline; the period unless given"),
    "offset": Field(short_time(), "first release; 0 unless given"),
    "segments": TASK["segments"],
}
MACHINE = schema.table_of_fields(PLATFORM)
