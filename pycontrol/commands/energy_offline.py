# SPDX-License-Identifier: GPL-2.0
"""The commands about energy that need no run: plan energy schedule, cost and optimum."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.energy import compiled
from analysis.energy.cost import cost as priced
from analysis.energy.cost import save_table
from analysis.energy.file import load_system
from analysis.energy.optimum import Optimum, least_energy
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import POLICIES
from analysis.energy.power import Energy
from analysis.energy.schedule import NoTableError, faults, make
from analysis.model.energy import SpatialSystem
from gpurt.errors import UsageError
from gpurt.files import check_writable
from gpurt.types import Document
from pycontrol.commands.energy_options import IGNORE_CPU, default_policy, one_policy
from pycontrol.commands.options import FILE, JSON, Output, Time, command, files_apart
from pycontrol.output import energy as data
from pycontrol.output import render
from pycontrol.output.render import ms


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy schedule examples/energy/example5.toml
  gpurt plan energy schedule system.toml --policy sbeet-mg -o table.json

\b
Exit codes: 0 every job of the table meets its deadline; 1 one does not, or there is no table; 2 wrong usage; 3 a file
is wrong, or cannot be written."""
)
@FILE
@click.option("--policy", metavar="NAME", help="What fills the table; sbeet unless given, sbeet-mg for several GPUs.")
@click.option("-o", "--output", type=Output(), help="Write the table (JSON), if every job meets its deadline.")
@IGNORE_CPU
@JSON
def schedule_command(
    file: Path, policy: str | None, output: Path | None, ignore_cpu: bool, as_json: bool
) -> int:  # fmt: skip
    """Make the cyclic table of strictly periodic tasks, and check it.

    Jobs that start at the table's times finish no later than in the table.  The conditions: every release is periodic
    with the file's offsets, and no execution exceeds its worst case.
    """
    files_apart([output], file)
    loaded = load_system(file, ignore_cpu)
    policy = policy or default_policy(loaded.system)
    setup = one_policy(loaded.system, policy)
    if output:
        check_writable(output)
    try:
        table = make(setup)
    except NoTableError as error:
        whole = {"file": file, "policy": policy, "in_time": False, "why": str(error), "table": [], "files": []}
        render.emit(whole, as_json, f"NO TABLE: {error}")
        return 1
    wrong = faults(table)
    if output and not wrong:
        save_table(table, output)
    energy = sum((one.total for one in table.energies), 0)
    rows = [{"task": loaded.system.tasks[one.task].name, "job": one.job, "gpu_name": loaded.system.gpus[one.gpu].name,
             "units": one.units, "first_unit": one.first, "time_ns": one.at, "finish_ns": one.finish}
            for one in table.cycle]  # fmt: skip
    whole = {
        "file": file, "policy": policy, "in_time": not wrong, "why": "; ".join(wrong[:5]) or None,
        "begin_ns": table.begin, "length_ns": table.length, "energy_uj": round(energy / 10**9), "table": rows,
        "files": [output] if output and not wrong else [],
    }  # fmt: skip
    cells = [(ms(one.at), str(row["task"]), str(one.job), str(row["gpu_name"]),
              f"{one.first}-{one.first + one.units - 1}", ms(one.finish))
             for one, row in zip(table.cycle, rows, strict=True)]  # fmt: skip
    lines = [render.table(("at ms", "task", "job", "GPU", "units", "done ms"), cells), ""]
    lines.append(f"repeats every {ms(table.length)} ms from {ms(table.begin)} ms on; {data.joules(energy)} J a cycle")
    lines += [f"MISSED: {one}" for one in wrong[:10]] or ["every job meets its deadline if dispatched by this table"]
    render.emit(whole, as_json, "\n".join(lines))
    return 1 if wrong else 0


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy cost system.toml kernels.json
  gpurt plan energy schedule system.toml -o table.json && gpurt plan energy cost system.toml table.json

\b
A schedule is {"window": "100ms", "kernels": [{"gpu": "t400", "kernel": "hist2", "units": 3, "start": "0ms",
"length": "63.724ms"}]}; start is 0 and length the worst case unless given.

\b
Exit codes: 0 done; 2 wrong usage; 3 a file is wrong."""
)
@FILE
@click.argument("schedule_path", metavar="SCHEDULE", type=click.Path(path_type=Path))
@JSON
def cost_command(file: Path, schedule_path: Path, as_json: bool) -> int:
    """Say what an explicit schedule of kernels costs, in static, idle and dynamic energy."""
    loaded = load_system(file, False)
    until, energies = priced(loaded, schedule_path)
    total = sum(energies, Energy(0, 0, 0))
    names = [*(gpu.name for gpu in loaded.system.gpus), "all"]
    rows = [(name, *map(data.joules, (one.total, one.static, one.idle, one.dynamic)))
            for name, one in zip(names, [*energies, total], strict=True)]  # fmt: skip
    gpus = [{"name": name, **data.energy_data(one)} for name, one in zip(names, energies, strict=False)]
    whole = {"file": file, "schedule": schedule_path, "horizon_ns": until, **data.energy_data(total), "gpus": gpus}
    render.emit(whole, as_json, render.table(("GPU", "J", "static", "idle", "dynamic"), rows))
    return 0


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy optimum examples/energy/example5.toml --until 20ms

\b
Exit codes: 0 the optimum is found and proved; 1 no schedule meets all deadlines, or the search gave up; 2 wrong usage;
3 the file is wrong."""
)
@FILE
@click.option("--until", metavar="TIME", type=Time(),
              help="Jobs that are due by then count; unless given, each task's first one is.")  # fmt: skip
