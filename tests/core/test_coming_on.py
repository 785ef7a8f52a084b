# SPDX-License-Identifier: GPL-2.0
"""While nobody owns the GPU, processes come on one after the other: nobody is kept off by what others do."""

from __future__ import annotations

from agents_pair import Pair
from test_agent_protocol import AGAIN, BOUND, do, ready, yielding


def off(pair: Pair) -> list[int]:
    """Those that are not ordered on."""
    return [name for name in range(pair.size - 1) if not pair.array[name].on]


def all_off(pair: Pair, owner: int) -> None:
    """The owner is alone."""
    do(pair, ("commit", owner), *[("answer", name, True) for name in range(pair.size)])


def test_an_agent_that_registers_keeps_nobody_off() -> None:
    """Else a process would keep others off by one new agent after the other, none of which is ever late."""
    pair = ready(4)
    all_off(pair, 3)
    do(pair, ("commit", None), ("resign", 0), ("register", 0))
    do(pair, ("answer", 1, True))
    assert off(pair) == []
    assert not pair.array[0].late


def test_new_orders_of_another_kind_keep_nobody_off() -> None:
    """An agent that says something else about its groups again and again has one after the other, and is never late."""
    pair = yielding(4)
    all_off(pair, 0)
    do(pair, ("commit", None))
    assert off(pair) == [2, 3]
    for single in (False, True, False, True):
        do(pair, ("tick", BOUND // 3), ("single", 1, single), ("answer", 0, True))
    assert off(pair) == []
    assert not pair.array[1].late


def test_all_are_on_after_the_time_that_one_may_take() -> None:
    """Several that answer just in time are not late."""
    pair = ready(4)
    all_off(pair, 3)
    do(pair, ("commit", None), ("tick", BOUND - 1), ("answer", 0, True))
    assert off(pair) == [2]
    assert pair.raw.deadline - pair.now == 1
    do(pair, ("tick", 1))
    assert off(pair) == []


def test_real_time_processes_in_no_segment_keep_nobody_off_for_ever() -> None:
    """Each time one process can come on before the next owner begins, and urgent ones are off each time."""
    pair = ready(6)
    do(pair, ("rank", 0, 70), ("rank", 1, 60), ("rank", 2, 50))
    all_off(pair, 5)
    came = set()
    for _ in range(6):
        do(pair, ("commit", None), ("tick", AGAIN))
        came |= {name for name in range(5) if pair.array[name].on}
        all_off(pair, 5)
    assert came == {0, 1, 2, 3, 4}
