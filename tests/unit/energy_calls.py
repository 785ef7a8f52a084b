# SPDX-License-Identifier: GPL-2.0
"""Calls of `gpurt energy` in this process, and their JSON documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pycontrol import cli

SCHEMA = Path(__file__).resolve().parents[2] / "docs/output.schema.json"
VALID = Draft202012Validator(json.loads(SCHEMA.read_text()))

#: Takes a command and its arguments; returns its exit code, stdout and stderr.
Energy = Callable[..., tuple[int, str, str]]


def caller(capfd: pytest.CaptureFixture[str]) -> Energy:
    """What calls commands."""

    def call(*words: object) -> tuple[int, str, str]:
        code = cli.run(["energy", *map(str, words)])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def document(text: str, command: str) -> dict[str, Any]:
    """A valid document of a command."""
    found: dict[str, Any] = json.loads(text)
    assert not [error.message for error in VALID.iter_errors(found)], text
    assert found["command"] == f"energy {command}"
    return found
