# SPDX-License-Identifier: GPL-2.0
"""The taskset file: the one description of a system that every command reads (TOML)."""

from analysis.taskset.fields import json_schema, task_name
from analysis.taskset.file import MAX_BYTES, Launch, TasksetFile, decoded, load, parse, read

__all__ = ["MAX_BYTES", "Launch", "TasksetFile", "decoded", "json_schema", "load", "parse", "read", "task_name"]
