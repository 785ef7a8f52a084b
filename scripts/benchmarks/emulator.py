# SPDX-License-Identifier: GPL-2.0
"""The emulator: how late a client learns of a completion, and what begin and end cost it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from analysis.model import Platform
from gpurt.segments import Client
from pycontrol.run.emulator import Emulator


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not exceeded by that share."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields emulator.completion_error_ms.p50/.p99 and emulator.begin_end_us.p50/.p99."""
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
        pairs = []
        for _ in range(samples):
            start = time.monotonic_ns()
            client.begin(priority=1)
            client.end()
            pairs.append((time.monotonic_ns() - start) / 1e3)
        yield "emulator.begin_end_us.p50", percentile(pairs, 0.5), "us"
        yield "emulator.begin_end_us.p99", percentile(pairs, 0.99), "us"
