# SPDX-License-Identifier: GPL-2.0
"""The input and the condition of each run, and the order of runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from gpurt.errors import UsageError
from pycontrol.measure.conditions import Condition

#: The default number of runs, if that is enough for each pair of input and condition.
DEFAULT_RUNS = 20
MOST_RUNS = 100_000
#: The placeholder in a command's words for the input.
PLACE = "{}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A run: its number from 1, its condition, and its input; None: there are no inputs."""

    number: int
    condition: Condition
    given: str | None = None

    def command(self, words: Sequence[str]) -> list[str]:
        """The program and its arguments, with the input in place of PLACE."""
        given = self.given
        return list(words) if given is None else [word.replace(PLACE, given) for word in words]


def plan_runs(runs: int | None, inputs: Sequence[str], conditions: Sequence[Condition], seed: int = 1) -> list[Planned]:
    """The runs.  Each input and each condition has at least one, and their pairs have as equal numbers as possible.

    The order is random, and all orders are equally likely.  So a drift in time, for example of a GPU that gets warm,
    does not look like the effect of a condition.  Without a drift every order of the results is equally likely.

    Args:
        runs: how many; None: as many as are needed, at least DEFAULT_RUNS.
        inputs: empty if the program takes none.
        conditions: at least one.
        seed: for the order.

    Raises:
        UsageError: there are fewer runs than inputs or conditions.
    """
    given: list[str | None] = [*inputs] or [None]
    chosen = list(conditions)
    least, all_pairs = max(len(given), len(chosen)), len(given) * len(chosen)
    count = max(DEFAULT_RUNS, all_pairs) if runs is None else runs
    if count < least:
        given_too = f"{len(inputs)} inputs and " if inputs else ""
        raise UsageError(
            f"--runs {count} is too few for {given_too}{len(chosen)} conditions ({', '.join(chosen)}): {least} at "
            f"least, {all_pairs} for each input under each condition; or choose with --condition"
        )
    if count > MOST_RUNS:
        raise UsageError(f"--runs {count} is more than {MOST_RUNS}")
    drawn = random.Random(seed)
    drawn.shuffle(given)
    drawn.shuffle(chosen)
    pairs = _pairs(len(given), len(chosen))
    order = [pairs[at % all_pairs] for at in range(count)]
    drawn.shuffle(order)
    return [Planned(at, chosen[second], given[first]) for at, (first, second) in enumerate(order, 1)]


def _pairs(inputs: int, conditions: int) -> list[tuple[int, int]]:
    """All pairs.  The first max(inputs, conditions) pairs contain each input and each condition."""
    turn = lcm(inputs, conditions)
    return [(at % inputs, (at + at // turn) % conditions) for at in range(inputs * conditions)]
