# SPDX-License-Identifier: GPL-2.0
"""The emulator: how late a client learns of a completion, and what begin and end cost it.

Once one pair after the other, and once "rested": each pair after a millisecond of sleep, in which CPUs become idle and
caches cold, as between the segments of a program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from analysis.model import Platform
from gpurt.segments import Client
from pycontrol.run.emulator import Emulator


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not exceeded by that share."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def pair_times(client: Client, samples: int, rest: float) -> list[float]:
    """What a begin and an end take together, us, each after `rest` seconds of sleep."""
    pairs = []
    for _ in range(samples):
        if rest:
            time.sleep(rest)
        start = time.monotonic_ns()
        client.begin(priority=1)
        client.end()
        pairs.append((time.monotonic_ns() - start) / 1e3)
    return pairs


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields p50 and p99 of emulator.completion_error_ms, .begin_end_us and .begin_end_rested_us."""
    samples = 5 if quick else 500
    with Emulator(Platform(1)) as emulator, Client(str(emulator.socket)) as client:
        tsg = client.open_tsg()
        late = []
        for index in range(samples):
            work = client.submit(tsg, 1_000_000 + 7919 * index)
            completed = client.wait_work(tsg, work)
            late.append((time.monotonic_ns() - completed) / 1e6)
        yield "emulator.completion_error_ms.p50", percentile(late, 0.5), "ms"
        yield "emulator.completion_error_ms.p99", percentile(late, 0.99), "ms"
        for name, rest in (("begin_end", 0), ("begin_end_rested", 0.001)):
            pairs = pair_times(client, samples, rest)
            yield f"emulator.{name}_us.p50", percentile(pairs, 0.5), "us"
            yield f"emulator.{name}_us.p99", percentile(pairs, 0.99), "us"
