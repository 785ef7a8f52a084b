# SPDX-License-Identifier: GPL-2.0
"""Names for what has no static type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: An object of a JSON document: keys and values as the schema has them (docs/output.schema.json).
Document: TypeAlias = dict[str, Any]
#: The same, only to be read.
DocumentView: TypeAlias = Mapping[str, Any]
#: A value of a TOML document, before it is known to be what its key takes.
TomlValue: TypeAlias = Any
#: A C structure, array or pointer of cffi or ctypes, or what a call takes in the place of one.
CData: TypeAlias = Any
