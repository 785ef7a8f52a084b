# SPDX-License-Identifier: GPL-2.0
"""Random tasksets as in tables 2.8, 2.9 and 3.5: a taskset depends only on the seed, its point and its index."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from analysis.energy.distribute import static_sets
from analysis.model import MS
from analysis.model.energy import PoweredKernel, Profile, SpatialGpu, SpatialSystem, SpatialTask
from analysis.model.uunifast import uunifast

LIGHT = ("hotspot", "bfs", "hist", "hist2")
HEAVY = ("mmul", "stereodisparity", "dxtc")
#: The most draws for one taskset; draws that do not fit are repeated.
MAX_DRAWS = 10_000


@dataclass(frozen=True)
class Draw:
    """The parameters of the draw at a point.

    ``kind``: "uunifast" (figures 2.8 and chapter 3), "shares" (figure 2.9) or "stgm" (figure 2.10).  ``x``: the total
    utilization, the share of heavy tasks, or the number of tasks.  ``reference``: a type of GPU, and the number of its
    units for the mean utilization.  ``halved``: deadlines are half the period.  ``shorter``: the divisor of the
    profiles' kernel times; copies are unchanged.
    """

    kind: str
    x: float
    gpus: tuple[SpatialGpu, ...]
    reference: tuple[str, int]
    halved: bool = False
    tasks: int = 6
    shorter: int = 1


def within(rng: random.Random, count: int, total: float, low: float, high: float) -> list[float]:
    """Utilizations of sum ``total``, all within the limits; discards other draws.  Raises ValueError if none fits."""
    for _ in range(MAX_DRAWS):
        found: list[float] = uunifast(np.array([[rng.random() for _ in range(count - 1)]]), total)[0].tolist()
        if all(low <= one <= high for one in found):
            return found
    raise ValueError(f"{count} tasks with utilizations from {low} to {high} hardly ever sum up to {total}")


def system(draw: Draw, profiles: Mapping[str, Profile], seed: int, index: int) -> SpatialSystem:
    """Taskset ``index`` of a point."""
    if draw.shorter > 1:
        profiles = _shortened(profiles, draw.shorter)
    rng = random.Random(f"{seed} {draw.kind} {draw.x:.6f} {draw.tasks} {draw.reference} {draw.halved} {index}")
    return _KINDS[draw.kind](draw, profiles, rng)


def _shortened(profiles: Mapping[str, Profile], times: int) -> dict[str, Profile]:
    def kernel(one: PoweredKernel) -> PoweredKernel:
        return replace(one, times=one.times.changed(lambda time: -(-time // times)), measured=())

    return {name: Profile(name, {gpu: kernel(one) for gpu, one in profile.on.items()})
            for name, profile in profiles.items()}  # fmt: skip


def _uniform(draw: Draw, profiles: Mapping[str, Profile], rng: random.Random) -> SpatialSystem:
    """Table 3.5: ``count`` tasks, benchmarks drawn uniformly; figure 2.8 has no limits on a task's utilization."""
    low, high = (0.01, 0.5) if draw.halved else (0.0, 10.0)
    names = [rng.choice(list(profiles)) for _ in range(draw.tasks)]
    shares = within(rng, draw.tasks, draw.x, low, high)
    return _system(draw, profiles, rng, list(zip(names, shares, strict=True)))


def _shares(draw: Draw, profiles: Mapping[str, Profile], rng: random.Random) -> SpatialSystem:
    """Figure 2.9: tasks until the total exceeds 0.9, the last one cut; each is heavy with probability ``x``."""
    found: list[tuple[str, float]] = []
    rest = 0.9
    while rest > 1e-9:
        heavy = rng.random() < draw.x
        name = rng.choice(HEAVY if heavy else LIGHT)
        share = min(rest, rng.uniform(0.05, 0.2) if heavy else rng.uniform(0.2, 0.4))
        found.append((name, share))
        rest -= share
    return _system(draw, profiles, rng, found)


def _accepted(draw: Draw, profiles: Mapping[str, Profile], rng: random.Random) -> SpatialSystem:
    """Figure 2.10: ``x`` tasks with periods from 100 to 500 ms that STGM can place (our reading of its test)."""
    for _ in range(MAX_DRAWS):
        tasks = []
        for number in range(int(draw.x)):
            period = rng.randrange(100, 501) * MS
            name = rng.choice(list(profiles))
            tasks.append(_task(f"{name}.{number}", name, period, draw, profiles, rng))
        made = SpatialSystem(draw.gpus, tuple(tasks))
        if static_sets(made) is not None:
            return made
    raise ValueError(f"STGM places hardly any {int(draw.x)} tasks")


_KINDS: dict[str, Callable[[Draw, Mapping[str, Profile], random.Random], SpatialSystem]] = {
    "uunifast": _uniform, "shares": _shares, "stgm": _accepted,
}  # fmt: skip


def _system(
    draw: Draw, profiles: Mapping[str, Profile], rng: random.Random, chosen: list[tuple[str, float]]
) -> SpatialSystem:
    kind, units = draw.reference
    tasks = []
    for number, (name, share) in enumerate(chosen):
        mean = _mean(profiles[name].on[kind], units)
        period = max(1, round(mean / max(share, 1e-4)))
        tasks.append(_task(f"{name}.{number}", name, period, draw, profiles, rng))
    return SpatialSystem(draw.gpus, tuple(tasks))


def _mean(kernel: PoweredKernel, units: int) -> float:
    """The mean over 1 to ``units`` units of the whole job, ns."""
    return sum(kernel.whole_job(m) for m in range(1, units + 1)) / units


def _task(
    name: str, profile: str, period: int, draw: Draw, profiles: Mapping[str, Profile], rng: random.Random
) -> SpatialTask:
    kernels = tuple(profiles[profile].on[gpu.kind] for gpu in draw.gpus)
    deadline = max(1, period // 2) if draw.halved else period
    return SpatialTask(name, period, deadline, kernels, rng.randrange(period // 2 + 1), profile)
