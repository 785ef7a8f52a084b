# SPDX-License-Identifier: GPL-2.0
"""kmod/core/marks.c: a client's share of marks, against a count of those in each window of time."""

from __future__ import annotations

from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from gpurt._gpurt import lib

APART, ROOM = int(lib.GPURT_MARK_NS), int(lib.GPURT_MARKS)
BEGIN, END = lib.GPURT_MARK_BEGIN, lib.GPURT_MARK_END
Marks = list[tuple[int, int]]


def told(marks: Marks) -> list[tuple[int, int]]:
    """The marks, time and kind, of which readers are told."""
    whole, taken = 0, []
    for when, what in marks:
        after = int(lib.gpurt_mark_take(whole, what, when))
        if after:
            whole = after
            taken.append((when, what))
    return taken


def at_gaps(gaps: list[int], kinds: list[int]) -> Marks:
    """Marks with these gaps between them, and of these kinds in turn."""
    when, made = 10**12, []
    for number, gap in enumerate(gaps):
        when += gap
        made.append((when, kinds[number % len(kinds)]))
    return made


#: Bursts: how many marks, and the gap before each.
BURSTS = st.lists(
    st.tuples(st.integers(1, 700), st.sampled_from([0, 1, APART // 3, APART - 1, APART, APART + 1, 20 * APART])),
    min_size=1, max_size=6,
)  # fmt: skip
KINDS = st.lists(st.sampled_from([BEGIN, END]), min_size=1, max_size=5)


@settings(max_examples=tries(40))
@given(BURSTS, KINDS)
def test_no_window_has_more_than_the_share(bursts: list[tuple[int, int]], kinds: list[int]) -> None:
    taken = told(at_gaps([gap for count, gap in bursts for _ in range(count)], kinds))
    for number, (first, _) in enumerate(taken[::29]):
        for place in range(29 * number, len(taken), 31):
            window = taken[place][0] - first
            assert place - 29 * number + 1 <= ROOM + window // APART


def test_at_once_half_are_beginnings_and_the_rest_ends() -> None:
    assert told([(5, BEGIN)] * 2 * ROOM) == [(5, BEGIN)] * (ROOM // 2)
    assert told([(5, BEGIN)] * ROOM + [(5, END)] * ROOM) == [(5, BEGIN)] * (ROOM // 2) + [(5, END)] * (ROOM // 2)
    assert told([(5, END)] * 2 * ROOM) == [(5, END)] * ROOM
    marks = [(5, BEGIN)] * ROOM + [(5 + APART, BEGIN)] * 2
    assert told(marks) == [(5, BEGIN)] * (ROOM // 2) + [(5 + APART, BEGIN)]  # one came free


def test_ten_thousand_jobs_a_second_are_told_of() -> None:
    """However the ends lie between the beginnings, and also when some of them come in a bunch."""
    jobs = [(when, kind) for job in range(20_000) for when, kind in ((job * 100_000, BEGIN), (job * 100_000 + 9, END))]
    assert told(jobs) == jobs
    bunched = [(when // 12_000_000 * 12_000_000, kind) for when, kind in jobs]
    assert told(bunched) == bunched


def test_the_end_of_time_is_no_end_of_the_share() -> None:
    assert told([(2**63, BEGIN)] * 3) == [(2**63, BEGIN)] * 3
