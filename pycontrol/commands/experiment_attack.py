# SPDX-License-Identifier: GPL-2.0
"""The command that attacks bounds, and compares them with exact worst cases: experiment attack."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

import click

from analysis.attack.closeness import Closeness, Kind, closeness_table
from analysis.attack.closeness import closeness as compare
from analysis.attack.files import FILE_COUNTS as COUNTED
from analysis.attack.files import attack_files, files_table
from analysis.attack.outcome import Effort
from analysis.attack.report import ATTACK_COLUMNS, attack_table, row, standing, toml
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

#: Optional features of tasksets: the field of a test that supports each, and a description.
KINDS = {
    "threads": ("threads", "threads that serve several tasks"),
    "pending": ("pending", "tasks of which several jobs are pending"),
    "latency": ("latency", "wake-ups of threads"),
    "workers": ("paths", "tasks with workers"),
    "yields": ("yields", "segments that begin by yield"),
    "chains": ("", "chains of tasks"),
}

#: Those of tiny tasksets of which every schedule is looked at.
EXACT_KINDS = ("threads", "pending", "chains", "workers")


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment attack                        of every test
  gpurt experiment attack gcaps-busy --tasksets 100000
  gpurt experiment attack boosted-suspend --by exact --with chains
  gpurt experiment attack --by files --tasksets 10000 --seed 41     a part of what docs/soundness.md counts

\b
search: random first releases of random tasksets, then local search (docs/soundness.md).
exact: every schedule of tiny tasksets, in one process; it also says how close bounds are (docs/closeness.md).
files: what analyze says of random files with every key: all schedules where they are few, else simulations.
A taskset or file of which a bound is exceeded is written beside the table.

\b
Exit codes: 0 done; 1 a bound that is shown as sound was broken; 2 wrong usage; 3 a file cannot be written;
130 interrupted.""",
)
@click.argument("names", metavar="[TEST]...", nargs=-1, type=AnyTestName())
@click.option("--by", "way", type=click.Choice(["search", "exact", "files"]), default="search", show_default=True,
              help="Which schedules are looked at, and of what.")  # fmt: skip
@click.option("--tasksets", type=click.IntRange(1, 10**7), default=Settings.tasksets, show_default=True,
              help="Number of tasksets for each test, or of files.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same tasksets.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="all CPUs", type=click.IntRange(1, 1024),
              help="Number of processes.")  # fmt: skip
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1, 10**6),
              help="search: number of random first releases to start from.")  # fmt: skip
@click.option("--steps", default=40, show_default=True, type=click.IntRange(0, 10**6),
              help="search: number of steps of local search after that.")  # fmt: skip
@click.option("--with", "kinds", multiple=True, type=click.Choice([*KINDS]), metavar="KIND",
              help="Tasksets with " + ", ".join(f"{what} ({kind})" for kind, (_, what) in KINDS.items())
              + "; of tests that bound those; may be repeated.")  # fmt: skip
@FOLDER
@JSON
def attack_command(
    names: tuple[str, ...], way: str, tasksets: int, seed: int, jobs: int, runs: int, steps: int,
    kinds: tuple[str, ...], output: Path, as_json: bool,
) -> int:  # fmt: skip
    """Search for schedules that break a bound."""
    if way == "files":
        if names or kinds:
            raise UsageError("--by files attacks what analyze says: it goes with no TEST, and with no --with")
        return _attack_files(tasksets, seed, jobs, output, as_json)
    if way == "exact":
        return _exact(names, tasksets, seed, kinds, output, as_json)
    if "workers" in kinds and not set(kinds) <= {"workers", "chains"}:
        raise UsageError("--with workers goes with no other kind of tasks than chains: no bound is for both")
    tests = _tests(names, list(registry.TESTS.values()), kinds)
    effort = Effort(runs, steps, **dict.fromkeys(kinds, True))
    make_folder(output)
    check_writable(output / "attack.md")
    rows = []
    for test in tests:
        rows.append(_attack(test, tasksets, seed, jobs, effort))
        if not as_json:
            render.say(_text(rows[-1]))
    files = _write(output, rows)
    settings = {"tasksets": tasksets, "seed": seed, "runs": runs, "steps": steps, "tasks_with": kinds}  # fmt: skip
    text = f"{attack_table(rows)}\n\n{', '.join(map(str, files))}"
    render.emit({**settings, "files": files, "tests": rows}, as_json, text)
    return 1 if any(row["sound"] and row["broken"] for row in rows) else 0


