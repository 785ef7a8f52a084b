# SPDX-License-Identifier: GPL-2.0
"""The commands about energy that need no run: plan energy schedule and explain."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.energy import compiled
from analysis.energy.explain import explained_tasks
from analysis.energy.file import load_system
from analysis.energy.optimum import Optimum, least_energy
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import POLICIES
from analysis.energy.schedule import NoTableError, faults, make, save_table
from analysis.model import MS
from analysis.model.energy import SpatialSystem
from gpurt.errors import UsageError
from gpurt.files import check_writable
from gpurt.types import Document
from pycontrol.commands.energy_options import IGNORE_CPU, default_policy, one_policy
from pycontrol.commands.options import FILE, JSON, Output, Time, command, files_apart
from pycontrol.output import energy as data
from pycontrol.output import render
from pycontrol.output.render import ms

#: States after which the search for the least energy gives up.
MAX_OPTIMUM_STATES = 300_000


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
  gpurt plan energy explain examples/energy/toy.toml
  gpurt plan energy explain examples/energy/example5.toml --until 20ms

\b
With --until copies need no units, so that the least energy is a lower bound for the policies.

\b
Exit codes: 0 done, with --until: the least energy is found and proved; 1 no schedule meets all deadlines, or the search
gave up; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--until", metavar="TIME", type=Time(),
              help="Also the least energy of all jobs that are due by then, and what each policy adds to it.")
@click.option("--tick", metavar="TIME", type=Time(),
              help="With --until: kernels start at its multiples; 1ms unless given.")  # fmt: skip
@IGNORE_CPU
@JSON
def explain_command(
    file: Path, until: int | None, tick: int | None, ignore_cpu: bool, as_json: bool
) -> int:  # fmt: skip
    """Say how many units and which GPU is best for each task, and what a few jobs need at least."""
    loaded = load_system(file, ignore_cpu)
    setup = one_policy(loaded.system, default_policy(loaded.system))
    rows = explained_tasks(setup)
    whole: Document = {"file": file, "policy": setup.policy.name, "placements": rows, "notes": loaded.notes}
    text, done = data.explain_text(rows), True
    if until is not None:
        least = _least(loaded.system, until, MS if tick is None else tick)
        text += f"\n\n{_least_text(least)}"
        whole |= least
        done = least["proved"] and least["feasible"]
    elif tick is not None:
        raise UsageError("--tick goes with --until")
    render.note(*loaded.notes, as_json=as_json)
    render.emit(whole, as_json, text)
    return 0 if done else 1


def _least(system: SpatialSystem, until: int, tick: int) -> Document:
    """The least energy that meets all deadlines until then, and what policies add to it.  Raises UsageError."""
    if not 0 < tick <= until <= 10**6 * tick:
        raise UsageError("--tick: must be more than 0, at most --until, and at least a millionth of it")
    found = least_energy(system, until, tick, MAX_OPTIMUM_STATES)
    static = sum(gpu.static for gpu in system.gpus) * until
    starts = [{"task": system.tasks[one.task].name, "job": one.job, "gpu_name": system.gpus[one.gpu].name,
               "units": one.units, "start_ns": one.start, "end_ns": one.end} for one in found.starts]  # fmt: skip
    return {
        "horizon_ns": until, "tick_ns": tick, "jobs": found.jobs, "left_out_jobs": found.left_out,
        "proved": found.proved, "feasible": found.energy is not None,
        "energy_uj": None if found.energy is None else round((found.energy + static) / 10**9),
        "bound_uj": round((found.bound + static) / 10**9), "table": starts, "policies": _gaps(system, until, found),
    }  # fmt: skip


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


def _least_text(whole: Document) -> str:
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
        bound = f"at least {whole['bound_uj'] / 1e6:.6f} J"
        lines.append(f"GAVE UP: {bound}; a shorter --until or a longer --tick has fewer schedules")
    if whole["left_out_jobs"]:
        lines.append(f"{whole['left_out_jobs']} jobs are due later: the policies run them, so that gaps mean nothing")
    cells = [(one["policy"], str(one["missed_jobs"]), f"{one['energy_uj'] / 1e6:.6f}",
              "-" if one["gap_percent"] is None else f"{one['gap_percent']:.3f}") for one in whole["policies"]]
    return "\n".join([*lines, "", render.table(("policy", "missed", "J", "above optimum, % of active"), cells)])
