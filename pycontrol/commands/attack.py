# SPDX-License-Identifier: GPL-2.0
"""Command: experiment attack."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import rta
from analysis.attack.report import COLUMNS, Store, row, table
from analysis.attack.search import Effort
from analysis.rta.registry import UNITS
from analysis.rtgpu import attack as units
from gpurt.errors import UsageError
from gpurt.files import unwritable, written
from pycontrol.output import render


def attack(
    names: Sequence[str], tasksets: int, seed: int, jobs: int, effort: Effort, output: Path, fresh: bool, as_json: bool
) -> int:
    """Attacks the named tests, or all.  Returns 1 if a test that is shown as sound was broken."""
    try:
        tests = [rta.find(name) for name in names] or list(rta.TESTS.values())
    except ValueError as error:
        raise UsageError(str(error)) from None
    for asked, key, what in (
        (effort.threads, "threads", "threads that serve several tasks"),
        (effort.pending, "pending", "tasks of which several jobs are pending"),
    ):
        if wrong := [test.name for test in tests if asked and not getattr(test, key) and test.name in names]:
            raise UsageError(f"{wrong[0]} has no bounds for {what}")
        tests = [test for test in tests if not asked or getattr(test, key)]
    store = _store(output, tasksets, seed, effort, fresh)
    for test in tests:
        if test.name not in store.rows:
            store.add(_attack(test.name, tasksets, seed, jobs, effort))
        if not as_json:
            render.say(_text(store.rows[test.name]))
    rows = [store.rows[test.name] for test in tests]
    files = _write(output, rows)
    if as_json:
        render.emit({**store.header, "files": files, "tests": rows}, True, "")
    else:
        render.say(f"{table(rows)}\n\n{', '.join(map(str, files))}")
    store.path.unlink()
    return 1 if any(row["sound"] and row["broken"] for row in rows) else 0


def _store(output: Path, tasksets: int, seed: int, effort: Any, fresh: bool) -> Any:
    path = output / "attack.checkpoint"
    try:
        output.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        return Store(path, tasksets, seed, effort)
    except ValueError as error:
        raise UsageError(f"{error}; --fresh forgets it") from None
    except OSError as error:
        raise unwritable(error.filename or output, error) from None


def _attack(name: str, tasksets: int, seed: int, jobs: int, effort: Any) -> dict[str, Any]:
    from analysis.attack.search import attack

    with render.progress(tasksets, name) as bar:

        def progress(done: int) -> None:
            bar.update(done - bar.pos)

        if name in UNITS:
            runs = effort.runs + effort.steps
            return units.row(name, units.attack(name, tasksets, seed, jobs, runs, progress=progress))
        return row(attack(name, tasksets, seed, jobs, effort, progress))


def _text(row: dict[str, Any]) -> str:
    shown = "sound" if row["sound"] else "unsound"
    text = f"{row['test']}, shown as {shown}: {row['bounded']} of {row['tasksets']} tasksets bounded, "
    if not row["broken"]:
        return text + f"none broken; highest observed / bound {row['ratio']:.4f}"
    found = row["counterexample"]
    return text + (
        f"{row['broken']} BROKEN; at its simplest {found['task']} takes {render.ms(found['mort_ns'])} ms, "
        f"bound {render.ms(found['wcrt_ns'])} ms"
    )


def _write(output: Path, rows: list[dict[str, Any]]) -> list[Path]:
    """The table as Markdown and CSV, and each counterexample as a taskset file."""
    files = [output / "attack.md", output / "attack.csv"]
    found = [row for row in rows if row["counterexample"]]
    files += [output / f"{row['test']}.toml" for row in found]
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    texts = [table(rows) + "\n", lines.getvalue(), *(row["counterexample"]["taskset"] for row in found)]
    for path, text in zip(files, texts, strict=True):
        with written(path) as file:
            file.write(text.encode())
    return files
