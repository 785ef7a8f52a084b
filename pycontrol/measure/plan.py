# SPDX-License-Identifier: GPL-2.0
"""The input and the condition of each run, and the order of runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from gpurt.errors import UsageError
from pycontrol.measure.conditions import Condition

#: How often the program runs unless the user says it, where that is enough for each pair of input and condition.
DEFAULT_RUNS = 20
MOST_RUNS = 100_000
#: The text that stands in a command's words for the input.
PLACE = "{}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A run: its number from 1, in order; its condition; its input, None if there are none."""

    number: int
    condition: Condition
    given: str | None = None

    def command(self, words: Sequence[str]) -> list[str]:
        """The program and its arguments, with the input in its place."""
        given = self.given
        return list(words) if given is None else [word.replace(PLACE, given) for word in words]


def plan_runs(runs: int | None, inputs: Sequence[str], conditions: Sequence[Condition], seed: int = 1) -> list[Planned]:
    """The runs.  Each input and each condition has one at least, and pairs of them as equally many as can be.

    The order is drawn at random, each order as likely as the others.  So a change with time, as of a GPU that gets
    warm, is no property of a condition.  Without such a change every order of the results is equally likely.

    Args:
        runs: how many; None: as many as are needed, or DEFAULT_RUNS if these are more.
        inputs: none if the program takes none.
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
    """All pairs, so that the first max(inputs, conditions) have each input and each condition."""
    turn = lcm(inputs, conditions)
    return [(at % inputs, (at + at // turn) % conditions) for at in range(inputs * conditions)]
