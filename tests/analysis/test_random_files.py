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
from file_sets import Drawn

from analysis import rta
from analysis.choose import choices
from analysis.model import Taskset
from analysis.rtgpu.federated import Federated
from analysis.simulate import Options, SimulationError, simulate, worst_over_offsets
from analysis.taskset.file import load, parse
from analysis.verdict import answer, covering, lacks_theta
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


def ways(taskset: Taskset, rng: random.Random) -> Iterator[Options]:
    """Worst cases, and random ones with late releases; GPU work as the file has it, and slowed down as it happens."""
    if any((part.policy or taskset.platform.policy) != taskset.policies[0] for part in taskset.parts):
        return  # the simulator has one policy everywhere
    horizon, cpu = 6 * max(task.period for task in taskset), taskset.platform.thread_cpu or 0
    happens = not taskset.time_partitioned and any(task.intensity for task in taskset)
    for execution in ("worst", "random"):
        for contention in (False, True)[: 1 + happens]:
            yield Options(taskset.policies[0], None, execution, execution == "random", horizon, job_cpu=cpu,
                          seed=rng.getrandbits(60), contention=contention)  # fmt: skip


def test_no_run_exceeds_a_bound_of_its_file() -> None:
    """A slowed-down segment may be a ns longer than bounds count it (tests/analysis/test_contention.py)."""
    bounded = set()
    for rng, text, taskset in files("bounds", 250):
        found = [test for test in covering(taskset) if not lacks_theta(test, taskset)]
        bounds = {test.name: test.run(taskset) for test in found}
        for options in ways(taskset, rng) if found else ():
            try:
                seen = worst_over_offsets(taskset, options, 6).tasks
            except SimulationError:
                continue
            rounded = sum(len(task.segments) for task in taskset) * options.contention
            for name, result in bounds.items():
                known = {task.name: result.wcrt(task.name) for task in taskset.real_time}
                above = [one for one, wcrt in known.items() if wcrt is not None and seen[one].worst > wcrt + rounded]
                assert not above, (name, above, options, text)
                bounded |= {name} if result.schedulable else set()
    assert len(bounded) > 10


def test_no_run_from_many_first_releases_exceeds_a_bound() -> None:
    """Times of a few ns, so that instants coincide, with segments of 0 ns anywhere."""
    bounded, tried = set(), 0
    for rng, text, taskset in files("phases", 200, unit=1):
        found = [test for test in covering(taskset) if not lacks_theta(test, taskset)]
        bounds = {test.name: result for test in found if (result := test.run(taskset)).schedulable}
        phases = [[rng.randrange(task.period) for task in taskset.tasks[1:]] for _ in range(60)]
        for options in ways(taskset, rng) if bounds else ():
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
    assert tried > 1000


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
    for _, text, taskset in files("choose", 80):
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
        again = rta.find(rta.find(best.test).base).run(made)
        for task in taskset.real_time:
            now, promised = again.wcrt(task.name), best.result.wcrt(task.name)
            assert now is not None, text
            assert promised is not None
            assert now <= promised, text
        written += 1
    assert written > 10


@pytest.mark.parametrize("seed", range(3))
def test_files_of_a_seed_are_the_same(seed: int) -> None:
    assert Drawn(random.Random(seed)).text() == Drawn(random.Random(seed)).text()
