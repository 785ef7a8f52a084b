# SPDX-License-Identifier: GPL-2.0
"""The taskset file's fields: one table that validates files and generates their JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from analysis.model import Kernel, Span
from analysis.taskset.lines import Path, line_of, lines_of
from gpurt.enums import meant_by
from gpurt.errors import Problem
from gpurt.text import near
from gpurt.types import Document, TomlValue
from gpurt.units import FREQUENCY_PATTERN, TIME_PATTERN, UNKNOWN_TIME, parse_frequency, parse_time

MAX_CPUS = 1024
MAX_PRIORITY = 99
MAX_FACTOR = 1000
MAX_UNITS = 4096


@dataclass
class Mistakes:
    """Collects every mistake with its line in a file's text."""

    text: str = ""
    problems: list[Problem] = field(default_factory=list)

    @cached_property
    def _lines(self) -> dict[Path, int]:
        """The line of each value; computed at the first mistake: it takes twice as long as reading the file."""
        try:
            return lines_of(self.text)
        except RecursionError:  # fewer frames were on the stack when TOML's reader parsed it
            return {}

    def problem(self, path: Path, message: str) -> Problem:
        """A mistake in, or an unknown fact about, the value at ``path``."""
        return Problem(line_of(self._lines, path), message)

    def add(self, path: Path, message: str) -> None:
        """Records a mistake at ``path``."""
        self.problems.append(self.problem(path, message))


#: Reads a value of one kind; reports a wrong one and returns None.
Reader = Callable[[TomlValue, Path, Mistakes], Any]


@dataclass(frozen=True)
class ValueKind:
    """A kind of value: how it is read, and its JSON Schema."""

    read: Reader
    schema: Document


@dataclass(frozen=True)
class Field:
    """One key of a table."""

    kind: ValueKind
    about: str
    required: bool = False
    #: The optimistic assumption about a table without the key; empty: its absence makes no bound smaller.
    assumes: str = ""


#: An example of a task's times, for messages.
IN_SEGMENTS = 'segments = [{ cpu = "1ms" }, { misc = "0ms", gpu = "5ms" }]'


def _name(value: object) -> str:
    if value == UNKNOWN_TIME:
        return '"?", which is still to be replaced'
    names: dict[type, str] = {
        bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array", dict: "a table"
    }  # fmt: skip
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(value: object) -> str:
    return _name(value) if value == UNKNOWN_TIME else quoted(value) if isinstance(value, str) else f"{value!r:.40}"


def integer(low: int, high: int) -> ValueKind:
    """An integer from ``low`` to ``high``."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> int | None:
        if type(value) is not int:
            cure = cure_of_time(path, value) if isinstance(value, str) else ""
            report.add(path, f"{_key(path)}: expected an integer from {low} to {high}, got {_name(value)}{cure}")
        elif not low <= value <= high:
            shown = value if abs(value) < 10**20 else "a huge one"
            report.add(path, f"{_key(path)}: expected an integer from {low} to {high}, got {shown}")
        else:
            return value
        return None

    return ValueKind(read, {"type": "integer", "minimum": low, "maximum": high})


def factor() -> ValueKind:
    """A factor from 1 to MAX_FACTOR, read as it is written: 2.3 is 23/10."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> Fraction | None:
        if type(value) not in (int, float):
            report.add(path, f"{_key(path)}: expected a number from 1 to {MAX_FACTOR}, got {_name(value)}")
        elif not 1 <= value <= MAX_FACTOR:
            report.add(path, f"{_key(path)}: expected a number from 1 to {MAX_FACTOR}, got {value!r:.20}")
        elif len(f"{value!r}".partition(".")[2]) > 6:
            report.add(path, f"{_key(path)}: has more than 6 decimals")
        else:
            return Fraction(repr(value))
        return None

    return ValueKind(read, {"type": "number", "minimum": 1, "maximum": MAX_FACTOR})


