# SPDX-License-Identifier: GPL-2.0
"""What the papers' sentences come to: cells are those of the stored tables, and can say no."""

from __future__ import annotations

from collections import defaultdict

import pytest
from claims import Sentence, above, as_much, equal, gain
from claims_page import BEGIN, END, PAGE, PAPERS, generated, judged, stored
from sentences import SENTENCES

from analysis.papers.energy.statistics import Interval
from analysis.papers.experiments.rows import Row


def test_the_page_is_that_of_the_stored_tables() -> None:
    """If not: python tests/analysis/claims_page.py, and read what has changed."""
    text = PAGE.read_text(encoding="utf-8")
    assert BEGIN + text.partition(BEGIN)[2].rpartition(END)[0] == generated()
    assert all(any(name.startswith(begin) for begin in PAPERS.values()) for name in SENTENCES)


def test_cells_say_holds_tie_and_fails() -> None:
    cells = [why for name in SENTENCES for _, why in judged(name)]
    assert all(any(word in why for why in cells) for word in ("holds at all", "tie at all", "fails at all"))
    assert all(why.startswith(("holds", "tie", "fails")) for why in cells)


def test_sentences_are_told_apart() -> None:
    texts = [sentence.text for some in SENTENCES.values() for sentence in some]
    assert len(set(texts)) == len(texts)


def rows(**counts: tuple[int, ...]) -> list[Row]:
    return [{"panel": "p", "x": x, "curve": curve, "schedulable": count, "tasksets": 100}
            for curve, some in counts.items() for x, count in enumerate(some, 1)]  # fmt: skip


def said(judging: object, **counts: tuple[int, ...]) -> str:
    return Sentence("", judging, "points").judge(rows(**counts)).why.partition(";")[0]  # type: ignore[arg-type]


def test_a_cell_says_no_more_than_its_intervals() -> None:
    """51 of 100 is not above 50 of 100; where both accept all or none there is nothing to compare."""
    apart = {"a": (90, 51, 10, 100, 0), "b": (50, 50, 50, 100, 0)}
    assert said(above("a", "b"), **apart) == "holds at 1 of 3, tie at 1 of 3 (p: 2), fails at 1 of 3 (p: 3)"
    assert said(above("a", "b", below=True), **apart) == "holds at 1 of 3, tie at 1 of 3 (p: 2), fails at 1 of 3 (p: 1)"
    assert said(above("a", "b", "c"), a=(90,), b=(50,), c=(89,)) == "tie"
    assert said(equal("a", "b", "share"), a=(50, 50, 50), b=(50, 51, 90)) == (
        "holds at 1 of 3, tie at 1 of 3 (p: 2), fails at 1 of 3 (p: 3)"
    )
    assert said(gain("a", "b"), a=(51, 50), b=(50, 50)) == "holds at 1 of 2, tie at 1 of 2 (p: 2)"
    leads = [said(as_much("a", ("b", "c"), points), a=(90,), b=(10,), c=(50,)) for points in (20, 40, 70)]
    assert leads == ["holds", "tie", "fails"]


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 1, 1), (-0.1, 1, 0), (-1, -0.1, -1), (0, 1, 0), (0, 0, 0)])
def test_an_interval_that_reaches_0_is_a_tie(low: float, high: float, sign: int) -> None:
    assert (Interval((low + high) / 2, low, high).sign, (-Interval(0, low, high)).sign) == (sign, -sign)
    assert Interval(1, 0, 2) - Interval(3, 2, 4) == Interval(-2, -4, 0)


def test_areas_of_rtgpu_figure_9() -> None:
    """By how many per cent a curve's area falls from three to seven subtasks, with two copies and with one."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in stored("rtgpu-fig9"):
        counts[row["curve"], row["panel"]] += int(row["schedulable"])
    fallen = {curve: [round(100 - 100 * counts[curve, f"M=7-{copies}"] / counts[curve, f"M=3-{copies}"])
                      for copies in (2, 1)] for curve, _ in counts}  # fmt: skip
    assert [fallen[curve] for curve in ("RTGPU, printed", "self-suspension", "STGM, as probably evaluated")] == [
        [39, 2], [56, 49], [51, 19]
    ]  # fmt: skip


def test_a_curve_that_a_table_lacks_is_an_error() -> None:
    """So that a sentence cannot pass over what was not run."""
    fewer = [row for row in stored("gcaps-fig8b") if row["curve"] != "gcaps_busy"]
    with pytest.raises(KeyError):
        SENTENCES["gcaps-fig8b"][0].judge(fewer)