def _tests(names: tuple[str, ...], usual: list[Test], kinds: tuple[str, ...]) -> list[Test]:
    """The tests of these names, or the usual ones.  Raises UsageError for a name, and one without such bounds."""
    try:
        tests = [registry.find(name) for name in names] or usual
    except ValueError as error:
        raise UsageError(str(error)) from None
    for key, what in (KINDS[kind] for kind in kinds):
        if wrong := [test.name for test in tests if key and not getattr(test, key) and test.name in names]:
            raise UsageError(f"{wrong[0]} has no bounds for {what}")
        tests = [test for test in tests if not key or getattr(test, key)]
    return tests


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
        f"{row['broken']} BROKEN; at its simplest {found['task']} takes {render.ms(found['mort_ns'])} ms, "
        f"bound {render.ms(found['wcrt_ns'])} ms"
    )


def _write(output: Path, rows: list[Document]) -> list[Path]:
    """The table as Markdown and CSV, and each counterexample as a taskset file."""
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, ATTACK_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    texts = {output / "attack.md": attack_table(rows) + "\n", output / "attack.csv": lines.getvalue()}
    return _saved(texts | {_beside(output, row["test"]): row["counterexample"]["taskset"]
                           for row in rows if row["counterexample"]})  # fmt: skip


def _beside(output: Path, test: str) -> Path:
    """Where a test's counterexample goes; a formula outside of the tree is named by its path."""
    return output / f"{Path(test).name}.toml"


def _saved(texts: Mapping[Path, str]) -> list[Path]:
    """Writes each text to its file."""
    for path, text in texts.items():
        with written(path) as file:
            file.write(text.encode())
    return list(texts)


def _attack_files(count: int, seed: int, jobs: int, output: Path, as_json: bool) -> int:
    """Attacks what analyze says of random files, and prints that.  Returns the exit code."""
    make_folder(output)
    check_writable(output / "files.md")
    with render.progress(count, "files") as bar:
        found = attack_files(count, seed, jobs, bar.reach)
    texts = {output / "files.md": files_table(found) + "\n"}
    texts |= {output / f"broken-{at}.toml": f"# {why}\n{text}" for at, (why, text) in enumerate(found.broken, 1)}
    kinds = [{"with": kind, **{what: found.counts[kind, what] for what in COUNTED}} for kind in found.kinds]
    render.emit({"seed": seed, "files": _saved(texts), "kinds": kinds}, as_json, texts[output / "files.md"])
    return 1 if found.broken else 0


def _exact(
    names: tuple[str, ...], tasksets: int, seed: int, kinds: tuple[str, ...], output: Path, as_json: bool
) -> int:  # fmt: skip
    """Compares the bounds of tests, of all sound ones unless named, with exact worst cases.  Returns the exit code."""
    if other := set(kinds) - set(EXACT_KINDS):
        raise UsageError(f"--by exact does not go with --with {min(other)}")
    if {"threads", "pending"} <= set(kinds):
        raise UsageError("--with threads and --with pending exclude each other: no bound is for both")
    if "workers" in kinds and len(set(kinds)) > 1:
        raise UsageError("--with workers goes with no other kind of tasks")
    tests = _tests(names, [test for test in registry.TESTS.values() if test.sound], kinds)
    if units := [test.name for test in tests if test.name in registry.UNITS]:
        raise UsageError(f"{units[0]} is about tasks that own units, which the explorer does not know")
    path = output / "closeness.md"
    make_folder(output)
    check_writable(path)
    rows = [_closeness(test, tasksets, seed, Kind(**dict.fromkeys(kinds, True))) for test in tests]
    texts = {path: closeness_table(rows) + "\n"}
    texts |= {_beside(output, one.test.name): toml(one.counterexample) for one in rows if one.counterexample}
    data: list[Document] = [
        {
            "test": row.test.name, "sound": row.test.sound, "tasksets": row.tasksets, "bounded": row.bounded,
            "bounds": len(row.ratios), "states": row.states, "broken": row.broken, "large": row.large,
            "median": round(row.quantile(0.5), 4), "p95": round(row.quantile(0.95), 4),
            "most": round(row.quantile(1), 4),
        }
        for row in rows
    ]  # fmt: skip
    files = _saved(texts)
    text = f"{texts[path]}\n{', '.join(map(str, files))}"
    render.emit({"seed": seed, "files": files, "tests": data}, as_json, text)
    if large := sum(row.large for row in rows):
        render.note(f"{large} tasksets were left out: they have more states than are looked at", as_json=as_json)
    return 1 if any(row.broken and row.test.sound for row in rows) else 0


def _closeness(test: Test, tasksets: int, seed: int, kind: Kind) -> Closeness:
    with render.progress(tasksets, test.name) as bar:
        return compare(test, tasksets, seed, bar.reach, kind)
