# SPDX-License-Identifier: GPL-2.0
"""JSON for readers: what fits into a line is one, and what holds others is broken."""

from __future__ import annotations

import json

import pytest

from gpurt.text import in_lines

NUMBERS = list(range(60))


@pytest.mark.parametrize(
    ("data", "lines"),
    [({"a": [1]}, 1), (NUMBERS, 1), ([NUMBERS], 3), ({"a": NUMBERS, "b": 1}, 4), ([[NUMBERS], NUMBERS], 6),
     ("x" * 200, 1)],
)  # fmt: skip
def test_what_holds_a_list_is_broken_where_it_does_not_fit(data: object, lines: int) -> None:
    text = in_lines(data)
    assert (json.loads(text), text.count("\n") + 1) == (data, lines)


def test_a_part_has_the_room_that_its_indentation_leaves() -> None:
    """160 characters, one of which is the blank before it."""
    part = [["x" * (159 - len('[[""]]'))]]
    assert len(json.dumps(part)) == 159
    assert in_lines([part, part]).count("\n") == 3
    longer = [["x" * (160 - len('[[""]]'))]]
    assert in_lines([longer, part]).count("\n") == 5
