# SPDX-License-Identifier: GPL-2.0
"""Command: experiment.  Its parts `attack` and `closeness` are in files of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from analysis import rta
from analysis.attack.search import Effort
from analysis.energy import published
from analysis.experiments import ENERGY, EXPERIMENTS, STUDIES
from analysis.experiments.engine import CheckpointError
from analysis.experiments.plan import Settings
from analysis.experiments.produce import Produced, produce
from analysis.experiments.study import Study
from analysis.masks.dispatch import SimulationError
from gpurt.errors import UsageError
from gpurt.files import unwritable
from gpurt.text import visible
from pycontrol.commands.attack import attack
from pycontrol.commands.closeness import closeness
from pycontrol.commands.options import JSON, GivenPath
from pycontrol.output import render

ATTACK = "attack"
CLOSENESS = "closeness"


@click.command(
    epilog="""\b
Examples:
  gpurt experiment --list
  gpurt experiment gcaps-fig8b --tasksets 100
  gpurt experiment gcaps-fig8a gcaps-fig8b --jobs 2 --seed 7 --output results
  gpurt experiment zahaf-fig5 --tasksets 100      partitions of a GPU
  gpurt experiment mg-fig3.13 --profiles DIR      energy, with published profiles
  gpurt experiment attack                        search for schedules that break a bound, of every test
  gpurt experiment attack gcaps-busy --tasksets 100000
  gpurt experiment closeness boosted-suspend     bounds beside exact worst cases of tiny tasksets

\b
To continue an interrupted run, give the same command again.

\b
Exit codes: 0 done; 1 a test that is shown as sound was broken; 2 wrong usage; 3 a file cannot be written;
6 the Dask cluster failed; 130 interrupted."""
)
@click.argument("names", metavar="[NAME]... | attack [TEST]... | closeness [TEST]...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the experiments.")
@click.option("--tasksets", type=click.IntRange(1, 10**7),
              help="Number of tasksets at each point; attack: for each test; otterness: of kernels.  "
                   "[default: 1000; 200 of energy]")  # fmt: skip
@click.option("--profiles", type=GivenPath(path_type=Path, file_okay=False),
              help="sbeet, mg: the folder of the profiles that the authors of sBEET-mg published.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same tasksets.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="all CPUs", type=click.IntRange(1, 1024))
@click.option("--method", type=click.Choice(["uunifast", "drs", "published"]), default="uunifast", show_default=True,
              help="How utilizations are drawn; drs needs that package; published: as in GCAPS's code.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, 10**6),
              help="attack: number of random first releases to start from.  [default: 20]")  # fmt: skip
@click.option("--steps", type=click.IntRange(0, 10**6),
              help="attack: number of steps of local search after that.  [default: 40]")  # fmt: skip
@click.option("--threads", is_flag=True, help="attack: threads serve several tasks; of tests that bound those.")
@click.option("--pending", is_flag=True,
              help="attack: with release jitter and deadlines beyond periods; of tests that bound those.")  # fmt: skip
@click.option("-o", "--output", type=GivenPath(path_type=Path, file_okay=False), default=Path("results"),
              show_default=True, help="Folder for NAME.csv, the pictures and NAME.checkpoint.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["png", "svg"]), default="png", show_default=True)
@click.option("--fresh", is_flag=True, help="Forget what an interrupted run has done.")
@click.option("--dask", "address", metavar="ADDRESS", help="Run on that Dask scheduler (needs gpurt[dask]).")
@JSON
def experiment(
    names: tuple[str, ...], listing: bool, tasksets: int | None, profiles: Path | None, seed: int, jobs: int,
    method: str, runs: int | None, steps: int | None, threads: bool, pending: bool, output: Path, form: str,
    fresh: bool, address: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Repeat published experiments, on random tasksets or in simulation, or attack the bounds."""
    if listing or not names:
        _list(as_json)
        return 0
    if names[0] == ATTACK:
        if address or method != "uunifast":
            raise UsageError("--dask and --method go with the experiments, not with attack")
        effort = Effort(20 if runs is None else runs, 40 if steps is None else steps, threads, pending)
        return attack(names[1:], tasksets or Settings.tasksets, seed, jobs, effort, output, fresh, as_json)
    if runs is not None or steps is not None or threads or pending:
        raise UsageError(
            "--runs, --steps, --threads and --pending go with attack: gpurt experiment attack --runs 20 --steps 40"
        )
    if names[0] == CLOSENESS:
        if address or method != "uunifast":
            raise UsageError("--dask and --method do not go with closeness")
        return closeness(names[1:], tasksets or Settings.tasksets, seed, output, as_json)
    known: dict[str, Any] = {**EXPERIMENTS, **ENERGY, **STUDIES}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no experiment is called {unknown[0]!r}; there are {', '.join([*known, ATTACK, CLOSENESS])}")
    _check_options(names, profiles, method, address)
    made = []
    with _executor(address, as_json) as executor:
        for name in names:
            count = tasksets or (ENERGY[name].usual if name in ENERGY else Settings.tasksets)
            settings = Settings(count, seed, method, profiles if name in ENERGY else None)
            made.append(_run(known[name], settings, output, form, jobs, fresh, executor))
            if not as_json:
                render.say(_text(made[-1]))
    if as_json:
        render.emit({"results": [_document(one) for one in made]}, True, "")
    return 0


