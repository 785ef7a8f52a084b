# SPDX-License-Identifier: GPL-2.0
"""Calls of `gpurt plan energy` in this process, and their JSON documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).resolve().parents[2] / "docs/output.schema.json"
VALID = Draft202012Validator(json.loads(SCHEMA.read_text()))

def document(text: str, command: str) -> dict[str, Any]:
    """A valid document of a command."""
    found: dict[str, Any] = json.loads(text)
    assert not [error.message for error in VALID.iter_errors(found)], text
    groups = ("plan energy", "measure", "experiment")
    assert found["command"] in [f"{group} {command}" for group in groups]
    return found
