# SPDX-License-Identifier: GPL-2.0
"""Responses under fixed priorities on one CPU that others computed: SchedCAT, response-time-analysis-rs, Lehoczky.

Numbers from src/fixed_priority/tests.rs of response-time-analysis-rs, commit 0b83c4076014 (fully preemptive).
Audsley's table with jitter and blocking: AudsleyExample in tests/fp.py of SchedCAT, commit 1e2fe471e3b9.
"""

from __future__ import annotations

import pytest

from analysis.answers import compiled
from analysis.model import CpuSegment, Platform, Protocol, Resource, Section, Span, Task, Taskset
from analysis.papers import registry
from analysis.rta.result import Failure, Reason
from analysis.simulation.simulate import Options, simulate

US = 1000
FAR = 10**9
#: (C, T, R), most urgent first, in us.
SETS: dict[str, list[tuple[int, int, int]]] = {
    "SchedCAT 1": [(5995, 43000, 5995), (2497, 44000, 8492), (18376, 52000, 26868), (7724, 55000, 34592)],
    "SchedCAT 2": [
        (2693, 84000, 2693), (1340, 92000, 4033), (462, 34000, 4495), (438, 39000, 4933), (1350, 32000, 6283),
        (1080, 12000, 7363), (6083, 91000, 14526), (550, 57000, 15076), (3486, 68000, 18562), (4916, 81000, 23478),
    ],
    "SchedCAT 3": [(1274, 13000, 1274), (5840, 16000, 7114), (1433, 15000, 8547), (1579, 13000, 10126)],
    "SchedCAT 4": [
        (3691, 121000, 3691), (2301, 57000, 5992), (1493, 224000, 7485), (573, 72000, 8058), (13152, 53000, 21210),
        (951, 65000, 22161),
    ],
    "SchedCAT 5": [
        (108, 6000, 108), (1202, 13000, 1310), (8280, 30000, 9698), (7904, 30000, 19020), (569, 28000, 19589),
        (117, 22000, 19706), (1288, 29000, 20994),
    ],
    "SchedCAT 6": [
        (931, 224000, 931), (6600, 118000, 7531), (10729, 117000, 18260), (2202, 153000, 20462),
        (5174, 138000, 25636),
    ],
    "SchedCAT 7": [
        (1064, 12000, 1064), (409, 13000, 1473), (1671, 41000, 3144), (2341, 33000, 5485), (512, 31000, 5997),
        (133, 31000, 6130), (2387, 32000, 8517), (5518, 63000, 15508), (1391, 24000, 16899),
    ],
    "SchedCAT 8": [
        (828, 17000, 828), (936, 24000, 1764), (1141, 59000, 2905), (1036, 67000, 3941), (468, 14000, 4409),
        (444, 19000, 4853), (2477, 41000, 7330), (367, 20000, 7697), (4382, 69000, 12079), (2008, 23000, 14555),
    ],
    "SchedCAT 9": [
        (9214, 99000, 9214), (1646, 19000, 10860), (901, 17000, 11761), (226, 35000, 11987), (2101, 62000, 14088),
        (6606, 82000, 23241), (1353, 35000, 24594), (875, 42000, 25469),
    ],
    "SchedCAT 10": [
        (172, 8000, 172), (280, 32000, 452), (1073, 18000, 1525), (68, 22000, 1593), (658, 20000, 2251),
        (501, 32000, 2752), (2587, 33000, 5339), (1133, 20000, 6472),
    ],
    "SchedCAT 11": [
        (10335, 173000, 10335), (26798, 80000, 37133), (9025, 93000, 46158), (3586, 89000, 49744), (1760, 94000, 51504),
        (496, 57000, 52000), (3014, 89000, 55014), (8509, 111000, 64019),
    ],
    "SchedCAT 12": [
        (2914, 227000, 2914), (8598, 96000, 11512), (2085, 60000, 13597), (1858, 233000, 15455), (4498, 86000, 19953),
        (1869, 58000, 21822), (2906, 149000, 24728), (6661, 246000, 31389),
    ],
    "SchedCAT 13": [
        (4266, 52000, 4266), (3046, 53000, 7312), (4921, 66000, 12233), (2597, 102000, 14830), (7535, 84000, 22365),
    ],
    "SchedCAT 14": [(17116, 50000, 17116), (7200, 100000, 24316), (14384, 138000, 38700), (13596, 122000, 69412)],
    "SchedCAT 15": [(36474, 66000, 36474), (4921, 95000, 41395), (984, 95000, 42379), (18668, 113000, 61047)],
    "basic": [(1, 4, 1), (1, 5, 2), (3, 9, 7), (3, 18, 18)],
    "Lehoczky, RTSS'90, example 2": [(52, 100, 52), (52, 140, 156)],
    "Lehoczky, RTSS'90, example 2, the other order": [(52, 140, 52), (52, 100, 108)],
    "Lehoczky, RTSS'90, example 3": [(26, 70, 26), (62, 100, 118)],
}  # fmt: skip


