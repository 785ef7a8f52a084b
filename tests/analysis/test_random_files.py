# SPDX-License-Identifier: GPL-2.0
"""Random files with every key: no bound is exceeded, and what `gpurt plan modes` promises holds once it is written.

Here some hundred files; GPURT_LONG=1 takes a hundred times as many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import random_files as attacked
from drawn import Drawn
from effort import tries
from random_files import attack_files, demand_runs
from related import Related

from analysis.answers.choose import choices
from analysis.answers.verdict import answer, covering, lacks_theta
from analysis.model import Taskset
from analysis.papers import registry
from analysis.simulation.federated import Federated
from analysis.simulation.simulate import Options, SimulationError, simulate
from analysis.taskset.file import load, parse
from gpurt.errors import FileError, TasksetError
from pycontrol.commands.modes import _write

TIMES = 100 if os.environ.get("GPURT_LONG") else 1


def files(seed: str, count: int, unit: int = 0, kind: str = "") -> Iterator[tuple[random.Random, str, Taskset]]:
    """The files that bounds can be about, among ``count`` random ones (GPURT_LONG=1: 100 times as many).

    ``unit``, ``kind``: those of each file, not drawn ones.
    """
    for number in range(count * TIMES):
        rng = random.Random(f"{seed} {number}")
        drawn = Drawn(rng)
        drawn.unit = unit or drawn.unit
        if kind:
            drawn.kind, drawn.units, drawn.contended, drawn.parts = kind, 12, False, []
        text = drawn.text()
        try:
            file = parse(Path("set.toml"), text)
        except TasksetError:
            continue
        if file.taskset.real_time and not file.lacks:
            yield rng, text, file.taskset


def test_no_schedule_exceeds_a_bound_of_its_file() -> None:
    found = attack_files(tries(250, 80) * TIMES, seed=3, jobs=1)
    assert not found.broken
    assert {what: found.counts["all", what] > 5 * TIMES for what in ("explored", "simulated", "yes")} == {
        "explored": True, "simulated": True, "yes": True,
    }  # fmt: skip


def test_a_bound_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: bounds that are a tenth less."""
    bounds = attacked._bounds
    monkeypatch.setattr(attacked, "_bounds", lambda *given: {n: one * 9 // 10 for n, one in bounds(*given).items()})
    assert attack_files(20, seed=3, jobs=1).broken


def test_no_run_from_many_first_releases_exceeds_a_bound() -> None:
    """Times of a few ns, so that instants coincide, with segments of 0 ns anywhere."""
    bounded, tried = set(), 0
    for rng, text, taskset in files("phases", tries(200, 100), unit=1):
        found = [test for test in covering(taskset) if not lacks_theta(test, taskset)]
        bounds = {test.name: result for test in found if (result := test.run(taskset)).schedulable}
        phases = [[rng.randrange(task.period) for task in taskset.tasks[1:]] for _ in range(60)]
        for options in demand_runs(taskset, rng) if bounds else ():
            for offsets in phases if not options.contention else ():
                try:
                    seen = simulate(taskset, options, [0, *offsets]).tasks
                except SimulationError:
                    break
                tried += 1
                for name, result in bounds.items():
                    above = [t.name for t in taskset.real_time if seen[t.name].worst > (result.wcrt(t.name) or 0)]
                    assert not above, (name, above, options, offsets, text)
        bounded |= bounds.keys()
    assert len(bounded) > 5
    assert tried > 5 * tries(200, 100)


def test_no_run_on_own_units_exceeds_a_bound_of_its_file() -> None:
    bounded = 0
    for rng, text, taskset in files("units", 150, kind="own"):
        horizon = 8 * max(task.period for task in taskset)
        options = Options("federated", None, "random", rng.random() < 0.5, horizon, seed=rng.getrandbits(60))
        try:
            own = Federated.of(taskset, options)
            seen = own.worst_over_offsets(8).tasks
        except SimulationError:
            continue
        known = own.bounds()
        above = [name for name, wcrt in known.items() if seen[name].worst > wcrt]
        assert not above, (above, options, text)
        bounded += len(known)
    assert bounded > 5


def test_what_is_chosen_passes_where_it_is_written(tmp_path: Path) -> None:
    """Not only if the analysis finds another test: the test that was named has no larger bound in the written file."""
    path, written = tmp_path / "set.toml", 0
    for _, text, taskset in files("choose", tries(80, 30)):
        best = next(iter(choices(taskset)), None)
        if best is None or not best.schedulable:
            continue
        path.write_text(text)
        try:
            _write(path, taskset, best)
        except FileError:  # a layout that is not understood
            continue
        made = load(path).taskset
        assert answer(made).schedulable, text
        again = registry.find(registry.find(best.test).base).run(made)
        for task in taskset.real_time:
            now, promised = again.wcrt(task.name), best.result.wcrt(task.name)
            assert now is not None, text
            assert promised is not None
            assert now <= promised, text
        written += 1
    assert written > tries(80, 30) // 8


@pytest.mark.parametrize("seed", range(3))
def test_files_of_a_seed_are_the_same(seed: int) -> None:
    for kind in (Drawn, Related):
        assert kind(random.Random(seed)).text() == kind(random.Random(seed)).text()
