# SPDX-License-Identifier: GPL-2.0
"""Command: experiment.  Its part `attack` is in attack.py."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from gpurt.errors import UsageError
from gpurt.files import unwritable
from gpurt.text import visible
from pycontrol.commands import render
from pycontrol.commands.attack import attack
from pycontrol.commands.options import JSON, GivenPath
from pycontrol.commands.study import report, study

ATTACK = "attack"


@click.command(
    epilog="""\b
Examples:
  gpurt experiment --list
  gpurt experiment gcaps-fig8b --tasksets 100
  gpurt experiment gcaps-fig8a gcaps-fig8b --jobs 2 --seed 7 --output results
  gpurt experiment zahaf-fig5 --tasksets 100      partitions of a GPU
  gpurt experiment attack                        search for schedules that break a bound, of every test
  gpurt experiment attack gcaps-busy --tasksets 100000

\b
To continue an interrupted run, give the same command again.

\b
Exit codes: 0 done; 1 the attack broke a test that is shown as sound; 2 wrong usage; 3 a file cannot be written;
6 the Dask cluster failed; 130 interrupted."""
)
@click.argument("names", metavar="[NAME]... | attack [TEST]...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the experiments.")
@click.option("--tasksets", default=1000, show_default=True, type=click.IntRange(1, 10**7),
              help="Number of tasksets at each point; attack: for each test; otterness: of kernels.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same tasksets.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="all CPUs", type=click.IntRange(1, 1024))
@click.option("--method", type=click.Choice(["uunifast", "drs"]), default="uunifast", show_default=True,
              help="How utilizations are drawn; drs needs the package of that name.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, 10**6),
              help="attack: number of random first releases to start from.  [default: 20]")  # fmt: skip
@click.option("--steps", type=click.IntRange(0, 10**6),
              help="attack: number of steps of local search after that.  [default: 40]")  # fmt: skip
@click.option("-o", "--output", type=GivenPath(path_type=Path, file_okay=False), default=Path("results"),
              show_default=True, help="Folder for NAME.csv, the pictures and NAME.checkpoint.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["png", "svg"]), default="png", show_default=True)
@click.option("--fresh", is_flag=True, help="Forget what an interrupted run has done.")
@click.option("--dask", "address", metavar="ADDRESS", help="Run on that Dask scheduler (needs gpurt[dask]).")
@JSON
def experiment(
    names: tuple[str, ...], listing: bool, tasksets: int, seed: int, jobs: int, method: str, runs: int | None,
    steps: int | None, output: Path, form: str, fresh: bool, address: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Repeat published experiments, on random tasksets or in simulation, or attack the bounds."""
    from analysis.experiments import EXPERIMENTS, STUDIES
    from analysis.experiments.runner import Settings

    if listing or not names:
        _list(as_json)
        return 0
    if names[0] == ATTACK:
        if address or method != "uunifast":
            raise UsageError("--dask and --method go with the experiments, not with attack")
        return attack(names[1:], tasksets, seed, jobs, 20 if runs is None else runs, 40 if steps is None else steps,
                      output, fresh, as_json)  # fmt: skip
    if runs is not None or steps is not None:
        raise UsageError("--runs and --steps go with attack: gpurt experiment attack --runs 20 --steps 40")
    unknown = [name for name in names if name not in EXPERIMENTS and name not in STUDIES]
    if unknown:
        there = ", ".join([*EXPERIMENTS, *STUDIES, ATTACK])
        raise UsageError(f"no experiment is called {unknown[0]!r}; there are {there}")
    studies = [name for name in names if name in STUDIES]
    if studies and (address or method != "uunifast"):
        raise UsageError(f"--dask and --method do not go with {studies[0]}, which one core computes in minutes")
    settings = Settings(tasksets, seed, method)
    reports = []
    with _executor(address, as_json) as executor:
        for name in names:
            if name in STUDIES:
                reports.append(study(STUDIES[name], tasksets, seed, output, form))
            else:
                reports.append(_run(EXPERIMENTS[name], settings, jobs, output, form, fresh, executor))
            if not as_json:
                render.say(_text(reports[-1]))
    if as_json:
        render.emit({"results": reports}, True, "")
    return 0


def _list(as_json: bool) -> None:
    from analysis import rta
    from analysis.experiments import EXPERIMENTS, STUDIES

    listed = [(e.name, e.source, e.title, e.size) for e in EXPERIMENTS.values()]
    listed += [(e.name, e.source, e.title, e.size) for e in STUDIES.values()]
    listed.append((ATTACK, "docs/soundness.md", "Search for schedules that break a bound", len(rta.TESTS)))
    data = [{"name": name, "source": source, "title": title, "points": size} for name, source, title, size in listed]
    rows = [(name, source, title, str(size)) for name, source, title, size in listed]
    render.emit({"experiments": data}, as_json, render.table(("name", "figure", "what", "points"), rows))


def _run(
    chosen: Any, settings: Any, jobs: int, output: Path, form: str, fresh: bool, executor: Any
) -> dict[str, Any]:  # fmt: skip
    from analysis.experiments.report import draw, write_csv
    from analysis.experiments.runner import CheckpointError, run

    checkpoint = output / f"{chosen.name}.checkpoint"
    start = time.monotonic_ns()
    try:
        output.mkdir(parents=True, exist_ok=True)
        if fresh:
            checkpoint.unlink(missing_ok=True)
        with render.progress(chosen.size * settings.tasksets, chosen.name) as bar:
            table = run(chosen, settings, checkpoint, jobs, lambda done, _: bar.update(done - bar.pos), executor)
        files = [output / f"{chosen.name}.csv", output / f"{chosen.name}.{form}"]
        write_csv(table, files[0])
        draw(table, files[1])
        if any(curve.dashed for curve in chosen.available):
            files.append(output / f"{chosen.name}-printed.{form}")
            draw(table, files[2], dashed=True)
        checkpoint.unlink()
    except CheckpointError as error:
        raise UsageError(f"{error}; --fresh forgets it") from None
    except ImportError:
        raise UsageError("--method drs needs the package drs: pip install 'gpurt[drs]'") from None
    except OSError as error:
        raise unwritable(error.filename or output, error) from None
    left_out = [curve.label for curve in chosen.curves if curve.missing]
    return report(chosen.name, start, files, table.rows(), left_out)


def _text(report: dict[str, Any]) -> str:
    lines = [f"{report['experiment']}: {report['wall_ns'] / 1e9:.1f} s; {', '.join(map(str, report['files']))}"]
    lines += [f"note: curve {label} is left out, for there is no such test" for label in report["left_out"]]
    marks = {True: "reproduced", False: "NOT REPRODUCED"}
    lines += [f"{marks[one.reproduced]}: {one.text}: {one.why}" for one in report.get("claims", [])]
    return "\n".join(lines)


class _Local:
    """No Dask: the runner chooses for itself."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _executor(address: str | None, as_json: bool) -> Any:
    """A context manager that yields an executor on a Dask cluster; None where no address is given."""
    if address is None:
        return _Local()
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
