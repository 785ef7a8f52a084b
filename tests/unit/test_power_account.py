# SPDX-License-Identifier: GPL-2.0
"""Energy of a window from readings: bounds of counters, wraps, counters that stand still, and constants."""

from __future__ import annotations

from fractions import Fraction

import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from pycontrol.machine.power.account import Account, account
from pycontrol.machine.power.sensor import Reading, Scope, SensorError, SensorFacts, SensorKind

MS, S = 10**6, 10**9
W = 10**6


def sensor(kind: SensorKind = SensorKind.COUNTER, wraps: int | None = None, resolution: int = 1) -> SensorFacts:
    return SensorFacts("fake", "a fake", kind, Scope.GPU, wraps, resolution)


def window(one: Account, values: list[tuple[int, int]], begin: int, end: int) -> Account:
    """Feeds (time, value), and makes the window from the reading of index ``begin`` to that of ``end``."""
    for index, (time, value) in enumerate(values):
        one.feed(Reading(time, time, value))
        if index == begin:
            one.begin()
        if index == end:
            one.end()
    return one


def test_a_counter_by_hand() -> None:
    """100 uJ a ms, read each ms, counted each 10 ms: from 5 ms to 295 ms 29,000 uJ are true, 29,000 are read."""
    values = [(t * MS, t // 10 * 1000) for t in range(320)]
    found = window(account(sensor()), values, 5, 295).energy()
    assert (found.time, found.energy, found.error, found.bounded) == (290 * MS, 29_000, 1001, True)
    assert (found.updates, found.step, found.why) == (29, 1000, "")
    assert found.power == 100_000
    assert found.power_error == -(-1001 * S // (290 * MS))


@settings(max_examples=tries(150))
@given(st.data())
def test_the_error_of_a_counter_is_a_bound(data: st.DataObject) -> None:
    """An oracle that integrates the true power: whatever the updates, reads, resolution and wrap are."""
    powers = data.draw(st.lists(st.integers(0, 300), min_size=4, max_size=40))  # uJ in each ms
    truth = [0]
    for power in powers:
        truth.append(truth[-1] + power)
    resolution = data.draw(st.sampled_from([1, 50, 1000]))
    updates = data.draw(st.lists(st.booleans(), min_size=len(truth), max_size=len(truth)))
    counter, held = [], 0
    start = data.draw(st.integers(0, 10**5))
    for energy, updated in zip(truth, updates, strict=True):
        held = (energy + start) // resolution * resolution if updated else held or start // resolution * resolution
        counter.append(held)
    wraps = data.draw(st.sampled_from([None, 40_000, 90_000]))
    reads = data.draw(st.lists(st.integers(0, len(truth) - 1), min_size=3, unique=True).map(sorted))
    values = [(t * MS, counter[t] if wraps is None else counter[t] % wraps) for t in reads]
    begin, end = sorted(data.draw(st.lists(st.integers(0, len(reads) - 1), min_size=2, max_size=2, unique=True)))
    found = window(account(sensor(wraps=wraps, resolution=resolution)), values, begin, end).energy()
    if found.bounded and found.updates:
        assert abs(found.energy - (truth[reads[end]] - truth[reads[begin]])) <= found.error
    assert found.energy == counter[reads[end]] - counter[reads[begin]]


def test_wraps_are_added_up() -> None:
    values = [(t * MS, t * 1000 % 65_536) for t in range(300)]
    found = window(account(sensor(wraps=65_536)), values, 0, 298).energy()
    assert (found.energy, found.why) == (298_000, "")
    assert found.error == 1000 + 1 + 4


def test_a_range_may_lack_one_unit_of_a_32_bit_counter() -> None:
    """RAPL: a register of 32 bits in units of 61 uJ, whose range is stated as its largest value."""
    unit, start = 61, 2**32 - 100
    values = [(t * MS, (start + t) % 2**32 * unit) for t in range(300)]
    found = window(account(sensor(wraps=(2**32 - 1) * unit)), values, 0, 298).energy()
    assert 0 < 298 * unit - found.energy <= unit
    assert found.error >= 2 * unit


@pytest.mark.parametrize("wraps", [None, 10**9])
def test_a_counter_that_goes_back_is_no_wrap(wraps: int | None) -> None:
    """A driver that is loaded again begins at 0.  As a wrap that would be nearly the whole range."""
    one = account(sensor(wraps=wraps))
    one.feed(Reading(0, 0, 500_000))
    with pytest.raises(SensorError, match=r"counter went (back )?from 500000 to 20"):
        one.feed(Reading(MS, MS, 20))


def test_a_counter_beyond_its_range_is_wrong() -> None:
    one = account(sensor(wraps=1000))
    one.feed(Reading(0, 0, 1500))
    with pytest.raises(SensorError, match="no wrap at 1000"):
        one.feed(Reading(MS, MS, 1400))


def test_a_counter_that_stands_still_is_seen() -> None:
    still = window(account(sensor()), [(t * MS, 7) for t in range(100)], 0, 98).energy()
    assert "stood still for all of 0.098 s" in still.why
    assert (still.energy, still.bounded) == (0, False)
    values = [(t * MS, min(t, 400) * 10) for t in range(3000)]
    stale = window(account(sensor()), values, 0, 2998).energy()
    assert "the counter is stale: it stood still for 2.5" in stale.why
    values = [(t * MS, t // 10) for t in range(100)]
    assert "changed only 9 times, and 20" in window(account(sensor()), values, 0, 98).energy().why


def test_a_counter_that_is_not_read_is_not_stale() -> None:
    """The machine was busy for two seconds: the counter went on."""
    values = [(t * MS, t * 10) for t in [*range(100), *range(2100, 2200)]]
    assert window(account(sensor()), values, 0, 198).energy().why == ""


def test_a_counter_that_stops_after_the_window_bounds_nothing() -> None:
    values = [(t * MS, min(t, 100) * 10) for t in range(200)]
    found = window(account(sensor()), values, 0, 100).energy()
    assert (found.energy, found.bounded) == (1000, False)
    assert "did not change after the program" in found.why


def test_power_is_integrated_and_a_constant_is_no_measurement() -> None:
    values = [(t * 10 * MS, (40 + t % 2 * 20) * W) for t in range(101)]  # 40 W and 60 W in turn
    found = window(account(sensor(SensorKind.INSTANT)), values, 0, 100).energy()
    assert (found.time, found.energy, found.power, found.bounded) == (S, 50 * W, 50 * W, False)
    assert found.error == 10 * W  # half of 20 W for one second
    assert found.why == ""
    constant = window(account(sensor(SensorKind.AVERAGE)), [(t * 10 * MS, 40 * W) for t in range(101)], 0, 100).energy()
    assert constant.energy == 40 * W
    assert "40.000000 W all of 1.000 s: a constant is no measurement" in constant.why
    few = window(account(sensor(SensorKind.INSTANT)), values[:11], 0, 10).energy()
    assert "changed only 10 times" in few.why


def test_power_before_and_after_the_window_does_not_count() -> None:
    values = [(t * MS, t * W) for t in range(100)]
    found = window(account(sensor(SensorKind.INSTANT)), values, 30, 60).energy()
    exact = Fraction(30 + 60, 2) * 30 * MS * W / 10**9
    assert (found.energy, found.updates) == (exact, 30)


def test_slow_readings_make_the_power_less_exact() -> None:
    one = account(sensor(resolution=0))
    for t in range(50):
        one.feed(Reading(t * 10 * MS, t * 10 * MS + 2 * MS, t * 1000))
        if t == 0:
            one.begin()
        if t == 40:
            one.end()
    found = one.energy()
    assert (found.time, found.late, found.power) == (400 * MS, 2 * MS, 100_000)
    assert found.power_error == -(-(1000 * S + 100_000 * 2 * MS) // (398 * MS))
