"""Requests that are answered later, once, and forgotten when they are answered."""

from __future__ import annotations

import errno

from hypothesis import given
from hypothesis import strategies as st

from pycontrol.host.waiter import FOREVER, MAX_ANSWERS_AT_ONCE, MIN_REQUESTS_SEARCHED, Deadlines, Waiter, Waiters


def ignore(_result: int, _when: int) -> None:
    """The answer does not matter."""


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["add", "answer", "expire"]))))
def test_each_request_is_answered_once_at_its_time(steps: list[tuple[int, str]]) -> None:
    said: list[tuple[int, int]] = []
    deadlines, now, waiting = Deadlines(), 0, {}
    for number, (value, step) in enumerate(steps):
        if step == "add":
            waiter = Waiter(lambda result, _when, number=number: said.append((number, result)))  # type: ignore[misc]
            deadlines.add(now + value, waiter)
            waiting[number] = (now + value, waiter)
        elif step == "answer" and waiting:
            chosen = sorted(waiting)[value % len(waiting)]
            waiting.pop(chosen)[1].finish(0)
            assert said.pop() == (chosen, 0)
        else:
            now += value
            over = sorted((when, one) for one, (when, _) in waiting.items() if when <= now)
            deadlines.expire(now)
            assert said == [(one, -errno.ETIMEDOUT) for _, one in over]
            said.clear()
            waiting = {one: (when, waiter) for one, (when, waiter) in waiting.items() if when > now}
        assert deadlines.next() == min((when for when, _ in waiting.values()), default=FOREVER)


def test_answered_requests_are_forgotten_while_others_wait() -> None:
    waiters, deadlines, lasting = Waiters(), Deadlines(), Waiter(ignore)
    waiters.add(lasting)
    deadlines.add(1, lasting)
    for _ in range(100 * MIN_REQUESTS_SEARCHED):
        brief = Waiter(ignore)
        waiters.add(brief)
        deadlines.add(10**9, brief)
        brief.finish(0)
    assert len(waiters) <= MIN_REQUESTS_SEARCHED
    assert len(deadlines) <= MIN_REQUESTS_SEARCHED
    waiters.finish(0)
    assert lasting.answered
    assert deadlines.next() == FOREVER


def test_requests_whose_time_is_over_at_once_are_answered_in_pieces() -> None:
    said: list[int] = []
    deadlines = Deadlines()
    for _ in range(3 * MAX_ANSWERS_AT_ONCE + 1):
        deadlines.add(5, Waiter(lambda result, _when: said.append(result)))
    deadlines.expire(4)
    assert said == []
    for pieces in range(1, 4):
        deadlines.expire(5)
        assert said == [-errno.ETIMEDOUT] * (pieces * MAX_ANSWERS_AT_ONCE)
        assert deadlines.next() == 5
    deadlines.expire(5)
    assert len(said) == 3 * MAX_ANSWERS_AT_ONCE + 1