def boolean() -> ValueKind:
    """true or false."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> bool | None:
        if type(value) is bool:
            return value
        report.add(path, f"{_key(path)}: expected true or false, got {_name(value)}")
        return None

    return ValueKind(read, {"type": "boolean"})


def string(pattern: str, expected: str) -> ValueKind:
    """A string that matches the regular expression."""
    compiled = re.compile(pattern)

    def read(value: TomlValue, path: Path, report: Mistakes) -> str | None:
        if not isinstance(value, str):
            report.add(path, f"{_key(path)}: expected {expected}, got {_name(value)}")
        elif not compiled.fullmatch(value):
            report.add(path, f"{_key(path)}: expected {expected}, got {_shown(value)}")
        else:
            return value
        return None

    return ValueKind(read, {"type": "string", "pattern": pattern})


def choice(*options: str) -> ValueKind:
    """One of the strings."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> str | None:
        if isinstance(value, str) and value in options:
            return value
        wanted = " or ".join(f'"{option}"' for option in options)
        meant = meant_by(value, options) if isinstance(value, str) else ""
        report.add(path, f"{_key(path)}: expected {wanted}, got {_shown(value)}{meant}")
        return None

    return ValueKind(read, {"enum": list(options)})


def time(low: int = 0) -> ValueKind:
    """A time with a unit, at least ``low`` ns, read as nanoseconds."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> int | None:
        if isinstance(value, str):
            try:
                ns = parse_time(value)
            except ValueError as error:
                report.add(path, f"{_key(path)}: {error}{cure_of_time(path, value)}")
                return None
            if ns >= low:
                return ns
            report.add(path, f"{_key(path)}: must be longer than 0")
        elif type(value) in (int, float):
            shown = str(value)[:20]
            report.add(path, f'{_key(path)}: a time needs a unit; write "{shown}ms" or another of ns, us, ms, s')
        else:
            report.add(path, f'{_key(path)}: expected a time such as "5ms", got {_name(value)}')
        return None

    return ValueKind(read, {"type": "string", "pattern": TIME_PATTERN})


def frequency() -> ValueKind:
    """A frequency with a unit, read as hertz."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> int | None:
        if not isinstance(value, str):
            report.add(path, f'{_key(path)}: expected a frequency such as "1300.5MHz", got {_name(value)}')
            return None
        try:
            return parse_frequency(value)
        except ValueError as error:
            report.add(path, f"{_key(path)}: {error}")
            return None

    return ValueKind(read, {"type": "string", "pattern": FREQUENCY_PATTERN})


def span() -> ValueKind:
    """A worst-case time, or a table of the worst case and the best case."""
    one = time()

    def read(value: TomlValue, path: Path, report: Mistakes) -> Span | None:
        if not isinstance(value, dict):
            worst = one.read(value, path, report)
            return None if worst is None else Span.exactly(worst)
        values = read_table(value, SPAN_FIELDS, path, report)
        worst, best = values.get("worst"), values.get("best", values.get("worst"))
        if worst is None or best is None:
            return None
        if best > worst:
            report.add((*path, "best"), f"{_key(path)}: the best case is longer than the worst case")
            return None
        return Span(worst, best)

    return ValueKind(read, {"anyOf": [one.schema, table_schema(SPAN_FIELDS)]})


def gpu_time() -> ValueKind:
    """A span, or a dependence of the time on compute units; read as a Span or a Kernel."""
    plain = span()

    def read(value: TomlValue, path: Path, report: Mistakes) -> Span | Kernel | None:
        if not isinstance(value, dict) or not set(value) & {*LINEAR_FIELDS, "units"}:
            found: Span | None = plain.read(value, path, report)
            return found
        if "units" in value:
            return _measured(value, path, report)
        values = read_table(value, LINEAR_FIELDS, path, report)
        return Kernel.linear(values["parallel"], values.get("serial", 0)) if "parallel" in values else None

    return ValueKind(read, {"anyOf": [*plain.schema["anyOf"], table_schema(LINEAR_FIELDS), _MEASURED_SCHEMA]})


_MEASURED_SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["units"],
    "properties": {"units": {
        "type": "object", "minProperties": 1, "additionalProperties": False,
        "patternProperties": {"^[1-9][0-9]{0,3}$": {"type": "string", "pattern": TIME_PATTERN}},
        "description": "times measured on these numbers of compute units",
    }},
}  # fmt: skip


