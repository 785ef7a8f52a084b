# SPDX-License-Identifier: GPL-2.0
"""Command: experiment closeness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import rta
from analysis.attack.closeness import Closeness, table
from analysis.attack.closeness import closeness as compare
from analysis.attack.exact import sound_tests
from gpurt.errors import UsageError
from gpurt.files import unwritable, written
from pycontrol.output import render


def closeness(names: Sequence[str], tasksets: int, seed: int, output: Path, as_json: bool) -> int:
    """Compares the named tests, or all sound ones, with exact worst cases.  Returns 1 if a sound bound was exceeded."""
    try:
        tests = [rta.find(name) for name in names] or sound_tests()
    except ValueError as error:
        raise UsageError(str(error)) from None
    if units := [test.name for test in tests if test.name not in rta.TESTS]:
        raise UsageError(f"{units[0]} is about tasks that own units, which the explorer does not know")
    rows = [_closeness(test, tasksets, seed) for test in tests]
    path = output / "closeness.md"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error.filename or output, error) from None
    with written(path) as file:
        file.write((table(rows) + "\n").encode())
    data: list[dict[str, Any]] = [
        {
            "test": row.test, "sound": rta.find(row.test).sound, "tasksets": row.tasksets, "bounded": row.bounded,
            "tasks": len(row.ratios), "states": row.states, "broken": row.broken, "median": round(row.quantile(0.5), 4),
            "p95": round(row.quantile(0.95), 4), "most": round(row.quantile(1), 4),
        }
        for row in rows
    ]  # fmt: skip
    render.emit({"seed": seed, "files": [path], "tests": data}, as_json, f"{table(rows)}\n\n{path}")
    return 1 if any(row.broken and rta.find(row.test).sound for row in rows) else 0


def _closeness(test: Any, tasksets: int, seed: int) -> Closeness:
    with render.progress(tasksets, test.name) as bar:
        return compare(test, tasksets, seed, lambda done: bar.update(done - bar.pos))
