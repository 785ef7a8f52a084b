# SPDX-License-Identifier: GPL-2.0
"""Options that the energy commands share: the policies, and the choices that the papers leave open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from analysis.energy.policies import POLICIES, Order, Readings
from analysis.energy.setup import Setup, prepare
from analysis.model.energy import SpatialSystem
from gpurt.errors import UsageError

IGNORE_CPU = click.option("--ignore-cpu", is_flag=True, help="Leave CPU segments out, with a note.")
POLICY = click.option("--policy", "policies", metavar="NAME", multiple=True,
                      help="A policy; several to compare. Default: sbeet, or sbeet-mg for several GPUs.")  # fmt: skip
_CHOICES = (
    click.option("--compare", type=click.Choice(["printed", "active"]), default="printed", show_default=True,
                 help="Energies of windows that differ, as printed, or active energies of complete schedules."),
    click.option("--hold", type=click.Choice(["kernel", "job"]), default="kernel", show_default=True,
                 help="How long a job keeps its units: to its kernel's end, or its copy out's."),
    click.option("--window-jobs", type=click.Choice(["arrivals", "all"]), default="arrivals", show_default=True,
                 help="The jobs that algorithm 2 looks at: future ones, or ready ones as well."),
    click.option("--utilization", type=click.Choice(["mean", "opt"]), default="mean", show_default=True,
                 help="What algorithm 4 counts: the mean over unit counts, or that at m^opt."),
    click.option("--late", type=click.Choice(["skip", "run"]), default="skip", show_default=True,
                 help="What becomes of a job that is pending at its deadline."),
    click.option("--infeasible", type=click.Choice(["energy", "fastest"]), default="energy", show_default=True,
                 help="What algorithm 2 takes if no candidate keeps the deadlines."),
    click.option("--full", type=click.Choice(["wait", "weigh"]), default="wait", show_default=True,
                 help="A job whose GPU is full waits if that is in time, or only if it needs less energy, as printed."),
    click.option("--copies", type=click.Choice(["idle", "active"]), default="idle", show_default=True,
                 help="What units draw while a job copies; active: they are also held until the copy out is done."),
    click.option("--best", type=click.Choice(["model", "measured"]), default="model", show_default=True,
                 help="What m^opt and preferred GPUs are from: powers, or a profile's measured_power."),
    click.option("--queue", "order", type=click.Choice(["edf", "rm", "fifo"]),
                 help="Order of the ready queue, not the policy's."),
)  # fmt: skip


def OPTIONS(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802  a decorator like those of options.py
    """Adds the choices that the papers leave open."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command


def options_of(
    compare: str, hold: str, window_jobs: str, utilization: str, late: str, infeasible: str, full: str, copies: str,
    best: str, order: str | None,
) -> Readings:  # fmt: skip
    """The choices as analysis.energy has them."""
    return Readings(
        active=compare == "active", hold_job=hold == "job", ready_too=window_jobs == "all",
        at_best=utilization == "opt", run_late=late == "run", fastest=infeasible == "fastest",
        order=Order[order.upper()] if order else None, weigh=full == "weigh", copies=copies == "active",
        measured=best == "measured",
    )  # fmt: skip


def default_policy(system: SpatialSystem) -> str:
    """The policy where none is named."""
    return "sbeet-mg" if len(system.gpus) > 1 else "sbeet"


def one_policy(system: SpatialSystem, name: str, options: Readings) -> Setup:
    """A policy's tables for the system.  Raises UsageError if there is no such policy, or if it is for one GPU only."""
    if name not in POLICIES:
        raise UsageError(f"--policy: no policy is called {name!r}; there are {', '.join(POLICIES)}")
    try:
        return prepare(system, POLICIES[name], options)
    except ValueError as error:
        raise UsageError(f"{'--best' if 'measured' in str(error) else '--policy'}: {error}") from None


def setups(system: SpatialSystem, names: tuple[str, ...], options: Readings) -> list[Setup]:
    """The tables of several policies, or of the default one; each name counts once."""
    return [one_policy(system, name, options) for name in dict.fromkeys(names or (default_policy(system),))]
