# SPDX-License-Identifier: GPL-2.0
"""The command that executes jobs in space by their energy: plan energy simulate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from analysis.energy import compiled
from analysis.energy.file import load_system
from analysis.energy.outcome import EnergyRun
from analysis.energy.trace import trace_of
from gpurt.errors import UsageError
from gpurt.files import check_writable
from pycontrol.commands.energy_options import IGNORE_CPU, POLICY, setups
from pycontrol.commands.options import FILE, JSON, TIME, Output, command, files_apart
from pycontrol.output import energy as data
from pycontrol.output import render
from pycontrol.output.render import ms

#: A trace is written of a run with at most this many jobs.
MOST_TRACED = 1_000_000


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy simulate examples/energy/toy.toml --policy sbeet-mg --horizon 600ms
  gpurt plan energy simulate system.toml --policy sbeet-mg --policy ld --runs 100 --random-offsets
  gpurt plan energy simulate system.toml --policy sbeet-mg -o run.json

\b
Exit codes: 0 no job missed its deadline; 1 one did, or none of a task was due; 2 wrong usage; 3 a file is wrong, or
cannot be written; 6 a job exceeded a bound, which is a bug."""
)
@FILE
@POLICY
@click.option("--horizon", metavar="TIME", type=TIME, default="15s", show_default=True, help="How long a run is.")
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1, 10**7), help="Number of runs.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63), help="Of the first run.")
@click.option("--execution", type=click.Choice(["worst", "best", "random"]), default="worst", show_default=True)
@click.option("--sporadic", is_flag=True, help="Delay releases by up to a tenth of the period.")
@click.option("--random-offsets", is_flag=True, help="First releases at random in [0, period), not the file's.")
@click.option("--complete", is_flag=True,
              help="Release jobs before the horizon only, and run until all are done: equal jobs for every policy.")
@click.option("-o", "--output", "trace_path", type=Output(), help="Write the first run of the only policy as a trace.")
@IGNORE_CPU
@JSON
def simulate_command(
    file: Path, policies: tuple[str, ...], horizon: int, runs: int, seed: int, execution: str, sporadic: bool,
    random_offsets: bool, complete: bool, trace_path: Path | None, ignore_cpu: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run the jobs on spatial virtual GPUs: what they miss, and what that costs."""
    files_apart([trace_path], file)
    loaded = load_system(file, ignore_cpu, planned=True)
    if trace_path and len(policies) > 1:
        raise UsageError("-o goes with one --policy")
    jobs = sum(horizon // task.period + 1 for task in loaded.system.tasks)
    if trace_path and jobs > MOST_TRACED:
        raise UsageError(f"-o: a run of {ms(horizon)} ms has {jobs} jobs, a trace up to {MOST_TRACED}")
    if trace_path:
        check_writable(trace_path)
    try:
        run = EnergyRun(horizon, execution, sporadic, random_offsets, seed, complete)
    except ValueError as error:
        raise UsageError(f"--horizon: {error}") from None
    found, chosen = [], setups(loaded.system, policies)
    with render.progress(runs * len(chosen), "simulating") as bar:
        for setup in chosen:
            summed = data.Sum(setup)
            tables = compiled.Tables(setup)
            for index in range(runs):
                one = replace(run, seed=(seed + index) % 2**64)
                summed.add(compiled.simulate_compiled(setup, one, tables=tables), one)
                bar.update(1)
            found.append(summed)
            if trace_path:
                trace_of(setup, run, compiled.simulate_compiled(setup, run, jobs)).save(trace_path)
    render.note(*loaded.notes, *(note for one in found for note in one.notes()), as_json=as_json)
    whole = {
        "file": file, "runs": runs, "horizon_ns": horizon, "in_time": all(one.in_time for one in found),
        "policies": [one.document() for one in found], "notes": [*loaded.notes, *(n for o in found for n in o.notes())],
        "files": [trace_path] if trace_path else [],
    }  # fmt: skip
    render.emit(whole, as_json, data.energy_text(found))
    return max(one.exit_code for one in found)
