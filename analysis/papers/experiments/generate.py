# SPDX-License-Identifier: GPL-2.0
"""Random tasksets by the tables of the GCAPS paper (table 3) and the thesis (table 4.2).

The code in analysis/native/draft.c and generate.c draws the tasksets.  The code first draws tasks and load of each CPU,
then each task's utilization (C + G) / T by UUniFast, or by Dirichlet-rescale.  The tasks that use the GPU come next,
then periods, numbers of GPU segments, G / C and G^m / G.  The best-effort tasks come last.  C is cut into eta + 1 CPU
segments around eta GPU segments, at places drawn uniformly, and so is G.  Deadlines equal periods, priorities are rate
monotonic, and the paper re-allocates tasks by worst fit decreasing.  A ratio G / C of 0 leaves empty GPU segments,
which still begin and end.  All times are whole ns; taskset i of a seed is always the same.  Method `published` divides
a load as the code that was published with the paper does.  Each task gets what UUniFast leaves to the others, so that
one task gets most of the load.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.model import MS, US, Platform
from analysis.rta.batch import NUMBERS, SERVED, TIMES, Batch, Pieces, pointer
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: The published platform: epsilon 1 ms, of which a context switch is 200 us, and a time slice of 1024 us.
PLATFORM = Platform(4, alpha=800 * US, theta=200 * US, time_slice=1024 * US)

DRAW_METHODS = ("uunifast", "drs", "published")
#: The range from which the published code draws each task's utilization where a number of tasks is given.
PUBLISHED_SHARE = (0.05, 0.3)


@dataclass(frozen=True)
class Parameters:
    """The ranges from which values are drawn; shares are of 1, times in ns.

    ``tasks``: that many in all, dealt to the CPUs in turn, instead of ``tasks_per_cpu`` on each.  ``overlap``: add
    two CPU-only tasks of high utilization and short periods and one of long GPU execution (thesis, figure 4.13).
    """

    cpus: int = 4
    tasks: int = 0
    tasks_per_cpu: tuple[int, int] = (3, 6)
    users: tuple[float, float] = (0.4, 0.6)
    load: tuple[float, float] = (0.4, 0.6)
    period: tuple[int, int] = (30 * MS, 500 * MS)
    segments: tuple[int, int] = (1, 3)
    ratio: tuple[float, float] = (0.2, 2.0)
    misc: tuple[float, float] = (0.1, 0.3)
    best_effort: float = 0.0
    reallocate: bool = True
    overlap: bool = False

    def __post_init__(self) -> None:
        pairs = (self.tasks_per_cpu, self.users, self.load, self.period, self.segments, self.ratio, self.misc)
        if any(low > high or low < 0 for low, high in pairs) or self.cpus < 1 or self.tasks < 0:
            raise ValueError("a range must be 0 <= low <= high, and there must be a CPU")
        if max(self.users[1], self.misc[1], self.best_effort) > 1 or self.best_effort < 0:
            raise ValueError("a share is at most 1")
        if not 1 <= self.period[0] <= self.period[1] < 2**50 or self.segments[0] < 1 or self.segments[1] > 1000:
            raise ValueError("periods must be 1 ns to 2^50 ns, GPU segments 1 to 1000")
        if max(self.load[1], self.ratio[1]) > 1000 or self._room > 10**6:
            raise ValueError("loads and ratios up to 1000, tasksets up to 10^6 tasks")

    @property
    def _room(self) -> int:
        return self.tasks or self.cpus * self.tasks_per_cpu[1]

    def view(self) -> CData:
        """The C struct."""
        struct = ffi.new("struct gpurt_parameters *")
        struct.cpus, struct.tasks, struct.best_effort = self.cpus, self.tasks, self.best_effort
        struct.reallocate, struct.overlap = self.reallocate, self.overlap
        struct.tasks_min, struct.tasks_max = self.tasks_per_cpu
        struct.segments_min, struct.segments_max = self.segments
        struct.users_min, struct.users_max = self.users
        struct.load_min, struct.load_max = self.load
        struct.ratio_min, struct.ratio_max = self.ratio
        struct.misc_min, struct.misc_max = self.misc
        struct.period_min, struct.period_max = self.period
        return struct


#: Table 3 of ECRTS'24 and table 4.2 of the thesis, which has no step of re-allocation.
PAPER = Parameters()
THESIS = replace(PAPER, ratio=(0.2, 0.5), reallocate=False)


def generate(
    parameters: Parameters, seed: int, count: int, start: int = 0, method: str = "uunifast",
    platform: Platform = PLATFORM,
) -> Batch:  # fmt: skip
    """Tasksets ``start`` to ``start + count - 1`` of a seed, on the platform's costs.

    Raises ValueError for an unknown method, and ImportError if "drs" is asked for and its package is missing.
    """
    if method not in DRAW_METHODS:
        raise ValueError(f"no method is called {method!r}; there are {', '.join(DRAW_METHODS)}")
    if method == "published":  # worst fit places only tasks without a CPU there, those of a given number
        parameters = replace(parameters, reallocate=parameters.reallocate and bool(parameters.tasks))
    view, seed = parameters.view(), seed % 2**64
    room = count * int(lib.gpurt_generate_room(view))
    batch = _blank(replace(platform, cpus=parameters.cpus), count, room)
    pieces = Pieces(np.zeros(room + 1, np.uint32), *_times(room * (parameters.segments[1] + 1)))
    given = DIVISIONS[method](parameters, seed, start, count) if method in DIVISIONS else None
    numbers = ffi.NULL if given is None else pointer("double", given)
    if lib.gpurt_generate(view, seed, start, count, numbers, batch.view(), pieces.view()):
        raise MemoryError
    return Batch(batch.platform, batch.first, batch.numbers, batch.times, pieces)


def _blank(platform: Platform, tasksets: int, tasks: int) -> Batch:
    """A batch with room for that many tasksets and tasks; its values are undefined."""
    return Batch(
        platform,
        np.zeros(tasksets + 1, np.uint32),
        {name: np.empty(tasks, np.uint32) for name in NUMBERS} | dict.fromkeys(SERVED, np.zeros(tasks, np.uint32)),
        {name: np.empty(tasks, np.int64) for name in TIMES},
    )


def _times(room: int) -> tuple[CData, CData, CData]:
    return np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)


def _drs(parameters: Parameters, seed: int, start: int, count: int) -> CData:
    """Utilizations of all tasks by Dirichlet-rescale (Griffin, Bate, Davis, RTSS 2020), none above 1."""
    from drs import drs

    state, drawn = random.getstate(), []
    try:
        for index, shape in _shapes(parameters, seed, start, count):
            random.seed(f"{seed} {index}")  # the package draws from the global generator
            for tasks, load in shape:
                if tasks:
                    drawn += drs(tasks, load, [min(1.0, load)] * tasks)
    finally:
        random.setstate(state)
    return np.array(drawn, np.float64)


def _published(parameters: Parameters, seed: int, start: int, count: int) -> CData:
    """Utilizations of all tasks as the code published with ECRTS'24 draws them, in hundredths and at least one."""
    drawn: list[float] = []
    for index, shape in _shapes(parameters, seed, start, count):
        own = random.Random(f"published {seed} {index}")
        for tasks, load in shape:
            if parameters.tasks:
                shares = [own.uniform(*PUBLISHED_SHARE) for _ in range(tasks)]
            else:
                shares = _wrong_way_round(own, load, tasks)
            drawn += [max(round(share, 2), 0.01) for share in shares]
    return np.array(drawn, np.float64)


def _wrong_way_round(own: random.Random, load: float, tasks: int) -> list[float]:
    """A load divided by UUniFast, except that each task gets what the others should, in an order by chance."""
    shares, left = [], load
    for others in range(tasks - 1, 0, -1):
        shares.append(left * own.random() ** (1 / others))
        left -= shares[-1]
    shares += [left] if tasks else []
    own.shuffle(shares)
    return shares


def _shapes(parameters: Parameters, seed: int, start: int, count: int) -> Iterator[tuple[int, list[tuple[int, float]]]]:
    """Each taskset's index, and of each CPU the number of tasks and the load, as the compiled generator draws them."""
    view = parameters.view()
    counts, loads = ffi.new("u32[]", parameters.cpus), ffi.new("double[]", parameters.cpus)
    for index in range(start, start + count):
        lib.gpurt_generate_shape(view, seed, index, counts, loads)
        yield index, list(zip(counts, loads, strict=True))


#: How utilizations are drawn other than by the compiled UUniFast.
DIVISIONS = {"drs": _drs, "published": _published}
