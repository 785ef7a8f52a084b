# SPDX-License-Identifier: GPL-2.0
"""Distributions of times in the form of Prometheus: histograms with cumulative counts."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from gpurt._gpurt import lib
from pycontrol.link.control import Durations

NS = 1_000_000_000
#: Every fourth edge of the host's log-linear histograms, from 1 us to 17 s, is a bucket here.
EDGES = [bucket for bucket in range(0, lib.GPURT_HIST_BUCKETS, lib.GPURT_HIST_SUB)
         if 1_000 <= int(lib.gpurt_hist_floor(bucket)) <= 20_000_000_000]  # fmt: skip
#: Upper edges of buckets for response times, ns: 100 us to 50 s.
RESPONSES = tuple(base * 10**power for power in range(5, 11) for base in (1, 2, 5))


def host_distributions(name: str, text: str, label: str, found: Iterable[tuple[Durations, str]]) -> Metric:
    """The host's own distributions, by GPU and by a second label if it has a name."""
    family = HistogramMetricFamily(name, text, labels=["gpu", *([label] if label else [])])
    for times, value in found:
        family.add_metric([str(times.gpu), *([value] if label else [])], buckets_of(times), times.total / NS)
    return family


def buckets_of(times: Durations) -> list[tuple[str, float]]:
    """Cumulative counts.  Host buckets end below an edge, Prometheus's at the edge: times are whole ns, so 1 less.

    The module does not stop its scheduler to read the times, so a count may be of another moment than its buckets
    (put_times() in kmod/calls/netlink_get.c).  If buckets do not add up to the count, Prometheus drops everything that
    it has read.
    """
    found = [(repr((int(lib.gpurt_hist_floor(edge)) - 1) / 1e9), float(sum(times.buckets[:edge]))) for edge in EDGES]
    return [*found, ("+Inf", float(sum(times.buckets)))]


class ResponseCollector:
    """A collector for prometheus_client: the response times of these tasks' jobs, from now on."""

    def __init__(self, tasks: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._seen = {task: _Seen() for task in tasks}

    def observe(self, task: str, response: int) -> None:
        """Counts a response time, ns."""
        with self._lock:
            seen = self._seen[task]
            seen.counts[bisect_left(RESPONSES, response)] += 1
            seen.total += response

    def collect(self) -> Iterator[Metric]:
        """The metric."""
        family = HistogramMetricFamily("gpurt_response_seconds", "response times of jobs", labels=["task"])
        edges = [*(repr(edge / NS) for edge in RESPONSES), "+Inf"]
        with self._lock:
            for task, seen in self._seen.items():
                buckets = list(zip(edges, map(float, accumulate(seen.counts)), strict=True))
                family.add_metric([task], buckets, seen.total / NS)
        yield family


@dataclass
class _Seen:
    """The observed times of a task: counts by bucket, and the sum, ns."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(RESPONSES) + 1))
    total: int = 0
