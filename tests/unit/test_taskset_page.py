# SPDX-License-Identifier: GPL-2.0
"""The page about taskset files: it is what the reader of files knows, and its example shows every key."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.taskset import json_schema, load
from analysis.taskset.text import tomllib

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("every-key*.toml"))


def keys(value: Any) -> Iterator[str]:
    """Every key of a document, tables in tables too."""
    match value:
        case dict():
            for key, item in value.items():
                yield key
                yield from keys(item)
        case list():
            for item in value:
                yield from keys(item)


def known(schema: dict[str, Any]) -> Iterator[str]:
    """Every key that a schema names."""
    for key, item in schema.get("properties", {}).items():
        yield key
        yield from known(item)
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from known(part)


def test_it_is_up_to_date() -> None:
    make = [sys.executable, str(ROOT / "scripts/make-taskset-page"), "--check"]
    run = subprocess.run(make, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_it_has_every_key() -> None:
    rows = [line for line in (ROOT / "docs/taskset.md").read_text().splitlines() if line.startswith("| `")]
    found = {row.split("`")[1] for row in rows}
    # sections of the page, spans at its beginning, and what the text above a table explains
    of_themselves = {"platform", "task", "chain", "resource", "worst", "best", "work", "saturates"}
    assert {*known(json_schema())} - found <= of_themselves


def test_the_examples_show_every_key() -> None:
    shown = set()
    for path in EXAMPLES:
        load(path)
        text = path.read_text()
        shown |= {*keys(tomllib.loads(text)), *re.findall(r"^# (\w+) = ", text, re.MULTILINE)}
    assert {*known(json_schema())} - shown == set()
