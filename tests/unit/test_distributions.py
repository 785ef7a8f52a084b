# SPDX-License-Identifier: GPL-2.0
"""Histograms of times: what is counted, and in which bucket."""

from __future__ import annotations

import pytest

from gpurt._gpurt import lib

pytest.importorskip("prometheus_client", reason="needs prometheus-client: scripts/setup --with-tests")
from pycontrol.link.control import Durations
from pycontrol.observe.watch.distributions import ResponseCollector, host_distributions

NS = 10**9


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_count_of_another_moment_is_not_told(count: int) -> None:
    """The module is asked while it counts; Prometheus takes no histogram whose buckets do not add up."""
    buckets = [0] * lib.GPURT_HIST_BUCKETS
    buckets[lib.gpurt_hist_bucket(50_000)] = 3
    family = host_distributions("seconds", "", "", [(Durations(0, count, 50_000, 150_000, 50_000, tuple(buckets)), "")])
    counts = [one.value for one in family.samples if one.name.endswith(("_bucket", "_count"))]
    assert counts == sorted(counts)
    assert counts[-1] == 3


def test_a_percentile_is_the_upper_edge_of_its_bucket() -> None:
    fast, slow = 10_000, 5_000_000
    buckets = [0] * lib.GPURT_HIST_BUCKETS
    buckets[lib.gpurt_hist_bucket(fast)], buckets[lib.gpurt_hist_bucket(slow)] = 98, 2
    times = Durations(0, 100, fast, 0, slow, tuple(buckets))
    edge = lib.gpurt_hist_floor(lib.gpurt_hist_bucket(fast) + 1)
    assert [times.percentile(share) for share in (0, 0.98, 0.99, 1)] == [edge, edge, slow, slow]


def test_an_edge_is_in_the_bucket_that_ends_with_it() -> None:
    responses = ResponseCollector(["camera"])
    for ns in (0, 99_999, 100_000, 100_001, NS, 49 * NS, 50 * NS, 50 * NS + 1):
        responses.observe("camera", ns)
    (family,) = responses.collect()
    counts = {one.labels["le"]: one.value for one in family.samples if one.name.endswith("_bucket")}
    assert [counts[le] for le in ("0.0001", "0.0002", "0.5", "1.0", "20.0", "50.0", "+Inf")] == [3, 4, 4, 5, 5, 7, 8]
