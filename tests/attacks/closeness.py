# SPDX-License-Identifier: GPL-2.0
"""How close bounds are to the truth: bound over exact worst case, in tiny tasksets all schedules of which are known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attack_search import is_delayed
from every_schedule import compare
from kinds import with_random_chains, with_random_pending, with_random_threads
from tiny import tiny_for, tiny_forks, tiny_holds

from analysis.attack.exact import TooManyStatesError
from analysis.model import Taskset
from analysis.rta import Test, Verdict

#: The longest period of a task, in units.
MAX_PERIOD_UNITS = 9
#: Releases come at such parts of a unit: a blocking that begins just before a release is seen almost whole.
FINER = 2
#: The most states of a taskset whose threads serve several tasks, or that can have several pending jobs of a task.
MAX_STATES = 200_000


@dataclass(frozen=True)
class Kind:
    """A kind of tasksets: ``threads`` serve several tasks, several jobs of a task are ``pending``, it has ``chains``.

    With those the times of chains are compared, and not those of tasks.  ``workers``: tasks have workers, in half of
    the tasksets of policy `boosted` under a hold, and those of workers are compared.
    """

    threads: bool = False
    pending: bool = False
    chains: bool = False
    workers: bool = False

    def drawn(self, test: Test, rng: random.Random) -> Taskset:
        """A taskset of this kind that a test is about."""
        if self.workers:
            return tiny_holds(rng) if test.rules.raises and rng.random() < 0.5 else tiny_forks(rng)
        taskset = tiny_for(test, rng, MAX_PERIOD_UNITS, empty=False)
        if self.threads:
            taskset = with_random_threads(taskset, rng)
        taskset = with_random_pending(taskset, rng) if self.pending else taskset
        return with_random_chains(taskset, rng, triggers=test.pending) if self.chains else taskset

    @property
    def plain(self) -> bool:
        """Whether every such taskset is small enough."""
        return not (self.threads or self.pending or self.chains or self.workers)

    def counts(self, name: str, verdicts: Mapping[str, Verdict], taskset: Taskset) -> bool:
        """Whether a bound is compared: that of a chain, of a worker, or of a task that another one delays."""
        if self.chains or self.workers:
            return name in taskset.started if self.workers else name not in verdicts
        return name in verdicts and is_delayed(verdicts[name])


@dataclass(frozen=True)
class Closeness:
    """The findings about a test.

    ``ratios``: bound over exact worst case, ascending, of each task that another one delays and that takes any time.
    ``broken``: tasksets in which a schedule exceeds a bound; their ratios are left out.  ``counterexample``: the first
    of them.  ``large``: tasksets that have too many states.
    """

    test: Test
    tasksets: int
    bounded: int
    states: int
    broken: int
    ratios: tuple[float, ...]
    large: int = 0
    counterexample: Taskset | None = None

    def quantile(self, share: float) -> float:
        """The smallest ratio that this share of the tasks does not exceed; 0 if there are no ratios."""
        at = min(len(self.ratios) - 1, int(share * len(self.ratios)))
        return self.ratios[at] if self.ratios else 0.0


def closeness(
    test: Test, tasksets: int, seed: int, progress: Callable[[int], None] | None = None, kind: Kind = Kind()
) -> Closeness:  # fmt: skip
    """Compares the bounds of a test with exact worst cases; the same seed gives the same tasksets.

    ``progress`` is called with the number of tasksets done.
    """
    rng = random.Random(f"{seed} {test.base}")
    ratios: list[float] = []
    bounded = states = broken = large = 0
    wrong: Taskset | None = None
    for done in range(1, tasksets + 1):
        taskset = kind.drawn(test, rng)
        try:
            found = compare(test, taskset, finer=FINER) if kind.plain else compare(test, taskset, MAX_STATES)
        except TooManyStatesError:
            found, large = None, large + 1
        if found:
            bounded, states, broken = bounded + 1, states + found.states, broken + bool(found.broken)
            wrong = wrong or (found.taskset if found.broken else None)
        if found and not found.broken:
            verdicts = test.run(found.taskset).verdicts
            ratios += [
                bound / found.exact[name]
                for name, bound in found.bounds.items()
                if found.exact[name] and kind.counts(name, verdicts, found.taskset)
            ]
        if progress and not done % 100:
            progress(done)
    return Closeness(test, tasksets, bounded, states, broken, tuple(sorted(ratios)), large, wrong)


def closeness_table(rows: Sequence[Closeness]) -> str:
    """The rows as a Markdown table."""
    lines = ["| test | tasksets | bounded | broken | tasks | states | median | 95 % | most |", "|---|" + "--:|" * 8]
    for row in rows:
        shown = "" if row.test.sound else " (unsound)"
        shares = " | ".join(f"{row.quantile(share):.2f}" for share in (0.5, 0.95, 1))
        counts = f"{row.tasksets:,} | {row.bounded:,} | {row.broken:,} | {len(row.ratios):,} | {row.states:,}"
        lines.append(f"| `{row.test.name}`{shown} | {counts} | {shares} |")
    return "\n".join(lines)
