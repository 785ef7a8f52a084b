# SPDX-License-Identifier: GPL-2.0
"""The heuristics: merge partitions until they fit (algorithms 1 and 3), and the baseline of one partition.

SMS and BF choose by the orders of definitions 3 and 4.  `docs/readings/partitioning.md`, "Partitioning", says where the
printed algorithms are corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from analysis.partition.merge import Infeasible, Merger, Part
from analysis.partition.workload import Workload

#: Orders of the list of partitions: by decreasing or increasing utilization.
LIST_ORDERS = ("dec", "inc")
#: The choice of a merge: fewest units, emptiest first (best fit as printed), fullest first, most units saved.
RULES = ("sms", "bf", "fit", "sav")
ONE = "1g"
#: Every heuristic by name.  INA: failed merges forbid pairs of partitions; ACT: pairs of tasks are tried before.
HEURISTICS = (ONE, *(f"{rule}-{mode}" for rule in RULES for mode in ("ina", "act")))


@dataclass(frozen=True)
class MergeStep:
    """A merge that a heuristic has made."""

    one: Part
    other: Part
    merged: Part


@dataclass(frozen=True)
class Allocation:
    """Partitions, each schedulable in its size; ``fits``: whether they fit the GPU.

    ``load``: scheduled load in units of 2^-SHIFT.
    """

    workload: Workload = field(repr=False)
    parts: tuple[Part, ...]
    steps: tuple[MergeStep, ...] = field(default=(), repr=False)

    @property
    def units(self) -> int:
        """Pi: the sum of the sizes."""
        return sum(part.size for part in self.parts)

    @property
    def fits(self) -> bool:
        """Lemma 3, and no more partitions than the mechanism has."""
        return self.units <= self.workload.units and len(self.parts) <= (self.workload.most or len(self.parts))

    @property
    def load(self) -> int:
        """The scheduled load of all partitions."""
        return sum(self.workload.load(part.tasks) for part in self.parts)

    @property
    def sets(self) -> dict[tuple[int, ...], int]:
        """The size of each partition, by its tasks."""
        return {part.tasks: part.size for part in self.parts}


def run_variant(
    workload: Workload, variant: str, order: str = LIST_ORDERS[0], merger: Merger | None = None
) -> Allocation | Infeasible:  # fmt: skip
    """The result of a variant for the workload.  One that does not fit is where the heuristic stopped."""
    merger = merger or Merger(workload)
    start = merger.singles
    if isinstance(start, Infeasible):
        return start
    if variant == ONE and start:
        return _one(merger)
    rule, _, mode = variant.partition("-")
    return _Heuristic(merger, rule, mode == "act", order, start).allocation()


def best(workload: Workload, merger: Merger | None = None) -> Allocation | Infeasible:
    """The best of all variants in both orders: it fits, with the fewest units, then the least scheduled load.

    If none fits: the result with the fewest units, or with the fewest partitions if there are too many.
    """
    merger, found = merger or Merger(workload), []
    for variant, order in ((variant, order) for variant in HEURISTICS for order in LIST_ORDERS):
        outcome = run_variant(workload, variant, order, merger)
        if isinstance(outcome, Infeasible) and (outcome.lemma or outcome.task):
            return outcome
        if isinstance(outcome, Allocation):
            found.append(outcome)
    return min(found, key=rank)


def rank(outcome: Allocation) -> tuple[bool, bool, int, int]:
    """The key by which `best` compares."""
    fewest = outcome.units if outcome.fits or outcome.units > outcome.workload.units else len(outcome.parts)
    return not outcome.fits, outcome.units > outcome.workload.units, fewest, outcome.load


def _one(merger: Merger) -> Allocation | Infeasible:
    """1G: all tasks in one partition of the whole GPU."""
    everything, size = range(len(merger.workload.items)), merger.workload.allowed[-1]
    if not merger.passes(everything, size):
        return Infeasible(None, f"all tasks in one partition of {size} units miss a deadline")
    return Allocation(merger.workload, (merger.part(everything, size),))


class _Heuristic:
    """One run: the partitions, the forbidden pairs of partitions and of tasks, and the steps made."""

    def __init__(self, merger: Merger, rule: str, exhaustive: bool, order: str, start: list[Part]) -> None:
        self.merger, self.workload = merger, merger.workload
        self.rule, self.order = rule, order
        self.parts = start
        self.steps: list[MergeStep] = []
        self.forbidden: set[frozenset[int]] = set()
        self.apart: set[tuple[int, int]] = set()
        if exhaustive:
            self.apart = {
                (one.tasks[0], other.tasks[0]) for one, other in combinations(start, 2) if not merger.merge(one, other)
            }

    def allocation(self) -> Allocation:
        """Merges until the partitions fit (algorithm 1), or until no merge is left."""
        while self._units() > self.workload.units:
            if not self._merge_one():
                return self._result()
        while self.workload.most is not None and len(self.parts) > self.workload.most and self._grow_one():
            pass
        return self._result()

    def _units(self) -> int:
        return sum(part.size for part in self.parts)

    def _result(self) -> Allocation:
        parts = tuple(sorted(self.parts, key=lambda part: part.tasks))
        return Allocation(self.workload, parts, tuple(self.steps))

    def _listed(self) -> list[Part]:
        """The partitions in the order of the list; ties by their first task."""
        sign = -1 if self.order == "dec" else 1
        return sorted(self.parts, key=lambda part: (sign * part.utilization, part.tasks))

    def _merge_one(self) -> bool:
        """One iteration of algorithm 1's loop that merges; False if no candidate is left (algorithm 3)."""
        listed = self._listed()
        for one in listed:
            for other in self._choices(one, [part for part in listed if self._eligible(one, part)]):
                if merged := self._try(one, other):
                    self._replace(one, other, merged)
                    return True
        return False

    def _eligible(self, one: Part, other: Part) -> bool:
        if one is other or frozenset((one.key, other.key)) in self.forbidden:
            return False
        return not any((min(i, j), max(i, j)) in self.apart for i in one.tasks for j in other.tasks)

    def _try(self, one: Part, other: Part) -> Part | None:
        merged = self.merger.merge(one, other)
        if merged is None:
            self.forbidden.add(frozenset((one.key, other.key)))
        return merged

    def _choices(self, one: Part, eligible: list[Part]) -> list[Part]:
        """The eligible partitions, best first; under rules that evaluate merges, only the best one.

        Ties have the order of the list: by decreasing or increasing utilization.
        """
        if self.rule in ("bf", "fit"):
            sign = 1 if self.rule == "bf" else -1
            return sorted(eligible, key=lambda other: sign * self._together(one, other))
        merges = [(other, merged) for other in eligible if (merged := self._try(one, other))]
        if not merges:
            return []
        gain = 0 if self.rule == "sms" else 1
        return [min(merges, key=lambda m: m[1].size - gain * m[0].size)[0]]

    def _together(self, one: Part, other: Part) -> int:
        """U of both sets in the larger one of both sizes, since definition 4 orders without merging."""
        return self.workload.utilization(one.tasks + other.tasks, max(one.size, other.size))

    def _grow_one(self) -> bool:
        """Merges the pair that needs the fewest additional units, among the free ones, to remove one partition."""
        free = self.workload.units - self._units()
        pairs = [
            (merged.size - one.size - other.size, merged.utilization, one, other, merged)
            for one, other in combinations(self._listed(), 2)
            if (merged := self.merger.merge(one, other, free + 1))
        ]
        if not pairs:
            return False
        *_, one, other, merged = min(pairs, key=lambda pair: pair[:2])
        self._replace(one, other, merged)
        return True

    def _replace(self, one: Part, other: Part, merged: Part) -> None:
        self.parts = [part for part in self.parts if part is not one and part is not other] + [merged]
        self.steps.append(MergeStep(one, other, merged))
