# SPDX-License-Identifier: GPL-2.0
"""Condition `cold` of `gpurt measure times`: how much memory it writes, and that caches are cold then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pycontrol.measure import conditions
from pycontrol.measure.conditions import (
    MOST_BUFFER,
    UNKNOWN_CACHE,
    WRITTEN_BYTES,
    Condition,
    buffer_size,
    chill,
    evict,
    overwrite,
)

MIB = 1 << 20
CHASE = Path(__file__).parent / "native/chase.c"


@pytest.mark.parametrize(
    ("caches", "size"),
    [
        ({}, 2 * UNKNOWN_CACHE),  # nothing is stated, as in some virtual machines
        ({"cpu0/cache/index0": "48K", "cpu0/cache/index3": "32768K"}, 64 * MIB),
        ({"cpu0/cache/index2": "1M", "cpu0/cache/index3": "20M"}, 40 * MIB),
        # two sockets, or clusters, of which the second has the larger cache
        ({"cpu0/cache/index3": "32768K", "cpu8/cache/index3": "98304K"}, 192 * MIB),
        ({"cpu0/cache/index2": "2G"}, MOST_BUFFER),
        ({"cpu0/cache/index2": "0K"}, 2 * UNKNOWN_CACHE),
        ({"cpu0/cache/index2": ""}, 2 * UNKNOWN_CACHE),
        ({"cpu0/cache/index2": "-64M"}, 2 * UNKNOWN_CACHE),
        ({"cpu0/cache/index2": "many"}, 2 * UNKNOWN_CACHE),
        ({"cpufreq/cache/index3": "98304K", "cpu0/cache/index2": "16M"}, 32 * MIB),
    ],
)
def test_twice_the_largest_cache_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caches: dict[str, str], size: int
) -> None:
    for name, text in caches.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "size").write_text(text + "\n")
    monkeypatch.setattr(conditions, "CACHES", tmp_path)
    assert buffer_size() == size
    evicted: list[int] = []
    monkeypatch.setattr(conditions, "evict", lambda amount: evicted.append(amount))
    for condition in Condition:
        chill(condition, ["true"])
    assert evicted == [size]  # under condition cold only


class Log(bytearray):
    """A buffer that notes what is written, and on which CPUs the writer may be."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[frozenset[int], range]] = []

    def __setitem__(self, place: object, value: object) -> None:
        assert isinstance(place, slice)
        assert isinstance(value, bytes)
        assert len(value) == place.stop - place.start
        self.written.append((frozenset(os.sched_getaffinity(0)), range(place.start, place.stop)))


@pytest.mark.parametrize("size", [1, WRITTEN_BYTES, 10 * WRITTEN_BYTES + 7])
def test_every_byte_is_written_twice_on_each_cpu(size: int) -> None:
    buffer, own = Log(), os.sched_getaffinity(0)
    overwrite(buffer, size)
    assert {cpus for cpus, _ in buffer.written} == {frozenset({cpu}) for cpu in own}
    for cpu in own:
        places = [place for cpus, piece in buffer.written if cpus == {cpu} for place in piece]
        assert places == [*range(size)] * 2
    assert max(len(piece) for _, piece in buffer.written) <= WRITTEN_BYTES  # or memcpy may go past the caches
    assert os.sched_getaffinity(0) == own


@pytest.fixture(scope="module")
def chase(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Callable[[], None]], float]:
    """How many times as long a pass over memory takes after a call as it took before it, on that CPU."""
    program = tmp_path_factory.mktemp("chase") / "chase"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, CHASE], check=True)

    def ratio(cpu: int, call: Callable[[], None]) -> float:
        with subprocess.Popen(
            ["taskset", "-c", str(cpu), program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout
            assert running.stdin
            assert running.stdout.readline() == "ready\n"
            call()
            out, _ = running.communicate("\n")
        warm, after = map(int, out.split())
        return after / warm

    return ratio


@pytest.mark.parametrize("which", [0, -1])
def test_no_cpu_s_caches_keep_anything(chase: Callable[[int, Callable[[], None]], float], which: int) -> None:
    """128 KiB come from the caches in a tenth of the time, or less.

    Whatever else executes there makes them cold, too: without the eviction this fails on a quiet machine only.
    """
    own = sorted(os.sched_getaffinity(0))
    assert chase(own[which], lambda: evict(buffer_size())) > 4
    assert os.sched_getaffinity(0) == set(own)
