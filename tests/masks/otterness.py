# SPDX-License-Identifier: GPL-2.0
"""Tables 1 and 2 and figure 9 of "Exploring AMD GPU scheduling details ..." (RTNS'21), in simulation.

    python tests/masks/otterness.py FOLDER [LAUNCHES]

The dispatch model stands for the Radeon VII; 200 launches a point take an hour.  One number of the paper's data goes
in: a block of MM1024 takes 172.6 us of a compute unit (176.75 ms on one, for 1,024 blocks).  Two of these blocks, or
eight of MM256, are executed side by side.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatch import LaunchStream, Settings, dispatcher, kernel_time, simulate_blocks

from analysis.masks.effect import effect
from analysis.masks.topology import CHIPS
from analysis.papers.experiments.rows import Row, write_rows

CHIP = CHIPS["radeon-vii"]
#: A block's time, ns: alone on a CU, and beside another; it varies by a quarter.
ALONE, BLOCK, LEAST, MOST = 172_600, 345_200, 258_900, 431_500
FULL = (1 << 60) - 1
EVEN, ODD = 0x555555555555555, 0xAAAAAAAAAAAAAAA
LOW, HIGH = 0x3FFFFFFF, 0xFFFFFFFC0000000
ONE_MORE = 1 << 59


@dataclass(frozen=True)
class Scenario:
    """Threads of a block, masks, and the published least, largest and mean time in us; ``other`` 0: no competitor."""

    partitioning: str
    measured: int
    other: int
    mask: int
    others: int
    published: tuple[int, int, int]

    @property
    def name(self) -> str:
        """As the paper has it."""
        return f"MM{self.measured} (vs. MM{self.other})" if self.other else f"Isolated MM{self.measured}"


def _three(measured: int, other: int, *published: tuple[int, int, int]) -> list[Scenario]:
    masks = [("full", FULL, FULL), ("even", EVEN, ODD), ("uneven", EVEN | ONE_MORE, ODD)]
    return [Scenario(name, measured, other, mask, others, times)
            for (name, mask, others), times in zip(masks, published, strict=True)]  # fmt: skip


AGAINST_256 = _three(1024, 256, (12214, 19578, 15652), (6784, 7630, 6991), (64873, 101531, 84362))
TABLE_1 = [
    Scenario("none", 1024, 0, FULL, 0, (3094, 3631, 3201)),
    Scenario("none", 256, 0, FULL, 0, (4499, 5588, 5034)),
    *_three(1024, 1024, (5915, 7292, 6447), (6774, 8254, 6988), (61986, 98380, 76011)),
    *AGAINST_256,
    *_three(256, 256, (5115, 7932, 5687), (6126, 7031, 6386), (55535, 56928, 56310)),
    *_three(256, 1024, (3240, 6923, 3770), (6085, 7610, 6318), (55137, 56028, 55550)),
]
TABLE_2 = [
    *AGAINST_256,
    Scenario("distributed even", 1024, 256, LOW, HIGH, (6391, 9113, 7269)),
    Scenario("distributed uneven", 1024, 256, LOW | ONE_MORE, HIGH, (7109, 7906, 7324)),
]


def packed_blocks(units: int) -> int:
    """Figure 9: the CUs of one shader engine after another's."""
    bits = [4 * unit + engine for engine in range(4) for unit in range(15)]
    return sum(1 << bit for bit in bits[:units])


def distributed(units: int) -> int:
    """Figure 9: CUs of all shader engines in turn."""
    return (1 << units) - 1


def matrix(threads: int, mask: int) -> LaunchStream:
    """A product of two matrices of 1,024 x 1,024 in blocks of so many threads."""
    return LaunchStream(f"MM{threads}", mask, 2**20 // threads, threads, LEAST, MOST)


def table(scenarios: Sequence[Scenario], launches: int) -> list[Row]:
    """The rows of a table."""
    return [simulated(one, launches) for one in scenarios]


def simulated(one: Scenario, launches: int) -> Row:
    """A row of the tables: the scenario in simulation, and what was published of it."""
    streams = [matrix(one.measured, one.mask)] + ([matrix(one.other, one.others)] if one.other else [])
    times, *others = simulate_blocks(dispatcher(streams, CHIP), streams, Settings(launches))
    return _row(one, times, others[0] if others else [])


def _row(one: Scenario, times: Sequence[int], others: Sequence[int]) -> Row:
    least, most, mean = (us * 1000 for us in one.published)
    seen = round(statistics.fmean(times))
    return {
        "name": one.name, "partitioning": one.partitioning, "mask": f"{one.mask:#x}", "launches": len(times),
        "minimum_ns": min(times), "maximum_ns": max(times), "median_ns": round(statistics.median(times)),
        "mean_ns": seen,
        "published_minimum_ns": least, "published_maximum_ns": most, "published_mean_ns": mean,
        "ratio": round(seen / mean, 3), "competitor_mean_ns": round(statistics.fmean(others)) if others else None,
    }  # fmt: skip


def figure_9(launches: int, sizes: Sequence[int] = range(1, 61)) -> list[Row]:
    """A row for each curve and size."""
    rows: list[Row] = []
    for curve, masks in (("distributed", distributed), ("packed", packed_blocks)):
        for units in sizes:
            stream = matrix(1024, masks(units))
            (times,) = simulate_blocks(dispatcher([stream], CHIP), [stream], Settings(launches))
            (counts,) = effect(stream.mask, CHIP).counts
            rows.append({
                "curve": curve, "x": units, "mask": f"{stream.mask:#x}", "launches": len(times),
                "minimum_ns": min(times), "maximum_ns": max(times), "mean_ns": round(statistics.fmean(times)),
                "formula_ns": kernel_time(counts, stream.blocks, ALONE),
            })  # fmt: skip
    return rows


#: By name: the rows with so many launches a point.
STUDIES: dict[str, Callable[[int], list[Row]]] = {
    "otterness-table1": lambda launches: table(TABLE_1, launches),
    "otterness-table2": lambda launches: table(TABLE_2, launches),
    "otterness-fig9": figure_9,
}

if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_dir() or not [*sys.argv, "200"][2].isdecimal():
        sys.exit("usage: python tests/masks/otterness.py FOLDER [LAUNCHES], into a folder that exists")
    for name, study in STUDIES.items():
        write_rows(study(int([*sys.argv, "200"][2])), Path(sys.argv[1]) / f"{name}.csv")
