# SPDX-License-Identifier: GPL-2.0
"""JSON for readers: what fits into a line is one, and what holds others is broken."""

from __future__ import annotations

import json

import pytest

from gpurt.text import in_lines

NUMBERS = list(range(60))


@pytest.mark.parametrize(
    ("data", "lines"),
    [({"a": [1]}, 1), (NUMBERS, 1), ([NUMBERS], 3), ({"a": NUMBERS, "b": 1}, 4), ([[NUMBERS], NUMBERS], 6), ("x" * 200, 1)],
)
def test_what_holds_a_list_is_broken_where_it_does_not_fit(data: object, lines: int) -> None:
    text = in_lines(data)
    assert (json.loads(text), text.count("\n") + 1) == (data, lines)
