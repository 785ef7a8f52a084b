# SPDX-License-Identifier: GPL-2.0
"""How close bounds are to the truth: bound over exact worst case, in tiny tasksets all schedules of which are known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import rta
from analysis.attack.exact import compare
from analysis.attack.search import is_delayed
from analysis.attack.tiny import tiny_for
from analysis.rta import Test

#: Periods of tasks are up to so many units.
LONGEST = 9
#: Releases come at such parts of a unit: a blocking that begins just before a release is seen almost whole.
FINER = 2


@dataclass(frozen=True)
class Closeness:
    """What was found of a test.

    ``ratios``: bound over exact worst case, ascending, of each task that another one delays and that takes any time.
    ``broken``: tasksets in which a schedule exceeds a bound; their ratios are left out.
    """

    test: str
    tasksets: int
    bounded: int
    states: int
    broken: int
    ratios: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """The least ratio that so large a share of tasks does not exceed; 0 without any."""
        at = min(len(self.ratios) - 1, int(share * len(self.ratios)))
        return self.ratios[at] if self.ratios else 0.0


def closeness(
    test: Test, tasksets: int, seed: int, progress: Callable[[int], None] | None = None
) -> Closeness:  # fmt: skip
    """Compares the bounds of a test with exact worst cases; the same seed gives the same tasksets.

    ``progress`` is called with the number of tasksets done.
    """
    rng = random.Random(f"{seed} {test.base}")
    ratios: list[float] = []
    bounded = states = broken = 0
    for done in range(1, tasksets + 1):
        found = compare(test, tiny_for(test, rng, LONGEST, empty=False), finer=FINER)
        if found:
            bounded, states, broken = bounded + 1, states + found.states, broken + bool(found.broken)
        if found and not found.broken:
            verdicts = test.run(found.taskset).verdicts
            ratios += [
                bound / found.exact[name]
                for name, bound in found.bounds.items()
                if found.exact[name] and is_delayed(verdicts[name])
            ]
        if progress and not done % 100:
            progress(done)
    return Closeness(test.name, tasksets, bounded, states, broken, tuple(sorted(ratios)))


def table(rows: Sequence[Closeness]) -> str:
    """The rows as a Markdown table."""
    lines = ["| test | tasksets | bounded | tasks | states | median | 95 % | most |", "|---|" + "--:|" * 7]
    for row in rows:
        shown = "" if rta.find(row.test).sound else " (unsound)"
        shares = " | ".join(f"{row.quantile(share):.2f}" for share in (0.5, 0.95, 1))
        counts = f"{row.tasksets:,} | {row.bounded:,} | {len(row.ratios):,} | {row.states:,}"
        lines.append(f"| `{row.test}`{shown} | {counts} | {shares} |")
    return "\n".join(lines)
