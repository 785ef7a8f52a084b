# SPDX-License-Identifier: GPL-2.0
"""Options that the energy commands share."""

from __future__ import annotations

import click

from analysis.energy.policies import POLICIES
from analysis.energy.setup import Setup, prepare_tables
from analysis.model.energy import SpatialSystem
from gpurt.errors import UsageError

IGNORE_CPU = click.option("--ignore-cpu", is_flag=True, help="Leave CPU segments out, with a note.")
POLICY = click.option("--policy", "policies", metavar="NAME", multiple=True,
                      help="A policy; several to compare. Default: sbeet, or sbeet-mg for several GPUs.")  # fmt: skip


def default_policy(system: SpatialSystem) -> str:
    """The policy if the user names none."""
    return "sbeet-mg" if len(system.gpus) > 1 else "sbeet"


def one_policy(system: SpatialSystem, name: str) -> Setup:
    """A policy's tables for the system.  Raises UsageError if there is no such policy, or if it is for one GPU only."""
    if name not in POLICIES:
        raise UsageError(f"--policy: no policy is called {name!r}; there are {', '.join(POLICIES)}")
    try:
        return prepare_tables(system, POLICIES[name])
    except ValueError as error:
        raise UsageError(f"--policy: {error}") from None


def setups(system: SpatialSystem, names: tuple[str, ...]) -> list[Setup]:
    """The tables of several policies, or of the default policy; repeated names count once."""
    return [one_policy(system, name) for name in dict.fromkeys(names or (default_policy(system),))]
