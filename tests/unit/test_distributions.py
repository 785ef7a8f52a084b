# SPDX-License-Identifier: GPL-2.0
"""Native histograms: which bucket a time belongs to, by the definition of the schema."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpurt._gpurt import lib

pytest.importorskip("prometheus_client", reason="needs prometheus-client: scripts/setup --with-tests")
from pycontrol.live.control import Durations
from pycontrol.live.distributions import ResponseCollector, index_of, native_of, of_host

NS = 10**9


def within(ns: int, index: int) -> bool:
    """2^((index - 1) / 8) s < ns <= 2^(index / 8) s, to the eighth power."""
    time = Fraction(ns, NS) ** 8
    return Fraction(2) ** (index - 1) < time <= Fraction(2) ** index


@given(st.integers(1, 2**64 - 1))
@example(1)
@example(NS)
@example(NS + 1)
@example(2 * NS)
@example(NS // 2)
@example(2**64 - 1)
def test_a_time_is_in_the_bucket_of_its_definition(ns: int) -> None:
    assert within(ns, index_of(ns))


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=30))
def test_no_time_of_the_host_is_in_a_lower_bucket_and_none_far_above(found: list[int]) -> None:
    """Nor does another bucket of the host fall into the same one; at most 37 % above the time ends the bucket."""
    buckets = [0] * lib.GPURT_HIST_BUCKETS
    for ns in found:
        buckets[lib.gpurt_hist_bucket(ns)] += 1
    native = native_of(Durations(0, len(found), min(found), sum(found), max(found), tuple(buckets)))
    assert native.zero == found.count(0)
    assert sorted(native.buckets.values()) == sorted(count for count in buckets[1:] if count)
    last = int(lib.gpurt_hist_floor(lib.GPURT_HIST_BUCKETS - 1))
    indices = sorted(index for index, count in native.buckets.items() for _ in range(count))
    for ns, index in zip(sorted(ns for ns in found if ns), indices, strict=True):  # a longer time is in no lower bucket
        assert index_of(ns) <= index
        assert ns >= last or Fraction(2) ** index < (Fraction(137, 100) * Fraction(ns, NS)) ** 8


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_count_of_another_moment_is_not_told(count: int) -> None:
    """The module is asked while it counts; Prometheus takes no histogram whose buckets do not add up."""
    buckets = [0] * lib.GPURT_HIST_BUCKETS
    buckets[lib.gpurt_hist_bucket(50_000)] = 3
    family = of_host("seconds", "", "", [(Durations(0, count, 50_000, 150_000, 50_000, tuple(buckets)), "")])
    counts = [one.value for one in family.samples if one.name.endswith(("_bucket", "_count"))]
    assert counts == sorted(counts)
    (native,) = family.native.values()
    assert native.zero + sum(native.buckets.values()) == counts[-1] == 3


def test_responses_are_counted_twice_over_alike() -> None:
    """Classic and native buckets have the same jobs; an edge is in the bucket that ends with it."""
    responses = ResponseCollector(["camera"])
    for ns in (0, 99_999, 100_000, 100_001, NS, 49 * NS, 50 * NS, 50 * NS + 1):
        responses.observe("camera", ns)
    (family,) = responses.collect()
    classic = {one.labels["le"]: one.value for one in family.samples if one.name.endswith("_bucket")}
    assert [classic[le] for le in ("0.0001", "0.0002", "0.5", "1.0", "20.0", "50.0", "+Inf")] == [3, 4, 4, 5, 5, 7, 8]
    native = family.native[frozenset({("task", "camera")})]
    assert native.zero + sum(native.buckets.values()) == 8
    assert native.buckets[0] == 1  # 1 s ends its bucket
