# SPDX-License-Identifier: GPL-2.0
"""The exact optimum by set partitioning, against dynamic programming and by hand."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec

import pytest

from analysis.model import Kernel
from analysis.papers.zahaf_tasksets import Parameters, generate, workload
from analysis.partition import columns, fast
from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import Allocation
from analysis.partition.workload import Item, Workload

#: It takes long to import, and each worker collects these tests.
pytestmark = pytest.mark.skipif(not find_spec("scipy"), reason="needs scipy: pip install 'gpurt[exact]'")
MS = 1_000_000


def summary(found: Allocation | Infeasible) -> object:
    return (found.units, len(found.parts), found.fits) if isinstance(found, Allocation) else found.lemma


@pytest.mark.parametrize("inside", ["fp", "edf"])
def test_the_optimum_is_that_of_dynamic_programming(inside: str) -> None:
    """Units and partitions, with and without a limit of partitions; some fit, some need more units than there are."""
    rng, seen = random.Random(inside), set()
    for seed in range(12):
        count, units = rng.randint(4, 8), rng.randint(6, 12)
        row = generate(Parameters(count, rng.uniform(0.4, 0.9) * units, units, shared=bool(seed % 2)), seed, 1)[0]
        given = replace(workload(row, units, inside), most=rng.choice([None, None, 2, 3]))
        one, other = columns.exact(given, fast.best), fast.exact(given)
        assert summary(one) == summary(other), seed
        seen.add(summary(other) if isinstance(other, Infeasible) else other.fits)
        if isinstance(one, Allocation):
            merger = Merger(given)
            assert sorted(task for part in one.parts for task in part.tasks) == list(range(count))
            assert all(merger.passes(part.tasks, part.size) for part in one.parts)
    assert {True, False} <= seen


def pairs(count: int, most: int | None = None) -> Workload:
    """Equal tasks of which two fit together, and no three: 30 ms of 100 do not scale, and 70 are the deadline."""
    curve = Kernel.linear(40 * MS, 28 * MS)
    item = Item("", 100 * MS, 70 * MS, False, (curve,), Fraction(1), Fraction(1), 2 * MS, 1, 1)
    return Workload(tuple(replace(item, name=f"t{at}") for at in range(count)), 200, "fp", (), most)


def test_many_tasks_of_which_few_fit_together() -> None:
    """22 equal tasks: one needs 1 unit, two need 8 (30 + 40 / 8 is 35, twice that is 70): alone is cheaper."""
    given = pairs(22)
    merger = Merger(given)
    assert [merger.least(tuple(range(number)), 1, 200) for number in (1, 2, 3)] == [1, 8, None]
    assert summary(fast.exact(given)) == (22, 22, True)
    assert summary(fast.exact(pairs(22, 20))) == (2 * 8 + 18, 20, True)
    assert summary(fast.exact(pairs(22, 11))) == (88, 11, True)
    assert summary(fast.exact(pairs(22, 10))) is None


def test_seventeen_tasks_are_for_dynamic_programming() -> None:
    given = workload(generate(Parameters(17, 15, 22), 1, 1)[0], 22)
    found, heuristic = fast.exact(given), fast.best(given)
    assert isinstance(found, Allocation)
    assert isinstance(heuristic, Allocation)
    assert found.fits
    assert found.units <= heuristic.units


def test_what_has_no_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = workload(generate(Parameters(24, 6, 40), 1, 1)[0], 40)
    monkeypatch.setattr(columns, "MOST_SETS", 300)
    with pytest.raises(ValueError, match="looks at 300 sets of tasks at most, and these 24 have more"):
        fast.exact(dense)
    with pytest.raises(ValueError, match="at most 62 tasks, not 63"):
        fast.exact(pairs(63))
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ValueError, match=r"exact for 22 tasks needs scipy: pip install 'gpurt\[exact\]'"):
        fast.exact(pairs(22))
