# SPDX-License-Identifier: GPL-2.0
"""The taskset file: the one description of a system that every command reads (TOML)."""

from analysis.taskset.document import json_schema
from analysis.taskset.fields import task_name
from analysis.taskset.file import Launch, TasksetFile, load, parse
from analysis.taskset.text import MAX_TASKSET_BYTES, decoded, read_text

__all__ = [
    "MAX_TASKSET_BYTES", "Launch", "TasksetFile", "decoded", "json_schema", "load", "parse", "read_text", "task_name",
]  # fmt: skip