def _measured(value: Document, path: Path, report: Mistakes) -> Kernel | None:
    """A table of times by numbers of units; between two numbers, the time on the smaller number counts."""
    before = len(report.problems)
    for key in value.keys() - {"units"}:
        report.add((*path, key), f"unknown key {quoted(key)}; a measured time has units only")
    table = value["units"]
    if not isinstance(table, dict) or not table:
        report.add((*path, "units"), f'units: expected a table such as {{ "4" = "60ms" }}, got {_name(table)}'
                   if table != {} else "units: is empty; no time is given")  # fmt: skip
        return None
    found: dict[int, int] = {}
    for key, entry in table.items():
        where = (*path, "units", key)
        if not re.fullmatch("[1-9][0-9]{0,3}", key) or int(key) > MAX_UNITS:
            report.add(where, f"units: expected a number of units from 1 to {MAX_UNITS} as a key, got {quoted(key)}")
        elif (measured := time().read(entry, where, report)) is not None:
            found[int(key)] = measured
    if len(report.problems) > before:
        return None
    try:
        return Kernel.falling(sorted(found.items()))
    except ValueError as error:
        report.add((*path, "units"), f"units: {error}")
        return None


def array(of: ValueKind, what: str) -> ValueKind:
    """A non-empty array of one kind."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> list[Any] | None:
        if not isinstance(value, list) or not value:
            report.add(path, f"{_key(path)}: expected {what}, got {'an empty array' if value == [] else _name(value)}")
            return None
        items = [of.read(item, (*path, index), report) for index, item in enumerate(value)]
        return None if any(item is None for item in items) else items

    return ValueKind(read, {"type": "array", "items": of.schema, "minItems": 1})


def table_of_fields(fields: dict[str, Field]) -> ValueKind:
    """A table with these fields, read as a dict."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> Document | None:
        if not isinstance(value, dict):
            report.add(path, f"{_label(path)}: expected a table, got {_name(value)}")
            return None
        before = len(report.problems)
        values = read_table(value, fields, path, report)
        return values if len(report.problems) == before else None

    return ValueKind(read, table_schema(fields))


def either(one: ValueKind, table_of: ValueKind, what: str) -> ValueKind:
    """A value of the first kind, or a table of the second."""

    def read(value: TomlValue, path: Path, report: Mistakes) -> Any:
        if not isinstance(value, (str, dict)):
            report.add(path, f"{_key(path)}: expected {what} or a table, got {_name(value)}")
            return None
        return (table_of if isinstance(value, dict) else one).read(value, path, report)

    return ValueKind(read, {"anyOf": [one.schema, table_of.schema]})


def read_table(value: Document, fields: dict[str, Field], path: Path, report: Mistakes) -> Document:
    """The fields that are present and right; reports wrong, unknown and missing fields."""
    values = {}
    for key, item in value.items():
        if key not in fields:
            report.add((*path, key), f"unknown key {quoted(key)}{_hint(key, item, fields)}")
            continue
        read = fields[key].kind.read(item, (*path, key), report)
        if read is not None:
            values[key] = read
    for key, entry in fields.items():
        if entry.required and key not in value:
            report.add(path, f'{_label(path)}: "{key}" is missing: {entry.about}')
    return values


def quoted(text: str) -> str:
    """At most 40 characters of a user's text in quotes, on one line: control characters are escaped."""
    return json.dumps(text[:40], ensure_ascii=False)


def _key(path: Path) -> str:
    """The name in messages of the value at ``path``: its key, and its index if it is in an array."""
    return f"{path[-2]}[{path[-1] + 1}]" if isinstance(path[-1], int) else path[-1]


def _label(path: Path) -> str:
    words = [f"[{part + 1}]" if isinstance(part, int) else part for part in path]
    return "".join(f".{word}" if index and not word.startswith("[") else word for index, word in enumerate(words))


