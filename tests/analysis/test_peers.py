# SPDX-License-Identifier: GPL-2.0
"""Responses that others computed, of tasks of one CPU: response-time-analysis-rs, src/fixed_priority/tests.rs."""

from __future__ import annotations

import pytest
from builders import cpu, ms, task, taskset

from analysis import compiled, rta
from analysis.model import CpuSegment, Span, Task, Taskset

FAR = 100_000.0
#: Lines 9 to 176: (C, T, R) of each task, most urgent first, deadlines far away.  The first four are in line order; the
#: others are reference values of SchedCAT.
SYSTEMS: dict[str, str] = {
    "basic": "1 4 1, 1 5 2, 3 9 7, 3 18 18",
    "Lehoczky, example 2": "52 100 52, 52 140 156",
    "Lehoczky, example 2, the other first": "52 140 52, 52 100 108",
    "Lehoczky, example 3": "26 70 26, 62 100 118",
    "SchedCAT 1": "5995 43000 5995, 2497 44000 8492, 18376 52000 26868, 7724 55000 34592",
    "SchedCAT 2": "2693 84000 2693, 1340 92000 4033, 462 34000 4495, 438 39000 4933, 1350 32000 6283, 1080 12000 7363, "
                  "6083 91000 14526, 550 57000 15076, 3486 68000 18562, 4916 81000 23478",
    "SchedCAT 3": "1274 13000 1274, 5840 16000 7114, 1433 15000 8547, 1579 13000 10126",
    "SchedCAT 4": "3691 121000 3691, 2301 57000 5992, 1493 224000 7485, 573 72000 8058, 13152 53000 21210, "
                  "951 65000 22161",
    "SchedCAT 5": "108 6000 108, 1202 13000 1310, 8280 30000 9698, 7904 30000 19020, 569 28000 19589, 117 22000 19706, "
                  "1288 29000 20994",
    "SchedCAT 6": "931 224000 931, 6600 118000 7531, 10729 117000 18260, 2202 153000 20462, 5174 138000 25636",
    "SchedCAT 7": "1064 12000 1064, 409 13000 1473, 1671 41000 3144, 2341 33000 5485, 512 31000 5997, 133 31000 6130, "
                  "2387 32000 8517, 5518 63000 15508, 1391 24000 16899",
    "SchedCAT 8": "828 17000 828, 936 24000 1764, 1141 59000 2905, 1036 67000 3941, 468 14000 4409, 444 19000 4853, "
                  "2477 41000 7330, 367 20000 7697, 4382 69000 12079, 2008 23000 14555",
    "SchedCAT 9": "9214 99000 9214, 1646 19000 10860, 901 17000 11761, 226 35000 11987, 2101 62000 14088, "
                  "6606 82000 23241, 1353 35000 24594, 875 42000 25469",
    "SchedCAT 10": "172 8000 172, 280 32000 452, 1073 18000 1525, 68 22000 1593, 658 20000 2251, 501 32000 2752, "
                   "2587 33000 5339, 1133 20000 6472",
    "SchedCAT 11": "10335 173000 10335, 26798 80000 37133, 9025 93000 46158, 3586 89000 49744, 1760 94000 51504, "
                   "496 57000 52000, 3014 89000 55014, 8509 111000 64019",
    "SchedCAT 12": "2914 227000 2914, 8598 96000 11512, 2085 60000 13597, 1858 233000 15455, 4498 86000 19953, "
                   "1869 58000 21822, 2906 149000 24728, 6661 246000 31389",
    "SchedCAT 13": "4266 52000 4266, 3046 53000 7312, 4921 66000 12233, 2597 102000 14830, 7535 84000 22365",
    "SchedCAT 14": "17116 50000 17116, 7200 100000 24316, 14384 138000 38700, 13596 122000 69412",
    "SchedCAT 15": "36474 66000 36474, 4921 95000 41395, 984 95000 42379, 18668 113000 61047",
}  # fmt: skip


def rows(system: str) -> list[list[int]]:
    return [[int(word) for word in row.split()] for row in SYSTEMS[system].split(",")]


def made(system: str) -> Taskset:
    """The tasks, in ns, with deadlines far beyond the periods."""
    found = rows(system)
    return taskset(*(
        Task(f"t{at}", 0, 60 - at, period, 10 * period, (CpuSegment(Span.exactly(cost)),))
        for at, (cost, period, _) in enumerate(found)
    ))  # fmt: skip


def test_there_are_as_many_as_promised() -> None:
    assert sum(len(rows(system)) for system in SYSTEMS) >= 100


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-suspend", "gcaps-busy"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_peers_values(system: str, name: str) -> None:
    expected = [response for _, _, response in rows(system)]
    found = compiled.run(rta.find(name), made(system))
    assert [found.wcrt(t.name) for t in made(system)] == expected


def test_an_overload_has_no_bound() -> None:
    """Lines 178 to 207: the two less urgent tasks have none."""
    given = [(1, 2), (1, 3), (3, 9), (3, 18)]
    system = taskset(*(task(f"t{at}", 0, 9 - at, t, cpu(c), deadline=FAR) for at, (c, t) in enumerate(given)))
    found = rta.find("boosted-suspend").run(system)
    assert [found.wcrt(t.name) for t in system] == [ms(1), ms(2), None, None]
