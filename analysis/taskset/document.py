# SPDX-License-Identifier: GPL-2.0
"""The JSON Schema of a taskset file, made of the tables that files are read with."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.taskset import schema
from analysis.taskset.fields import CHAIN, PLATFORM, RESOURCE, SHARED_PARTITION, TASK, THREAD
from analysis.taskset.schema import Field
from analysis.taskset.spatial import FROM_FILE, GPU, PROFILE
from gpurt.types import Document


def _task_schema() -> Document:
    """A task has a CPU and priorities of its own, or those of its thread."""
    table = schema.table_schema(TASK)
    own = ["cpu", "priority"]
    table["required"] = [key for key in table["required"] if key not in own]
    return {**table, "anyOf": [{"required": own}, {"required": ["thread"]}]}


def keys(schema: Document | None = None, before: str = "") -> Iterator[tuple[str, str]]:
    """Each key of a file, as task.segments.gpu, and what it means."""
    schema = schema or json_schema()
    for name, value in schema.get("properties", {}).items():
        yield f"{before}{name}", value.get("description", "")
        yield from keys(value, f"{before}{name}.")
    for part in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from keys(part, before)


def json_schema() -> Document:
    """The JSON Schema (2020-12) of a taskset file."""
    root = schema.table_schema(
        {"platform": Field(schema.table(PLATFORM), "the machine", required=True)}
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
