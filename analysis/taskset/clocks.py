# SPDX-License-Identifier: GPL-2.0
"""The clocks for which a file's times hold: the platform's, or those of one task that was measured by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.model import Task
from analysis.taskset import schema
from analysis.taskset.schema import Field, Mistakes
from gpurt.types import Document
from gpurt.units import format_frequency


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks during the measurement of times; None: the file does not say.

    ``cpu``: of the task's CPU, Hz.  ``governor``: the CPU's cpufreq governor.  ``gpu``: Hz.  ``temperature``: of the
    hottest sensor, degrees Celsius.
    """

    cpu: int | None = None
    governor: str | None = None
    gpu: int | None = None
    power_mode: str | None = None
    temperature: int | None = None

    @property
    def stated(self) -> bool:
        """Whether the file states any clock."""
        return self != Clocks()


_WORD = schema.string("^[A-Za-z0-9_.:+ -]{1,64}$", "up to 64 letters, digits, blanks and _.:+-")
CLOCKS = {
    "cpu": Field(schema.frequency(), "the fixed clock of the task's CPU"),
    "governor": Field(_WORD, "the governor of that CPU's clock, as cpufreq names it"),
    "gpu": Field(schema.frequency(), "the GPU's fixed clock"),
    "power_mode": Field(_WORD, "the board's power mode: nvpmodel's name of it, or the firmware's platform profile"),
    "temperature": Field(
        schema.integer(-50, 200), "temperature of the hottest sensor while the times were measured, degrees Celsius"
    ),
}


def of_tasks(tables: Document, tasks: Iterable[Task], report: Mistakes) -> dict[str, Clocks]:
    """The clocks of each task's times: its own, else the platform's.  Reports clocks that contradict each other.

    ``tables``: the tables of a file without other mistakes.
    """
    platform = _read(tables["platform"], report)
    own = {entry["name"]: (at, entry) for at, entry in enumerate(tables.get("task", []))}
    found, held = {}, dict[tuple[str, int | None], tuple[str, int | str]]()
    for task in tasks:
        at, entry = own[task.name]
        one = Clocks(**{**platform, **_read(entry, report)})
        if one.stated:
            found[task.name] = one
        for key in ("cpu", "governor", "gpu", "power_mode"):
            value, cpu = getattr(one, key), task.cpu if key in ("cpu", "governor") else None
            other, theirs = held.setdefault((key, cpu), (task.name, value)) if value is not None else ("", value)
            if theirs != value:
                where = "" if cpu is None else f" of CPU {cpu}"
                text = f"{task.name} is of {key} {shown(value)}{where}, and {other} of {shown(theirs)}"
                report.add(("task", at, "clocks"), f"clocks: what was measured of {text}: measure both at one")
    return found


def _read(table: Document, report: Mistakes) -> Document:
    return schema.read_table(table.get("clocks", {}), CLOCKS, ("clocks",), report)


def shown(value: int | str | None) -> str:
    """A clock, a governor or a power mode in words."""
    return format_frequency(value) if isinstance(value, int) else schema.quoted(str(value))
