# SPDX-License-Identifier: GPL-2.0
"""The shapes of the report's charts are where the numbers say, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pycontrol.observe.report import charts

#: The axis of bounds: 2 % beyond the longest bar.
LENGTH = (charts.WIDTH - 2 * charts.MARGIN) / 1.02


def task(deadline: int, wcrt: int | None, *terms: tuple[str, int]) -> dict[str, Any]:
    shown = [{"part": part, "caused_by": None, "amount_ns": amount, "lemma": ""} for part, amount in terms]
    return {"best_effort": False, "deadline_ns": deadline, "wcrt_ns": wcrt, "terms": shown or None}


def test_parts_of_a_bound_lie_side_by_side() -> None:
    chart = charts.bounds({
        "a": task(200, 150, ("own execution", 100), ("blocking", 50)), "b": task(100, None),
        "c": {"best_effort": True},
    })  # fmt: skip
    first, second = chart.rows
    own, blocking = first.boxes
    assert (own.x, own.width) == (charts.MARGIN, pytest.approx(LENGTH / 2, abs=0.02))
    assert blocking.x == pytest.approx(own.x + own.width, abs=0.02)
    assert blocking.width == pytest.approx(LENGTH / 4, abs=0.02)
    assert first.marks[0].x == pytest.approx(charts.MARGIN + LENGTH, abs=0.02)
    assert (second.boxes, second.remark) == ((), "NO BOUND")
    assert chart.kinds == ("own execution", "blocking")


def test_what_overlap_saves_covers_the_end_of_the_others() -> None:
    """From the bound to where it would be otherwise, here twice the deadline."""
    (row,) = charts.bounds({"a": task(100, 80, ("own execution", 200), ("saved by overlap", -120))}).rows
    own, saved = row.boxes
    assert saved.x == pytest.approx(charts.MARGIN + 0.8 * LENGTH / 2, abs=0.02)
    assert saved.x + saved.width == pytest.approx(own.x + own.width, abs=0.02)


def test_margins_begin_at_what_is_now() -> None:
    """On a logarithmic axis of three decades, from a tenth."""
    decade = (charts.WIDTH - 2 * charts.MARGIN) / 3
    chart = charts.margins([
        {"what": "C", "task": "a", "factor": 10.0}, {"what": "G", "task": "a", "factor": 0.1},
        {"what": "epsilon", "task": None, "factor": 1000.0}, {"what": "clock", "task": None, "factor": None},
    ])  # fmt: skip
    rows = chart.rows
    assert chart.height > max(row.y for row in rows) + charts.BAR, "all rows are inside"
    room, missing, beyond = (row.boxes[0] for row in rows[:3])
    assert (room.x, room.width) == (pytest.approx(charts.MARGIN + decade, abs=0.02), pytest.approx(decade, abs=0.02))
    assert (missing.x, missing.kind, room.kind) == (charts.MARGIN, "missing", "room")
    assert beyond.width == pytest.approx(2 * decade, abs=0.02)
    assert [row.name for row in rows] == ["a, C", "a, G", "epsilon", "all times"]
    assert (rows[3].boxes, rows[3].remark) == ((), "fails even at 0")


def test_one_job_among_thousands_is_seen() -> None:
    spread = {"interval_ns": 10, "histogram": [{"below_ns": 10, "jobs": 100_000}, {"below_ns": 50, "jobs": 1}]}
    chart = charts.responses({"distribution": spread, "deadline_ns": 100, "wcrt_ns": 80, "mort_ns": 45})
    length = charts.WIDTH - 2 * charts.MARGIN
    first, last = chart.boxes
    assert (last.height, last.y) == (charts.LEAST, charts.HEIGHT - charts.LEAST)
    assert first.height > 20 * last.height
    assert last.x == pytest.approx(charts.MARGIN + 0.4 * length, abs=0.02)
    marks = {mark.kind: (mark.x - charts.MARGIN) / length for mark in chart.marks}
    assert marks == pytest.approx({"deadline": 1, "mort": 0.45, "wcrt": 0.8}, abs=0.001)


@pytest.mark.parametrize("alpha", [0, 1, 10**6, 10**9])
def test_updates_and_alpha_are_within_the_drawing(alpha: int) -> None:
    rows = [{"below_ns": 2048, "updates": 5}, {"below_ns": 10**6, "updates": 1}, {"below_ns": 2048, "updates": 5}]
    chart = charts.updates(rows, alpha)
    assert [box.text for box in chart.boxes] == ["10 updates below 2048 ns", "1 updates below 1000000 ns"]
    for box in chart.boxes:
        assert charts.MARGIN <= box.x <= box.x + box.width <= charts.WIDTH - charts.MARGIN + 2
    assert all(charts.MARGIN <= mark.x <= charts.WIDTH - charts.MARGIN for mark in (*chart.marks, *chart.ticks))
    assert len(chart.marks) == (alpha > 0)
