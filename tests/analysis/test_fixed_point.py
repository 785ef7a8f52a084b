from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.model.fixed_point import Diverged, least_fixed_point


def brute_force_fixed_point(function: Callable[[int], int], start: int, limit: int) -> int:
    for value in range(start, limit + 1):
        if function(value) == value:
            return value
    raise Diverged(limit + 1, limit, limit + 1 - start)


PARTS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=4)


@given(own=st.integers(0, 20), parts=PARTS)
def test_search_finds_what_trying_every_integer_finds(own: int, parts: list[tuple[int, int]]) -> None:
    def function(x: int) -> int:
        return own + sum(-(-x // period) * amount for period, amount in parts)

    try:
        expected = brute_force_fixed_point(function, own, 300)
    except Diverged:
        with pytest.raises(Diverged) as caught:
            least_fixed_point(function, own, 300)
        assert caught.value.reached > 300
    else:
        assert least_fixed_point(function, own, 300) == expected


def test_a_search_that_creeps_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.model.fixed_point.MAX_SEARCH_STEPS", 100)
    with pytest.raises(Diverged) as caught:
        least_fixed_point(lambda x: x + 1, 0, 10**18)
    assert caught.value.steps == 100
