# SPDX-License-Identifier: GPL-2.0
"""The JSON Schema of a taskset file, made of the tables that files are read with."""

from __future__ import annotations

from typing import Any

from analysis.taskset import schema
from analysis.taskset.fields import CHAIN, PLATFORM, SHARED_PARTITION, TASK, THREAD
from analysis.taskset.schema import Field
from analysis.taskset.spatial import FROM_FILE, GPU, PROFILE


def _task_schema() -> dict[str, Any]:
    """A task has a CPU and priorities of its own, or those of its thread."""
    table = schema.table_schema(TASK)
    own = ["cpu", "priority"]
    table["required"] = [key for key in table["required"] if key not in own]
    return {**table, "anyOf": [{"required": own}, {"required": ["thread"]}]}


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a taskset file."""
    root = schema.table_schema(
        {"platform": Field(schema.table(PLATFORM), "the machine", required=True)}
    )
    root["properties"]["task"] = {"type": "array", "items": _task_schema(), "description": "the tasks"}
    threads = {"type": "array", "items": schema.table_schema(THREAD), "description": "threads that serve several tasks"}
    root["properties"]["thread"] = threads
    chains = {"type": "array", "items": schema.table_schema(CHAIN), "description": "chains of tasks"}
    root["properties"]["chain"] = chains
    shared = schema.table_schema(SHARED_PARTITION)
    root["properties"]["partition"] = {"type": "array", "items": shared, "description": "parts of the GPU"}
    gpus = {"type": "array", "items": schema.table_schema(GPU), "description": "GPUs, with their power"}
    root["properties"]["gpu"] = gpus
    either = {"anyOf": [schema.table_schema(PROFILE), schema.table_schema(FROM_FILE)]}
    root["properties"]["profile"] = {"type": "array", "items": either, "description": "what named kernels take"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpurt taskset",
        **root,
    }
