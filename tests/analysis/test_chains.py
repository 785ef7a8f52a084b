# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks with sampled links: bounds, and what the simulator shows of them.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from attack_search import ways
from builders import cpu, gpu, ms, task, taskset
from effort import tries
from random_tasksets import random_taskset

from analysis.attack.exact import explore
from analysis.chains.bounds import bound_of, never_between
from analysis.chains.observed import MEASURE_KEYS, Observed, observed
from analysis.model import Chain, Segment, Taskset
from analysis.papers import registry
from analysis.rta import Bound, Result
from analysis.simulation.simulate import Options, simulate

MANY = 20 if os.environ.get("GPURT_LONG") else 1
Row = tuple[int, int, int, tuple[Segment, ...]]


def system(*rows: Row) -> Taskset:
    """(CPU, priority, period, segments) of strictly periodic tasks, in the order of their chain."""
    tasks = [task(f"t{n}", *row[:3], *row[3]) for n, row in enumerate(rows)]
    made = taskset(*(replace(t, max_period=t.period) for t in tasks))
    return replace(made, chains=(Chain("c", tuple(t.name for t in tasks)),))


#: Specification, section 5, examples 3 to 5: a system, exact reaction, age and age at output, and bounds of them.  The
#: specification has 1 less for the first: there a consumer that would end as its producer wakes ends.  The core
#: executes the producer first then, as it does if the consumer needs any time more.
GOLDEN: list[tuple[Taskset, tuple[int, int, int], tuple[int, int, int]]] = [
    (system((0, 2, 8, (cpu(1), gpu(0, 4), cpu(1))), (0, 1, 8, (cpu(1),))), (22, 22, 14), (24, 24, 16)),
    (system((0, 2, 10, (cpu(1), gpu(0, 6), cpu(1))), (0, 1, 10, (cpu(2),))), (29, 29, 19), (31, 31, 21)),
    (system((0, 2, 4, (cpu(1),)), (0, 1, 6, (cpu(2),))), (11, 11, 6), (13, 13, 7)),
    (system((0, 1, 4, (cpu(1),)), (0, 2, 6, (cpu(2),))), (12, 12, 6), (15, 15, 9)),
    (system((0, 1, 4, (cpu(2),)), (1, 1, 6, (cpu(3),))), (14, 14, 8), (15, 15, 9)),
    (
        system((0, 1, 5, (cpu(1),)), (1, 1, 7, (cpu(1), gpu(0, 3), cpu(1))), (0, 2, 4, (cpu(1),))),
        (22, 22, 18), (24, 24, 20),
    ),
]  # fmt: skip


def responses(made: Taskset) -> Result:
    """The exact responses of its tasks, on which the golden bounds are built."""
    worst = explore(made, Options("boosted")).worst
    return Result("exact", {t.name: Bound(t.name, worst[t.name], t.deadline, lambda: ()) for t in made})


def bounds(made: Taskset) -> tuple[int, int, int]:
    found = bound_of(made.chains[0], made, responses(made))
    reaction, age, at_output = (found.latencies[key].bound for key in ("max_reaction", "max_age", "max_age_at_output"))
    return reaction, age, at_output


def seen(made: Taskset, options: Options, offsets: list[int]) -> Observed:
    """The longest times, as the trace and the simulator have them alike."""
    run = simulate(made, options, offsets, events=20_000)
    assert run.trace is not None
    found = observed(made.chains[0], run.trace, made)
    assert run.chains["c"] == tuple(getattr(found, key) or 0 for key in MEASURE_KEYS), (made, options, offsets)
    return found


@pytest.mark.parametrize(("made", "exact", "bound"), GOLDEN)
def test_golden_bounds(made: Taskset, exact: tuple[int, ...], bound: tuple[int, ...]) -> None:
    assert bounds(made) == tuple(map(ms, bound))


@pytest.mark.parametrize(("made", "exact", "bound"), GOLDEN)
def test_exact_values(made: Taskset, exact: tuple[int, ...], bound: tuple[int, ...]) -> None:
    """Published rules have 18 and 10 for the first, and 23 and 13 for the second: less than what is seen."""
    assert explore(made, Options("boosted")).chains["c"] == tuple(map(ms, exact))


def test_an_event_needs_no_wait_for_the_first_release() -> None:
    made = GOLDEN[2][0]
    chain = replace(made.chains[0], event=True)
    found = bound_of(chain, made, registry.find("boosted-suspend").run(made))
    assert found.latencies["max_reaction"].bound == ms(13 - 4)


def test_jitter_and_the_longest_period_make_gaps_longer() -> None:
    made = GOLDEN[4][0]
    first, second = made.tasks
    longer = replace(made, tasks=(replace(first, jitter=ms(1), max_period=ms(5)), second))
    assert bounds(longer) == (ms(15 + 1 + 1), ms(15 + 2), ms(9 + 2))


def test_a_producer_that_sleeps_or_is_less_urgent_is_not_exempt() -> None:
    quick, slow = GOLDEN[2][0], GOLDEN[0][0]
    assert never_between(*quick.tasks, quick)
    assert not never_between(*slow.tasks, slow)
    assert not never_between(quick.tasks[1], quick.tasks[0], quick)
    equal = replace(quick, tasks=(quick.tasks[0], replace(quick.tasks[1], priority=2)))
    assert not never_between(*equal.tasks, equal)


def test_a_chain_has_no_bound_without_those_of_its_tasks() -> None:
    made = system((0, 2, 4, (cpu(3),)), (0, 1, 6, (cpu(2),)))
    chain = replace(made.chains[0], max_age=ms(100))
    found = bound_of(chain, made, registry.find("boosted-suspend").run(made))
    assert (found.holds, found.objection) == (False, "chain c: t1 has no bound")


def test_what_a_limit_allows() -> None:
    made = GOLDEN[0][0]
    result = responses(made)
    fits = bound_of(replace(made.chains[0], max_reaction=ms(24), max_age_at_output=ms(16)), made, result)
    assert (fits.holds, fits.objection) == (True, "")
    above = bound_of(replace(made.chains[0], max_reaction=ms(24), max_age=ms(23)), made, result)
    assert (above.holds, above.objection) == (False, "chain c: max_age can be 24 ms, and the file allows 23 ms")


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-busy", "boosted-busy", "lock-priority-suspend"])
def test_no_simulated_chain_exceeds_its_bound(name: str) -> None:
    test, rng, looked = registry.find(name), random.Random(f"chains {name}"), 0
    for _ in range(tries(60, 25) * MANY):
        made = random_taskset(rng)
        real = list(made.real_time)
        result = test.run(made)
        if not result.schedulable or len(real) < 2:
            continue
        chain = Chain("c", tuple(t.name for t in rng.sample(real, rng.randint(2, min(3, len(real))))))
        made = replace(made, tasks=tuple(replace(t, max_period=t.period) for t in made), chains=(chain,))
        limits = bound_of(chain, made, result).latencies
        for options in ways(test, made, rng):
            offsets = [rng.randrange(t.period) for t in made]
            found = seen(made, replace(options, sporadic=False), offsets)
            for key, latency in limits.items():
                value = getattr(found, key)
                assert value is None or value <= latency.bound, (key, value, latency, made, offsets)
                looked += value is not None
    assert looked >= tries(60, 25) * MANY // 3
