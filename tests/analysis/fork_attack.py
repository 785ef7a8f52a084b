# SPDX-License-Identifier: GPL-2.0
"""Attacks the bounds of tasks with workers for so many seconds: docs/readings/groups.md, "Attacked".

python tests/analysis/fork_attack.py TEST SECONDS [SEED] [--without-mends]

It explores all schedules of tiny systems, and prints each of which a bound is exceeded.  With --without-mends, boosted
bounds lack the term of raised workers: a control.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from analysis.attack.exact import TooManyStatesError, compare
from analysis.attack.forks import held, sharp_forks, tiny_forks, tiny_holds
from analysis.attack.report import toml
from analysis.papers import registry
from analysis.rta import forkjoin
from analysis.rta.recurrence import Demand

GENERATORS = (tiny_forks, sharp_forks)
HOLDS = (tiny_holds, lambda rng: held(sharp_forks(rng)))
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
