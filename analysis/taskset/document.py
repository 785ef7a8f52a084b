# SPDX-License-Identifier: GPL-2.0
"""The JSON Schema of a taskset file, generated from the tables of fields with which files are read."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.taskset import schema
from analysis.taskset.fields import CHAIN, PLATFORM, RESOURCE, SHARED_PARTITION, TASK, THREAD
from analysis.taskset.schema import Field
from analysis.taskset.spatial import FROM_FILE, GPU, PROFILE
from gpurt.types import Document
from gpurt.units import TIME_PATTERN

#: The keys that come first in tables of times by number of units.
BY_UNITS = ("parallel", "units", "work")


def _task_schema() -> Document:
    """A task has a CPU and priorities of its own, or those of its thread."""
    table = schema.table_schema(TASK)
    own = ["cpu", "priority"]
    table["required"] = [key for key in table["required"] if key not in own]
    return {**table, "anyOf": [{"required": own}, {"required": ["thread"]}]}


def worded(kind: Document) -> str:
    """The values that this schema allows after the equals sign, in words."""
    if "anyOf" in kind:
        return " or ".join(dict.fromkeys(worded(one) for one in kind["anyOf"])).replace("time or span", "span")
    if "enum" in kind:
        return ", ".join(f'`"{word}"`' for word in kind["enum"])
    match kind["type"]:
        case "integer" | "number":
            return f"{kind['type']}, {kind['minimum']} to {kind['maximum']}"
        case "boolean":
            return "`true` or `false`"
        case "array":
            return f"array of {worded(kind['items'])}" if kind["items"].get("type") != "object" else "array of tables"
        case "object":
            first = next(iter(kind.get("properties", {})), "")
            return "span" if first == "worst" else "times by units" if first in BY_UNITS else "table"
    return "time" if kind.get("pattern") == TIME_PATTERN else "string"


def keys(schema: Document | None = None, before: str = "") -> Iterator[tuple[str, str]]:
    """Each key of a file, such as task.segments.gpu, with its meaning and its values."""
    schema = schema or json_schema()
    for name, value in schema.get("properties", {}).items():
        needed = "; required" if name in schema.get("required", []) else ""
        yield f"{before}{name}", f"{value.get('description', '')}{needed} ({worded(value).replace('`', '')})"
        yield from keys(value, f"{before}{name}.")
    for part in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from keys(part, before)


def json_schema() -> Document:
    """The JSON Schema (2020-12) of a taskset file."""
    root = schema.table_schema(
        {"platform": Field(schema.table_of_fields(PLATFORM), "the machine", required=True)}
    )
    lists = {
        "task": (_task_schema(), "the tasks"),
        "thread": (schema.table_schema(THREAD), "threads that serve several tasks"),
        "chain": (schema.table_schema(CHAIN), "chains of tasks"),
        "resource": (schema.table_schema(RESOURCE), "resources that one task at a time can hold"),
        "partition": (schema.table_schema(SHARED_PARTITION), "parts of the GPU"),
        "gpu": (schema.table_schema(GPU), "GPUs, with their power"),
        "profile": (
            {"anyOf": [schema.table_schema(PROFILE), schema.table_schema(FROM_FILE)]}, "what named kernels take"
        ),
    }  # fmt: skip
    for key, (items, about) in lists.items():
        root["properties"][key] = {"type": "array", "items": items, "description": about}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpurt taskset",
        **root,
    }