def system(rows: list[tuple[int, int, int]], deadline: int | None = None) -> Taskset:
    """``deadline``: of all tasks, us; None: their periods."""
    tasks = (
        Task(f"t{n}", 0, 99 - n, period * US, (deadline or period) * US, (CpuSegment(Span.exactly(cost * US)),))
        for n, (cost, period, _) in enumerate(rows)
    )
    return Taskset(Platform(1), tuple(tasks))


@pytest.mark.parametrize("name", SETS)
def test_bounds_with_far_deadlines(name: str) -> None:
    for test in ("boosted-suspend", "gcaps-suspend", "gcaps-busy"):
        found = registry.find(test).run(system(SETS[name], FAR))
        assert [found.wcrt(f"t{n}") for n in range(len(SETS[name]))] == [row[2] * US for row in SETS[name]]


@pytest.mark.parametrize("name", [name for name, rows in SETS.items() if all(row[2] <= row[1] for row in rows)])
def test_compiled_bounds_within_periods(name: str) -> None:
    for test in ("boosted-suspend", "gcaps-busy", "mpcp-suspend", "tsg-rr-suspend"):
        found = compiled.run_compiled(registry.find(test), system(SETS[name]))
        assert [found.wcrt(f"t{n}") for n in range(len(SETS[name]))] == [row[2] * US for row in SETS[name]]


@pytest.mark.parametrize("name", SETS)
def test_the_simulator_reaches_them(name: str) -> None:
    """All tasks are released at once: the worst case of tasks that never sleep."""
    rows = SETS[name]
    horizon = 8 * max(period for _, period, _ in rows) * US
    seen = simulate(system(rows, FAR), Options("boosted", horizon=horizon)).tasks
    assert [seen[f"t{n}"].worst for n in range(len(rows))] == [row[2] * US for row in rows]


def test_an_overload_has_no_bound() -> None:
    """U of the first three is 1.17: they have 1, 2, none and none."""
    found = registry.find("boosted-suspend").run(system([(1, 2, 0), (1, 3, 0), (3, 9, 0), (3, 18, 0)], FAR))
    assert [found.wcrt(f"t{n}") for n in range(4)] == [1 * US, 2 * US, None, None]
    assert isinstance(found.verdicts["t2"], Failure)
    assert found.verdicts["t2"].reason is Reason.OVERLOAD


#: Audsley, Burns, Richardson, Tindell and Wellings, 1993: C, T, D, blocking under a priority ceiling, J, and R from the
#: release, most urgent first, in us.
AVIONICS = [
    (51, 1000, 1000, 0, 0, 51), (3000, 2000000, 5000, 300, 0, 3504), (2000, 25000, 25000, 600, 0, 5906),
    (5000, 25000, 25000, 900, 0, 11512), (1000, 40000, 40000, 1350, 0, 13064), (3000, 50000, 50000, 1350, 0, 16217),
    (5000, 50000, 50000, 750, 0, 20821), (8000, 59000, 59000, 750, 0, 36637), (9000, 80000, 80000, 1350, 0, 47798),
    (2000, 80000, 80000, 450, 0, 48949), (5000, 100000, 100000, 1050, 0, 99150),
    (1000, 200000, 200000, 450, 1000, 99550), (3000, 200000, 200000, 450, 0, 140641),
    (1000, 200000, 200000, 450, 0, 141692), (1000, 200000, 200000, 1350, 0, 143694),
    (3000, 1000000, 1000000, 0, 0, 145446), (1000, 1000000, 1000000, 0, 0, 146497),
    (1000, 1000000, 1000000, 0, 0, 147548),
]  # fmt: skip


def avionics(without: int) -> Taskset:
    """A resource for each blocking: of the task, and of the next one below whose job is as long as the section."""
    tasks, held = [], []
    for n, (cost, period, deadline, blocking, jitter, _) in enumerate(AVIONICS):
        segments = (CpuSegment(Span.exactly(cost * US)),)
        tasks.append(Task(f"t{n}", 0, 99 - n, period * US, deadline * US, segments, jitter=jitter * US))
        if blocking and n != without:
            owner = next(at for at in range(n + 1, len(AVIONICS)) if AVIONICS[at][0] >= blocking)
            sections = Section(f"t{n}", 1), Section(f"t{owner}", blocking * US)
            held.append(Resource(f"r{n}", Protocol.CEILING, sections))
    return Taskset(Platform(1), tuple(tasks), resources=tuple(held))


@pytest.mark.parametrize(("without", "other"), [(-1, 11), (10, 10)])
def test_jitter_and_blocking(without: int, other: int) -> None:
    """t12 alone has room for the 1050 us that block t10, and the table has 450 for t11 between them: one file each."""
    found = registry.find("boosted-suspend").run(avionics(without))
    for n, row in enumerate(AVIONICS):
        assert (found.wcrt(f"t{n}") == row[5] * US) == (n != other), n
