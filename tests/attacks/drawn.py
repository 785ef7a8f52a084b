# SPDX-License-Identifier: GPL-2.0
"""Random taskset files with every key that bounds and simulations may depend on, many of them at once."""

from __future__ import annotations

import random
from collections.abc import Iterator

from analysis.model import POLICIES as FACTS
from analysis.model import Waiting
from gpurt.enums import Policy

POLICIES = Policy.words()
LEVEL_WORDS = ("low", "medium", "high")


class Drawn:
    """One file: a few tasks with times of a few ns, so that instants coincide, or of odd lengths."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.unit = rng, rng.choice([1, 1, 10, 1000, 137])
        self.cpus, self.units = rng.choice([1, 1, 2, 2, 3]), rng.choice([0, 8, 8, 12])
        self.policy, self.kind = rng.choice(POLICIES), rng.choice(["", "", "own", "space", "space", "time", "time"])
        if self.kind in ("own", "space"):
            self.units = 12
        self.contended = bool(self.units) and rng.random() < 0.4
        self.yields = FACTS[self.policy].yields and not self.kind and rng.random() < 0.3
        self.parts = [f"p{at}" for at in range(rng.randint(1, 3))] if self.kind in ("space", "time") else []

    def text(self) -> str:
        """The file; some have mistakes, or lack what bounds need."""
        return "\n".join([*self._platform(), *self._partitions(), *self._tasks()]) + "\n"

    def _maybe(self, chance: float, line: str) -> list[str]:
        return [line] if self.rng.random() < chance else []

    def _time(self, *choices: int) -> str:
        return f'"{self.rng.choice(choices) * self.unit}ns"'

    def _platform(self) -> Iterator[str]:
        alpha, theta = self.rng.choice([0, 0, 1, 2, 5]) * self.unit, self.rng.choice([0, 0, 1, 3]) * self.unit
        yield from ("[platform]", f"cpus = {self.cpus}", f'policy = "{self.policy}"')
        yield f'epsilon = "{alpha + theta}ns"'
        yield from self._maybe(0.8, f'theta = "{theta}ns"')
        yield f"time_slice = {self._time(1, 2, 3, 5, 10)}"
        yield from self._maybe(0.3, "copy_engine = false")
        yield from self._maybe(0.3, "thread_cpu = 0")
        if self.yields:
            times = f"slice = {self._time(1, 5)}, decision = {self._time(0, 1)}"
            yield from ('begin = "yield"', f'yield = {{ {times}, groups = {self.rng.choice([6, 8])}, stall = "0ns" }}')
        if self.units:
            yield f"compute_units = {self.units}"
        if self.contended:
            yield f"cross_contention = {self.rng.choice([1, 1.5, 2])}"

    def _partitions(self) -> Iterator[str]:
        own = self.rng.choice([None, self.policy, "segment"])
        for name in self.parts:
            yield from ("[[partition]]", f'name = "{name}"')
            if self.kind == "time":
                yield f'interleave = "{self.rng.choice(LEVEL_WORDS)}"'
                yield from self._maybe(0.6, f"slice = {self._time(1, 2, 4)}")
                yield from self._maybe(0.4, f'shared = "{self.rng.choice(["priority", "deadline"])}"')
                continue
            yield f"compute_units = {self.rng.choice([2, 4])}"
            said = own if self.rng.random() < 0.9 else self.rng.choice(POLICIES)
            if said:
                yield f'policy = "{said}"'
            yield from self._maybe(0.3, f"epsilon = {self._time(0, 1, 4, 8)}")
            yield from self._maybe(0.2, f"slice = {self._time(1, 2, 4)}")

    def _tasks(self) -> Iterator[str]:
        count, mode = self.rng.randint(1, 6), self.rng.choice(["suspend", "busy", "mixed"])
        load = self.rng.uniform(0.2, 1.8) / count
        for at in range(count):
            period, effort = self.rng.choice([20, 30, 40, 60, 80, 120, 200]) * self.unit, self.rng.random() < 0.12
            waiting = self.rng.choice(list(Waiting)).value if mode == "mixed" else mode
            yield from ("[[task]]", f'name = "t{at}"', f"cpu = {self.rng.randrange(self.cpus)}")
            level = at + 1 if self.yields else self.rng.randint(1, 2 * count)
            yield from (f"priority = {0 if effort else level}", f'period = "{period}ns"')
            yield from self._maybe(0.4, f'deadline = "{max(1, int(period * self.rng.uniform(0.4, 1)))}ns"')
            segments = [self._segment(period * load) for _ in range(self.rng.randint(1, 4))]
            yield f'waiting = "{waiting}"'
            yield f"segments = [{', '.join(segments)}]"
            if any("cpu" not in one for one in segments) and not effort:
                yield from self._maybe(0.2, f"gpu_priority = {self.rng.randint(1, 2 * count)}")
                forms = [form.word for form in Waiting(waiting).forms]
                yield from self._maybe(0.15, f'form = "{self.rng.choice(forms)}"')
            if self.contended:
                yield f'intensity = "{self.rng.choice(["compute", "memory"])}"'
                yield from self._maybe(0.5, f"conflict = {self.rng.choice([1, 1.5, 2])}")
            if self.kind == "own" and any("cpu" not in one for one in segments):
                yield from self._maybe(0.7, f"partition = {{ compute_units = {self.rng.choice([1, 2, 4])} }}")
            if self.parts:
                yield from self._maybe(0.95, f'partition = "{self.rng.choice(self.parts)}"')

    def _span(self, worst: int) -> str:
        best = self.rng.choice([worst, worst, 0, worst // 2])
        return f'{{ worst = "{worst}ns", best = "{best}ns" }}'

    def _segment(self, share: float) -> str:
        length = int(share * self.rng.uniform(0, 1)) if self.rng.random() < 0.9 else 0
        misc = int(length * self.rng.choice([0, 0, 0.2, 0.6, 1]))
        ways = [f"{{ cpu = {self._span(length)} }}"] * 4
        ready = f", ready = {self.rng.randint(1, 3)}" if self.yields else ""
        ways += [f"{{ misc = {self._span(misc)}, gpu = {self._span(length - misc)}{ready} }}"] * 5
        if self.yields:
            return self.rng.choice(ways)
        ways += [f"{{ copy = {self._span(length)} }}"]
        if self.units:
            ways += [f'{{ misc = {self._span(misc)}, gpu = {{ parallel = "{4 * length}ns", serial = "1ns" }} }}'] * 2
            ways += [f'{{ kernel_times = ["{length + 3}ns", "{length + 1}ns", "{length + 2}ns"] }}']
            ways += [f'{{ kernel = "{3 * length}ns", overhead = "{length}ns" }}']
        return self.rng.choice(ways)
