# SPDX-License-Identifier: GPL-2.0
"""The command that repeats published experiments: experiment run."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from analysis.papers.energy import published
from analysis.papers.experiments import ENERGY, EXPERIMENTS, STUDIES
from analysis.papers.experiments.plan import Settings
from analysis.papers.experiments.produce import Produced, produce
from analysis.papers.experiments.study import Study
from gpurt.errors import UsageError
from gpurt.files import unwritable
from gpurt.text import near
from gpurt.types import Document
from pycontrol.commands.options import FOLDER, JSON, GivenPath, Word, command
from pycontrol.output import render


def _list(as_json: bool) -> None:
    """Prints the experiments, with the figures that they repeat."""
    known: list[Any] = [*EXPERIMENTS.values(), *ENERGY.values(), *STUDIES.values()]
    data = [{"name": one.name, "source": one.source, "title": one.title, "points": one.size} for one in known]
    rows = [(one.name, one.source, one.title, str(one.size)) for one in known]
    render.emit({"experiments": data}, as_json, render.table(("name", "figure", "what", "points"), rows))


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment run                                the experiments that there are
  gpurt experiment run gcaps-fig8b --tasksets 100
  gpurt experiment run 'thesis-*' --tasksets 20
  gpurt experiment run gcaps-fig8a gcaps-fig8b --jobs 2 --seed 7 --output results
  gpurt experiment run zahaf-fig5 --tasksets 100      partitions of a GPU
  gpurt experiment run mg-fig3.13 --profiles DIR      energy, with published profiles

\b
Exit codes: 0 done; 2 wrong usage; 3 a file cannot be written; 130 interrupted.""",
)
@click.argument("names", metavar="[NAME]...", nargs=-1,
                type=Word("experiment", lambda: dict.fromkeys([*EXPERIMENTS, *ENERGY, *STUDIES])))  # fmt: skip
@click.option("--tasksets", type=click.IntRange(1, 10**7),
              help="Number of tasksets at each point.  [default: 1000; 200 of energy; 50 of rtgpu]")
@click.option("--profiles", type=GivenPath(path_type=Path, file_okay=False),
              help="sbeet, mg: the folder of the profiles that the authors of sBEET-mg published.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same tasksets.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="all CPUs", type=click.IntRange(1, 1024),
              help="Number of processes.")  # fmt: skip
@click.option("--utilizations", "method", type=click.Choice(["uunifast", "published"]), default="uunifast",
              show_default=True,
              help="How utilizations are drawn; published: as in GCAPS's code.")  # fmt: skip
@FOLDER
@click.option("--format", "form", type=click.Choice(["png", "svg"]), default="png", show_default=True)
@JSON
def run_command(
    names: tuple[str, ...], tasksets: int | None, profiles: Path | None, seed: int, jobs: int, method: str,
    output: Path, form: str, as_json: bool,
) -> int:  # fmt: skip
    """Repeat published experiments, on random tasksets or in simulation; without a name, list them."""
    if not names:
        _list(as_json)
        return 0
    known: dict[str, object] = {**EXPERIMENTS, **ENERGY, **STUDIES}
    names = tuple(dict.fromkeys(one for name in names for one in _named(name, known)))
    _check_options(names, profiles, method)
    made = []
    slow = {**dict.fromkeys(ENERGY, 200), **{name: 50 for name, one in EXPERIMENTS.items() if one.owned}}
    for name in names:
        count = tasksets or slow.get(name, Settings.tasksets)
        settings = Settings(count, seed, method, profiles if name in ENERGY else None)
        made.append(_run(known[name], settings, output, form, jobs))
        if not as_json:
            render.say(_text(made[-1]))
    if as_json:
        render.emit({"results": [_document(one) for one in made]}, True, "")
    return 0


def _named(text: str, known: Mapping[str, object]) -> list[str]:
    """The experiments that match a name or a shell pattern.  Raises UsageError."""
    if found := [text] if text in known else fnmatch.filter(known, text):
        return found
    meant = near(text, known, 3)
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"there are {', '.join(known)}"
    raise UsageError(f"no experiment is called {text!r}; {hint}")


def _check_options(names: Sequence[str], profiles: Path | None, method: str) -> None:
    """Raises UsageError for options that do not fit the experiment, and FileError for wrong profiles."""
    fixed = [name for name in names if name not in EXPERIMENTS or EXPERIMENTS[name].owned]
    if fixed and method != "uunifast":
        raise UsageError(f"--utilizations does not go with {fixed[0]}")
    if energy := [name for name in names if name in ENERGY]:
        if profiles is None:
            where = "the published profiles' folder, with gpu_rtx3070/ and gpu_t400/ in it"
            raise UsageError(f"{energy[0]} needs --profiles DIR: {where}")
        published.load_published(profiles)
    elif profiles is not None:
        raise UsageError(f"--profiles goes with {', '.join(ENERGY)}")


def _run(chosen: Any, settings: Settings, output: Path, form: str, jobs: int) -> Produced:
    total = chosen.size if isinstance(chosen, Study) else chosen.size * settings.tasksets
    try:
        with render.progress(total, chosen.name) as bar:
            return produce(chosen, settings, output, form, jobs, lambda done, _: bar.reach(done))
    except OSError as error:
        raise unwritable(error.filename or output, error) from None


def _document(made: Produced) -> Document:
    """The document about an experiment."""
    told = [{key if key != "schedulable" else "schedulable_tasksets": value for key, value in row.items()}
            for row in made.rows]  # fmt: skip
    return {"experiment": made.experiment, "wall_ns": made.wall_ns, "files": made.files, "rows": told}


def _text(made: Produced) -> str:
    return f"{made.experiment}: {made.wall_ns / 1e9:.1f} s; {', '.join(map(str, made.files))}"