@click.option("--tick", metavar="TIME", type=Time(), default="1ms", show_default=True,
              help="Kernels start at its multiples.")  # fmt: skip
@click.option("--states", default=300_000, show_default=True, type=click.IntRange(1, 10**8), help="When to give up.")
@IGNORE_CPU
@JSON
def optimum_command(
    file: Path, until: int | None, tick: int, states: int, ignore_cpu: bool, as_json: bool
) -> int:  # fmt: skip
    """Find the least energy that meets all deadlines of a few jobs, and what each policy adds to it.

    Copies need no units here, so that the optimum is a lower bound for the policies.
    """
    loaded = load_system(file, ignore_cpu)
    until = until or max(task.offset + task.deadline for task in loaded.system.tasks)
    if not 0 < tick <= until <= 10**6 * tick:
        raise UsageError("--tick: must be more than 0, at most --until, and at least a millionth of it")
    found = least_energy(loaded.system, until, tick, states)
    static = sum(gpu.static for gpu in loaded.system.gpus) * until
    policies = _gaps(loaded.system, until, found)
    tasks, gpus = loaded.system.tasks, loaded.system.gpus
    starts = [{"task": tasks[one.task].name, "job": one.job, "gpu_name": gpus[one.gpu].name, "units": one.units,
               "start_ns": one.start, "end_ns": one.end} for one in found.starts]  # fmt: skip
    whole = {
        "file": file, "horizon_ns": until, "tick_ns": tick, "jobs": found.jobs, "left_out_jobs": found.left_out,
        "proved": found.proved, "feasible": found.energy is not None,
        "energy_uj": None if found.energy is None else round((found.energy + static) / 10**9),
        "bound_uj": round((found.bound + static) / 10**9), "table": starts, "policies": policies,
    }  # fmt: skip
    render.emit(whole, as_json, _optimum_text(whole))
    return 0 if found.proved and found.energy is not None else 1


def _gaps(system: SpatialSystem, until: int, found: Optimum) -> list[Document]:
    """Each policy's energy over the same time, and how much more active energy than the optimum it needs."""
    rows = []
    for name, policy in POLICIES.items():
        if policy.single and len(system.gpus) > 1:
            continue
        outcome = compiled.simulate_compiled(one_policy(system, name), EnergyRun(until + 1))
        energy = compiled.simulate_compiled(one_policy(system, name), EnergyRun(until)).energy
        gap = None
        if found.energy and not found.left_out and not outcome.missed:
            gap = round(100 * (energy.active - found.energy) / found.energy, 3)
        total = round(energy.total / 10**9)
        rows.append({"policy": name, "missed_jobs": outcome.missed, "energy_uj": total, "gap_percent": gap})
    return rows


def _optimum_text(whole: Document) -> str:
    lines, jobs = [], "1 job" if whole["jobs"] == 1 else f"{whole['jobs']} jobs"
    if whole["energy_uj"] is not None:
        starts = [(ms(one["start_ns"]), one["task"], str(one["job"]), one["gpu_name"], str(one["units"]),
                   ms(one["end_ns"])) for one in whole["table"]]  # fmt: skip
        lines += [render.table(("kernel at ms", "task", "job", "GPU", "units", "to ms"), starts), ""]
        least, tick = f"{whole['energy_uj'] / 1e6:.6f} J", ms(whole["tick_ns"])
        lines.append(f"least energy of {jobs}: {least}, for starts at multiples of {tick} ms")
    elif whole["proved"]:
        lines.append(f"NO SCHEDULE of {jobs} with such starts meets all deadlines")
    else:
        lines.append(f"GAVE UP: at least {whole['bound_uj'] / 1e6:.6f} J; --states lets the search go on")
    if whole["left_out_jobs"]:
        lines.append(f"{whole['left_out_jobs']} jobs are due later: the policies run them, so that gaps mean nothing")
    cells = [(one["policy"], str(one["missed_jobs"]), f"{one['energy_uj'] / 1e6:.6f}",
              "-" if one["gap_percent"] is None else f"{one['gap_percent']:.3f}") for one in whole["policies"]]
    return "\n".join([*lines, "", render.table(("policy", "missed", "J", "above optimum, % of active"), cells)])
