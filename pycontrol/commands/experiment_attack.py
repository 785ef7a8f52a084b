# SPDX-License-Identifier: GPL-2.0
"""The command that attacks bounds: experiment attack."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import click

from analysis.attack.outcome import Effort
from analysis.attack.report import ATTACK_COLUMNS, attack_table, row, standing
from analysis.attack.search import attack as search
from analysis.papers import registry
from analysis.papers.experiments.plan import Settings
from analysis.rta import Test
from gpurt.errors import UsageError
from gpurt.files import check_writable, make_folder, written
from gpurt.types import Document
from pycontrol.commands.experiment_options import AnyTestName
from pycontrol.commands.options import FOLDER, JSON, command
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment attack                        of every test
  gpurt experiment attack gcaps-busy --tasksets 100000

\b
Random first releases of random tasksets, then local search (docs/soundness.md).  A taskset of which a bound is exceeded
is written beside the table.  Every schedule of one file: gpurt attack.

\b
Exit codes: 0 done; 1 a bound that is shown as sound was broken; 2 wrong usage; 3 a file cannot be written;
130 interrupted.""",
)
@click.argument("names", metavar="[TEST]...", nargs=-1, type=AnyTestName())
@click.option("--tasksets", type=click.IntRange(1, 10**7), default=Settings.tasksets, show_default=True,
              help="Number of tasksets for each test.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same tasksets.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="all CPUs", type=click.IntRange(1, 1024),
              help="Number of processes.")  # fmt: skip
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1, 10**6),
              help="Number of random first releases to start from.")  # fmt: skip
@click.option("--steps", default=40, show_default=True, type=click.IntRange(0, 10**6),
              help="Number of steps of local search after that.")  # fmt: skip
@FOLDER
@JSON
def attack_command(
    names: tuple[str, ...], tasksets: int, seed: int, jobs: int, runs: int, steps: int, output: Path, as_json: bool,
) -> int:  # fmt: skip
    """Search for schedules that break a bound."""
    try:
        tests = [registry.find(name) for name in names] or list(registry.TESTS.values())
    except ValueError as error:
        raise UsageError(str(error)) from None
    if units := [test.name for test in tests if test.name in registry.UNITS]:
        raise UsageError(f"{units[0]} is about tasks that own units: scripts/attack search {units[0]}")
    effort = Effort(runs, steps)
    make_folder(output)
    check_writable(output / "attack.md")
    rows = []
    for test in tests:
        rows.append(_attack(test, tasksets, seed, jobs, effort))
        if not as_json:
            render.say(_text(rows[-1]))
    files = _write(output, rows)
    settings = {"tasksets": tasksets, "seed": seed, "runs": runs, "steps": steps}
    text = f"{attack_table(rows)}\n\n{', '.join(map(str, files))}"
    render.emit({**settings, "files": files, "tests": rows}, as_json, text)
    return 1 if any(row["sound"] and row["broken"] for row in rows) else 0


def _attack(test: Test, tasksets: int, seed: int, jobs: int, effort: Effort) -> Document:
    with render.progress(tasksets, test.name) as bar:
        return row(search(test, tasksets, seed, jobs, effort, bar.reach, registry.find), test.sound)


def _text(row: Document) -> str:
    shown = standing(row)
    text = f"{row['test']}, shown as {shown}: {row['bounded']} of {row['tasksets']} tasksets bounded, "
    if not row["broken"]:
        return text + f"none broken; highest observed / bound {row['ratio']:.4f}"
    found = row["counterexample"]
    return text + (
        f"{row['broken']} BROKEN; in the smallest taskset {found['task']} takes {render.ms(found['mort_ns'])} ms, "
        f"bound {render.ms(found['wcrt_ns'])} ms"
    )


def _write(output: Path, rows: list[Document]) -> list[Path]:
    """The table as Markdown and CSV, and each counterexample as a taskset file."""
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, ATTACK_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    texts = {output / "attack.md": attack_table(rows) + "\n", output / "attack.csv": lines.getvalue()}
    for one in rows:
        if one["counterexample"]:  # a formula outside of the tree is named by its path
            texts[output / f"{Path(one['test']).name}.toml"] = one["counterexample"]["taskset"]
    for path, text in texts.items():
        with written(path) as file:
            file.write(text.encode())
    return list(texts)
