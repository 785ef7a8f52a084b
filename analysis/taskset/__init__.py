# SPDX-License-Identifier: GPL-2.0
"""The taskset file: the one description of a system that every command reads (TOML)."""

from analysis.taskset.file import Launch, TasksetFile, json_schema, load, read

__all__ = ["Launch", "TasksetFile", "json_schema", "load", "read"]
