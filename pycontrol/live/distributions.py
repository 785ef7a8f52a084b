# SPDX-License-Identifier: GPL-2.0
"""Distributions of times as Prometheus has them: classic histograms, and native ones from the same counts.

A native histogram of schema n has the bounds 2^(i / 2^n) seconds (prometheus.io/docs/specs/native_histograms).  None of
them is an edge of the host's buckets, which are (4..7) 2^k ns.  So all that a bucket of the host has is counted where
its longest time belongs.  No time is in a lower bucket than it belongs to.  A time is in a higher one if a bound lies
between that time and the longest.  Bounds are 9 % apart, edges of the host at least 14 %: no two buckets become one.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from gpurt._gpurt import lib
from pycontrol.live.control import Durations

NS = 1_000_000_000
#: The schema of native histograms: the coarsest whose bounds are closer together than the host's edges.
SCHEMA = 3
#: Every fourth edge of the host's log-linear histograms, from 1 us to 17 s, is a classic bucket here.
EDGES = [bucket for bucket in range(0, lib.GPURT_HIST_BUCKETS, lib.GPURT_HIST_SUB)
         if 1_000 <= int(lib.gpurt_hist_floor(bucket)) <= 20_000_000_000]  # fmt: skip
#: Upper edges of response times, ns: 100 us to 50 s.
RESPONSES = tuple(base * 10**power for power in range(5, 11) for base in (1, 2, 5))


def index_of(ns: int) -> int:
    """The native bucket that a time above 0 belongs to: the least i with ns / 10^9 <= 2^(i / 2^SCHEMA)."""
    time_, second = ns**8, NS**8  # 8 = 2^SCHEMA
    index = time_.bit_length() - second.bit_length()  # the quotient is above 2^(index - 1) and below 2^(index + 1)
    fits = time_ <= second << index if index >= 0 else time_ << -index <= second
    return index if fits else index + 1


#: The native bucket of each bucket of the host but the first, which has times of 0.  The last has no longest time.
_INDICES = [index_of(int(lib.gpurt_hist_floor(bucket + 1)) - 1) for bucket in range(1, lib.GPURT_HIST_BUCKETS - 1)]
_INDICES.append(index_of(2**64 - 1))


@dataclass
class Native:
    """The counts of a native histogram: of times of 0, and of others by the index of their bucket."""

    zero: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)


class Distributions(HistogramMetricFamily):  # type: ignore[misc]  # mypy looks at it as Any (pyproject.toml)
    """A family of histograms; ``native`` has the native counts of each, by its labels."""

    def __init__(self, name: str, text: str, labels: Iterable[str]) -> None:
        super().__init__(name, text, labels=list(labels))
        self.native: dict[frozenset[tuple[str, str]], Native] = {}

    def add(self, labels: Mapping[str, str], buckets: list[tuple[str, float]], total: int, native: Native) -> None:
        """Adds one with these labels: cumulative counts by upper edge, and the sum of all times, ns."""
        self.add_metric(list(labels.values()), buckets, total / NS)
        self.native[frozenset(labels.items())] = native


def of_host(name: str, text: str, label: str, found: Iterable[tuple[Durations, str]]) -> Distributions:
    """The host's own, by GPU and, if it has a name, another label."""
    family = Distributions(name, text, ["gpu", *([label] if label else [])])
    for times, value in found:
        labels = {"gpu": str(times.gpu), **({label: value} if label else {})}
        family.add(labels, buckets_of(times), times.total, native_of(times))
    return family


def buckets_of(times: Durations) -> list[tuple[str, float]]:
    """Cumulative counts.  A bucket of the host ends below an edge, Prometheus's at it: times are whole ns.

    The module does not stop its scheduler to read the times.  So a count may be of another moment than its buckets
    (put_times() in kmod/calls/netlink_get.c).  Prometheus gives up all it has read where buckets do not add up to the
    count.
    """
    found = [(repr((int(lib.gpurt_hist_floor(edge)) - 1) / 1e9), float(sum(times.buckets[:edge]))) for edge in EDGES]
    return [*found, ("+Inf", float(sum(times.buckets)))]


def native_of(times: Durations) -> Native:
    """The native counts of the host's."""
    zero, *others = times.buckets
    counts: Counter[int] = Counter()
    for index, count in zip(_INDICES, others, strict=True):
        if count:
            counts[index] += count
    return Native(zero, counts)


class ResponseCollector:
    """A collector of prometheus_client: the response times of jobs of these tasks, from now on."""

    def __init__(self, tasks: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._seen = {task: _Seen(time.time()) for task in tasks}

    def observe(self, task: str, response: int) -> None:
        """Counts a response time, ns."""
        with self._lock:
            seen = self._seen[task]
            seen.classic[bisect_left(RESPONSES, response)] += 1
            seen.total += response
            if response > 0:
                seen.native[index_of(response)] += 1

    def collect(self) -> Iterator[Metric]:
        """The metric."""
        family = Distributions("gpurt_response_seconds", "response times of jobs", ["task"])
        with self._lock:
            for task, seen in self._seen.items():
                counts = [sum(seen.classic[: index + 1]) for index in range(len(RESPONSES) + 1)]
                edges = [*(repr(edge / 1e9) for edge in RESPONSES), "+Inf"]
                buckets = [(edge, float(count)) for edge, count in zip(edges, counts, strict=True)]
                native = Native(counts[-1] - sum(seen.native.values()), dict(seen.native))
                family.add({"task": task}, buckets, seen.total, native)
                family.add_sample("gpurt_response_seconds_created", {"task": task}, seen.created)
        yield family


@dataclass
class _Seen:
    """The observed times of a task: counts by classic and by native bucket, the sum, ns, and since when, seconds."""

    created: float
    classic: list[int] = field(default_factory=lambda: [0] * (len(RESPONSES) + 1))
    native: Counter[int] = field(default_factory=Counter)
    total: int = 0