def _check_options(names: Sequence[str], profiles: Path | None, method: str, address: str | None) -> None:
    """Raises UsageError for options that do not go with an experiment, and FileError if profiles are wrong."""
    fixed = [name for name in names if name not in EXPERIMENTS or EXPERIMENTS[name].owned]
    if fixed and method != "uunifast":
        raise UsageError(f"--method does not go with {fixed[0]}")
    if address and (studies := [name for name in names if name in STUDIES]):
        raise UsageError(f"--dask does not go with {studies[0]}, which one core computes in minutes")
    if energy := [name for name in names if name in ENERGY]:
        if profiles is None:
            where = "the published profiles' folder, with gpu_rtx3070/ and gpu_t400/ in it"
            raise UsageError(f"{energy[0]} needs --profiles DIR: {where}")
        published.load(profiles)
    elif profiles is not None:
        raise UsageError(f"--profiles goes with {', '.join(ENERGY)}")


def _list(as_json: bool) -> None:
    known: list[Any] = [*EXPERIMENTS.values(), *ENERGY.values(), *STUDIES.values()]
    listed = [(one.name, one.source, one.title, one.size) for one in known]
    listed.append((ATTACK, "docs/soundness.md", "Search for schedules that break a bound", len(rta.TESTS)))
    data = [{"name": name, "source": source, "title": title, "points": size} for name, source, title, size in listed]
    rows = [(name, source, title, str(size)) for name, source, title, size in listed]
    render.emit({"experiments": data}, as_json, render.table(("name", "figure", "what", "points"), rows))


def _run(chosen: Any, settings: Settings, output: Path, form: str, jobs: int, fresh: bool, executor: Any) -> Produced:
    total = chosen.size if isinstance(chosen, Study) else chosen.size * settings.tasksets
    try:
        with render.progress(total, chosen.name) as bar:
            show = lambda done, _: bar.update(done - bar.pos)  # noqa: E731
            return produce(chosen, settings, output, form, jobs, show, fresh, executor)
    except CheckpointError as error:
        raise UsageError(f"{error}; --fresh forgets it") from None
    except SimulationError as error:
        raise UsageError(f"--tasksets {settings.tasksets}: {error}") from None
    except ImportError:
        raise UsageError("--method drs needs the package drs: pip install 'gpurt[drs]'") from None
    except OSError as error:
        raise unwritable(error.filename or output, error) from None


def _document(made: Produced) -> dict[str, Any]:
    """What is told of an experiment."""
    told = [{key if key != "schedulable" else "schedulable_tasksets": value for key, value in row.items()}
            for row in made.rows]  # fmt: skip
    claims = {} if made.claims is None else {"claims": made.claims}
    return {"experiment": made.experiment, "wall_ns": made.wall_ns, "files": made.files, "rows": told,
            "left_out": made.left_out, **claims}  # fmt: skip


def _text(made: Produced) -> str:
    lines = [f"{made.experiment}: {made.wall_ns / 1e9:.1f} s; {', '.join(map(str, made.files))}"]
    lines += [f"note: curve {label} is left out, for there is no such test" for label in made.left_out]
    marks = {True: "reproduced", False: "NOT REPRODUCED"}
    lines += [f"{marks[one.reproduced]}: {one.text}: {one.why}" for one in made.claims or ()]
    return "\n".join(lines)


def _executor(address: str | None, as_json: bool) -> Any:
    """A context manager that yields an executor on a Dask cluster; None where no address is given."""
    if address is None:
        return nullcontext()
    try:
        from analysis.experiments.cluster import connect
    except ImportError:
        raise UsageError("--dask needs the package distributed: pip install 'gpurt[dask]'") from None
    try:
        cluster = connect(address)
    except (OSError, ValueError) as error:
        raise UsageError(f"--dask: no scheduler answers at {visible(address)}: {visible(error)}") from None
    if not cluster.workers():
        render.note(f"the scheduler at {visible(address)} has no workers yet; the work waits for them", as_json=as_json)
    return cluster