#: Keys of other descriptions of systems, and the key to use here instead, or why there is none.
_ONE_BUS = "there is one bus for both directions, which carries one copy at a time (docs/rtgpu.md)"
_SIZES = "units = { minimum = 2, step = 2 } says which numbers of units there are"
_ONE_VALUE = "a sampled link is of the last value; no bound is known for a buffer of several"
_EACH_WAY = (
    "no bound is known for forks and joins of chains: write a [[chain]] for each way, with sampled links where ways "
    "meet; a task that waits for workers has a segment { workers = [...] }"
)
_EXECUTOR = (
    "an executor is a [[thread]], whose order says what it serves first, and its callbacks are tasks with "
    "thread = its name"
)
ABSENT = {
    "in_flight": "a task is one thread; threads that take turns are a task each, with a multiple of the period, and "
                 "stages of a pipeline are tasks of a [[chain]]",
    "buffer": _ONE_VALUE, "depth": _ONE_VALUE, "queue": _ONE_VALUE, "fork": _EACH_WAY, "join": _EACH_WAY,
    "bus": _ONE_BUS, "direction": _ONE_BUS, "unit_step": _SIZES, "unit_least": _SIZES,
    "executor": _EXECUTOR, "callback": _EXECUTOR, "node": _EXECUTOR,
    "reserved_units": "compute_units are those that tasks may use",
    "group": "tasks that share units of the GPU are in one [[partition]]; tests of tasks that own units refuse that",
}  # fmt: skip


#: Keys of other descriptions for the rate of a task's releases, and for its execution time.
RATES = {"rate", "frequency", "freq", "hz", "fps", "publish_rate"}
_TIMES = {"wcet", "c", "execution_time", "execution", "exec_time", "runtime", "duration", "misc", "copy", "kernel"}
#: Other words for keys, each with the table's own key.
_CALLED = {
    "deadline": "max_reaction", "latency": "max_reaction", "end_to_end": "max_reaction", "callbacks": "tasks",
    "type": "kind", "core": "cpu", "affinity": "cpu",
}  # fmt: skip


def of_rate(value: TomlValue) -> str:
    """The period for this many releases a second, rounded down; a text without a number has none."""
    found = re.fullmatch(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(k?)(?:hz|fps)?\s*", str(value), re.IGNORECASE)
    hertz = Fraction(found[1]) * (1000 if found[2] else 1) if found else Fraction(0)
    return f'"{int(10**6 / hertz) / 1000}ms"' if 0 < hertz <= 10**6 else ""


def cure_of_time(path: Path, value: str) -> str:
    """The cure, to be appended, for a time at a task's `cpu` or `gpu`, or for a frequency instead of a time."""
    if path[0] == "task" and path[2:] in (("cpu",), ("gpu",)) and re.fullmatch(TIME_PATTERN, value):
        return f"; execution times belong into segments: {IN_SEGMENTS}"
    if re.search(r"(hz|fps)\s*$", value, re.IGNORECASE) and (period := of_rate(value)):
        return f"; a period says how often: {period}"
    return ""


def foreign(key: str, value: TomlValue, known: Collection[str]) -> str:
    """The cure for a key of another format, to append to a message; empty for any other key.

    ``known``: the keys that the table has.
    """
    if "period" in known and key.lower() in RATES:
        return f'; a period says how often: period = {of_rate(value) or "1 / rate"}'
    if "segments" in known and key.lower() in _TIMES:
        return f"; execution times belong into segments: {IN_SEGMENTS}"
    if key in ABSENT:
        return f": {ABSENT[key]}"
    return f'; did you mean "{_CALLED[key]}"?' if _CALLED.get(key) in known else ""


def _hint(key: str, value: TomlValue, known: Collection[str]) -> str:
    if said := foreign(key, value, known):
        return said
    meant = near(key, known)
    return f'; did you mean "{meant[0]}"?' if meant else f"; known are {', '.join(known)}"


def table_schema(fields: dict[str, Field]) -> Document:
    """The JSON Schema of a table with these fields."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {**entry.kind.schema, "description": entry.about} for key, entry in fields.items()},
        "required": [key for key, entry in fields.items() if entry.required],
    }


LINEAR_FIELDS = {
    "parallel": Field(time(), "the time that is divided by the number of compute units", required=True),
    "serial": Field(
        time(), "the time that no number of units shortens; 0 unless given",
        assumes="all of the time is divided by the number of units",
    ),
}
SPAN_FIELDS = {
    "worst": Field(time(), "worst-case time", required=True),
    "best": Field(
        time(), "best-case time; the worst case unless given, 0 where the job's end releases another task",
        assumes="it never takes less; bounds of tasks that own units, and bounds that subtract overlaps, use this",
    ),
}
