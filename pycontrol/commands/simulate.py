# SPDX-License-Identifier: GPL-2.0
"""The command that runs a taskset in virtual time: simulate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.answers.loading import analysable, modelled
from analysis.answers.shared import Shared, in_mode
from analysis.model import FEDERATED, Taskset, Waiting
from analysis.model.conflicts import under
from analysis.rta.regions import switching
from analysis.simulation.federated import Federated
from analysis.simulation.simulate import Options, Simulation, SimulationError, SuspensionError, default_horizon
from gpurt.errors import UsageError
from gpurt.files import check_writable
from gpurt.types import Document
from pycontrol.commands.options import FILE, JSON, POLICY_NAME, Output, command, files_apart
from pycontrol.observe import documents
from pycontrol.observe.judge.chains import simulated_chains
from pycontrol.observe.judge.check import NOTHING_OBSERVED
from pycontrol.observe.observed import chains_data, chains_text
from pycontrol.output import render
from pycontrol.output.render import ms

if TYPE_CHECKING:
    Subject = Federated | Shared

#: A remark about how chains are simulated.
READ = "chains: a sampled link takes the last job that had ended"
#: How many jobs take about half a minute to simulate.
MANY_JOBS = 10_000_000
#: A trace is written of a run with at most this many events.
MOST_EVENTS = 1_000_000


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt simulate examples/case-study.toml --policy boosted --waiting busy
  gpurt simulate set.toml --runs 1 -o run.json      ui.perfetto.dev draws it

\b
Exit codes: 0 no real-time task missed a deadline, and no chain exceeded its limit; 1 one did, or was not seen, there is
no task, or tasks that suspend cannot be simulated under policy job; 2 wrong usage; 3
the file is wrong, or the trace cannot be written; 6 a sound bound was exceeded, which is a bug."""
)
@FILE
@click.option("--policy", type=POLICY_NAME, metavar="NAME",
              help="Scheduling policy, not the file's; also federated: tasks own units, and copies share a bus.")
@click.option("--waiting", type=click.Choice([mode.value for mode in Waiting]),
              help="Waiting mode of all tasks, not the file's.")
@click.option(
    "--runs", "offsets", default=1000, show_default=True, type=click.IntRange(1, 10**7),
    help="Number of runs, each with other first releases.",
)
@click.option("--execution", type=click.Choice(["worst", "best", "random"]), default="worst", show_default=True)
@click.option("--sporadic", is_flag=True, help="Delay releases by up to a tenth of the period.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same runs.")
@click.option("-o", "--output", "trace_path", type=Output(), help="Write the first run as a trace.")
@JSON
def simulate_command(
    file: Path, policy: str | None, waiting: str | None, offsets: int, execution: str, sporadic: bool,
    seed: int, trace_path: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the taskset in virtual time on the real scheduler, many times with different first releases."""
    files_apart([trace_path], file)
    loaded = (modelled(file) if policy == FEDERATED else analysable(file, workers=True)).taskset
    if trace_path:
        check_writable(trace_path)
    if not policy and len(loaded.policies) > 1:
        raise UsageError(f"partitions have policies {' and '.join(loaded.policies)}; name one for all with --policy")
    mode = Waiting(waiting) if waiting else None
    options = Options(policy or loaded.policies[0], mode, execution, sporadic, seed=seed,
                      job_cpu=loaded.platform.thread_cpu or 0)  # fmt: skip
    try:
        subject = _subject(loaded, options)
        render.note(*_takes_long(loaded, offsets), as_json=as_json)
        seen = _worst(subject, offsets)
        bounds, meant = subject.bounds(), in_mode(loaded, mode)
        chained = [simulated_chains(chain, seen.chains[chain.name], meant, bounds) for chain in loaded.chains]
        if trace_path:
            subject.trace(MOST_EVENTS).save(trace_path)
    except SuspensionError as error:
        nothing: Document = {"runs": 0, "in_time": False, "why": str(error), "tasks": {}, "files": []}
        text = f"NOT SIMULATED under policy {options.policy}: {error}; --waiting busy simulates that"
        render.emit({"file": file, "policy": options.policy, **nothing}, as_json, text)
        return 1
    except SimulationError as error:
        raise UsageError(str(error)) from None
    remarks = [*subject.notes, *seen.full, *([READ] if chained else [])]
    render.note(*remarks, as_json=as_json)
    table, data, code = _verdicts(loaded, seen, bounds)
    unseen = next((one.why_unseen for one in chained if one.why_unseen), None)
    code = max(code, *(6 if one.unsound else int(one.exceeded) for one in chained), int(unseen is not None))
    given = dict(subject.given) if subject.given is not None else None
    why = unseen if loaded.real_time else NOTHING_OBSERVED
    whole = {
        "file": file, "policy": options.policy, "runs": offsets, "in_time": code == 0, "why": why, "tasks": data,
        "chains": chains_data(chained), "files": [trace_path] if trace_path else [], "given": given, "notes": remarks,
    }  # fmt: skip
    owned = [] if given is None else ["units: " + ", ".join(f"{name} {count}" for name, count in given.items())]
    shown = ["", chains_text(chained).rstrip("\n")] if chained else []
    text = "\n".join([*owned, table, *shown, *([why] if why else [])])
    render.emit(whole, as_json, text)
    return code


def _subject(loaded: Taskset, options: Options) -> Subject:
    """The system to simulate, with its times under the given policy.  Raises SimulationError."""
    if options.policy == FEDERATED:
        return Federated.of(loaded, options)
    return Shared(switching(under(loaded, options.policy, everywhere=True) or loaded), options)


def _worst(subject: Subject, offsets: int) -> Simulation:
    """The observations of ``offsets`` runs.  Raises SimulationError."""
    with render.progress(offsets, "simulating") as bar:
        return subject.worst_over_offsets(offsets, bar.reach)


def _takes_long(taskset: Taskset, runs: int) -> list[str]:
    """A remark if the runs will take minutes; else none."""
    horizon = default_horizon(taskset)
    jobs = sum(horizon // task.period for task in taskset)
    few = max(1, MANY_JOBS // max(10 * jobs, 1))
    long = runs * jobs > MANY_JOBS and few < runs
    return [f"{runs} runs of {jobs} jobs each take minutes; --runs {few} takes a {runs // few}th of that"] * long


def _verdicts(loaded: Taskset, seen: Simulation, bounds: Mapping[str, int]) -> tuple[str, Document, int]:
    """Each task's response times with its bound and deadline: the table, the documents, and the exit code."""
    rows, data, code = [], {}, 0 if loaded.real_time else 1
    for task in loaded:
        observed, bound = seen.tasks[task.name], bounds.get(task.name)
        above = bound is not None and observed.worst > bound
        if not task.best_effort:
            code = max(code, 6 if above else 1 if observed.misses else 0)
        due = ("-", "-") if task.best_effort else (ms(task.deadline), str(observed.misses))
        rows.append((task.name, str(observed.jobs), ms(observed.worst), render.bound(bound), *due,
                     "ABOVE ITS BOUND" if above else ""))  # fmt: skip
        data[task.name] = documents.seen_task(
            best_effort=task.best_effort, jobs=observed.jobs, mort=observed.worst if observed.finished else None,
            wcrt=bound, deadline=task.deadline, misses=observed.misses,
        )
    return render.table(("task", "jobs", "MORT ms", "WCRT ms", "deadline ms", "misses", ""), rows), data, code
