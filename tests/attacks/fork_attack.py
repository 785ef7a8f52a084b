# SPDX-License-Identifier: GPL-2.0
"""Attacks the bounds of tasks with workers for so many seconds: docs/readings/groups.md, "Attacked".

python tests/attacks/fork_attack.py TEST SECONDS [SEED] [--without-mends]

It explores all schedules of tiny systems, and prints each of which a bound is exceeded.  With --without-mends, boosted
bounds lack the term of raised workers: a control.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from attack_report import toml
from every_schedule import compare
from kinds import held_by_workers
from tiny import tiny_forks, tiny_holds

from analysis.attack.exact import TooManyStatesError
from analysis.model import MS, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset
from analysis.model.relations import Fork
from analysis.papers import registry
from analysis.rta import forkjoin
from analysis.rta.recurrence import Demand


def sharp_forks(rng: random.Random) -> Taskset:
    """A task with up to three workers beside up to two tasks, of few segments, of which some take long on their CPUs.

    Other tasks mostly have the level of the group.  What a worker keeps from its CPU shows here.
    """
    cpus, level, period = rng.choice([2, 2, 3]), rng.randint(1, 19), rng.choice([30, 40, 60])
    alpha, theta = rng.choice([(0, 0), (0, 0), (1, 0), (1, 1)])
    priorities = rng.sample(range(1, 20), 10)

    def made(name: str, count: int, own: int, every: int) -> Task:
        segments = tuple(_sharp(rng) for _ in range(count))
        return Task(
            name, rng.randrange(cpus), priorities.pop(), every * MS, every * MS, segments, gpu_priority=own
        )  # fmt: skip

    names = [f"w{number}" for number in range(rng.choice([1, 2, 2, 3]))]
    before, after = (int(rng.random() < 0.2) for _ in range(2))
    tasks = [made("p", before + after, level, period)]
    tasks += [made(name, rng.choice([1, 1, 2]), level, period) for name in names]
    for number in range(rng.choice([0, 1, 1, 2])):
        own = rng.choice([level, level, level, rng.randint(1, 19), rng.randint(1, 19)])
        tasks.append(made(f"o{number}", rng.choice([1, 1, 2]), own, rng.choice([period, period, 20, 30])))
    platform = Platform(cpus, alpha * MS, theta * MS, MS)
    return Taskset(platform, tuple(tasks), forks=(Fork("p", before, tuple(names)),))


def _sharp(rng: random.Random) -> Segment:
    long = rng.choice([1, 1, 4, 7])
    if rng.random() < 0.3:
        return CpuSegment(Span.exactly(long * MS))
    misc, pure = rng.choice([(0, 0), (0, 1), (0, 2), (long, 0), (long, 0), (long, 1)])
    return GpuSegment(Span.exactly(misc * MS), Span.exactly(pure * MS))


GENERATORS = (tiny_forks, sharp_forks)
HOLDS = (tiny_holds, lambda rng: held_by_workers(sharp_forks(rng)))
STATES = 40_000


def nothing(_: forkjoin.Path) -> Iterator[Demand]:
    """In the place of the term of raised workers."""
    yield from ()


def attacked(name: str, seconds: float, seed: str) -> Counter[str]:
    """How many systems of each generator had bounds, had too many states, and had a bound that is exceeded."""
    test, rng = registry.find(name), random.Random(f"{name} {seed}")
    found, end = Counter[str](), time.monotonic() + seconds
    while time.monotonic() < end:
        draw = rng.choice(HOLDS if "--hold" in sys.argv else GENERATORS)
        try:
            one = compare(test, draw(rng), states=STATES)
        except TooManyStatesError:
            found[f"{draw.__name__}: too many states"] += 1
            continue
        found[f"{draw.__name__}: with bounds"] += one is not None
        if one and one.broken:
            found[f"{draw.__name__}: exceeded"] += 1
            print(f"{one.broken}: bounds {dict(one.bounds)}, exact {dict(one.exact)}\n{toml(one.taskset)}")
    return found


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--without-mends" in sys.argv:
        forkjoin._raised_beside = nothing
    for what, count in sorted(attacked(words[0], float(words[1]), (*words, "1")[2]).items()):
        print(f"{what}: {count}")
