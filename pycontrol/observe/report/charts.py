# SPDX-License-Identifier: GPL-2.0
"""Where the shapes of the report's charts are, in units of the drawings; the templates draw them.

Each chart stands beside a table with the same numbers, which is the one to read exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpurt.types import DocumentView

#: The drawing: its width, which a telephone shows whole, and the room that is left free on both sides.
WIDTH, MARGIN = 560, 34
#: The height of a row, where the bar is in it below its name, and the height of the bar.
ROW, BELOW, BAR = 46, 22.0, 18
#: The part of a bound that is subtracted (analysis.rta.Kind).
OVERLAP_PART = "saved by overlap"
#: The chart of margins has a logarithmic axis, from a tenth to a hundred times.
LEAST_FACTOR, MOST_FACTOR = 0.1, 100
#: The height of a histogram, and the least height of a count that is not 0: one job among thousands must be seen.
HEIGHT, LEAST = 90, 3
#: The most characters of a name in a chart.
LABEL = 44


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; ``kind`` is what it stands for, ``text`` what it says to a reader who points at it."""

    x: float
    y: float
    width: float
    height: float
    kind: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at ``x``, with its name."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A named row with boxes; ``remark`` stands in their place where there are none, or after them at ``end``."""

    name: str
    y: float
    boxes: tuple[Box, ...] = ()
    marks: tuple[Mark, ...] = ()
    remark: str = ""
    end: float = MARGIN


@dataclass(frozen=True, slots=True)
class Chart:
    """Rows or one histogram; ``ticks``: of the axis below; ``kinds``: in the legend, in order of appearance."""

    height: float
    rows: tuple[Row, ...] = ()
    boxes: tuple[Box, ...] = ()
    marks: tuple[Mark, ...] = ()
    ticks: tuple[Mark, ...] = ()
    kinds: tuple[str, ...] = field(default=())


def label(name: object) -> str:
    """A name cut to what fits above a bar; the table has all of it."""
    text = str(name)
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def _scale(value: float, most: float) -> float:
    return round(MARGIN + (WIDTH - 2 * MARGIN) * value / most, 2)


def bounds(tasks: Mapping[str, DocumentView]) -> Chart:
    """The parts of each real-time task's bound, as shares of its deadline.  ``tasks``: of a test of `analyze`."""
    shown = {name: one for name, one in tasks.items() if not one["best_effort"]}
    longest = [_length(one) / one["deadline_ns"] for one in shown.values() if one["terms"]]
    most = max([1.0, *longest]) * 1.02
    rows = tuple(_bound(name, one, most, at) for at, (name, one) in enumerate(shown.items()))
    kinds = tuple(dict.fromkeys(box.kind for row in rows for box in row.boxes))
    ticks = tuple(Mark(_scale(part / 4, most), "", f"{25 * part} %") for part in range(5))
    return Chart(ROW * len(rows) + 10, rows, ticks=ticks, kinds=kinds)


def _length(one: DocumentView) -> int:
    """How far the parts reach that are not subtracted, ns."""
    return sum(term["amount_ns"] for term in one["terms"] if term["part"] != OVERLAP_PART)


def _bound(name: str, one: DocumentView, most: float, at: int) -> Row:
    y, deadline = at * ROW + BELOW, one["deadline_ns"]
    if not one["terms"]:
        return Row(name, y, remark="NO BOUND" if one["wcrt_ns"] is None else "")
    boxes, reached = [], 0
    for part, amount in _parts(one["terms"]).items():
        start = reached + min(amount, 0)  # what overlap saves is negative
        x, end = _scale(start / deadline, most), _scale((start + abs(amount)) / deadline, most)
        boxes.append(Box(x, y, round(end - x, 2), BAR, part, f"{part}: {abs(amount)} ns"))
        reached += amount
    shown = tuple(box for box in boxes if box.width > 0)
    return Row(name, y, shown, (Mark(_scale(1, most), "deadline", "deadline"),))


def _parts(terms: Sequence[DocumentView]) -> dict[str, int]:
    """The sum of each part, ns, in order of appearance; what is subtracted comes last."""
    sums: dict[str, int] = {}
    for term in sorted(terms, key=lambda term: term["part"] == OVERLAP_PART):
        sums[term["part"]] = sums.get(term["part"], 0) + term["amount_ns"]
    return sums


def margins(found: Sequence[DocumentView]) -> Chart:
    """Bars from 1 to the factor by which each time may grow or must shrink.  ``found``: of `gpurt margins`."""
    rows = []
    for at, one in enumerate(found):
        what: str = one["what"]
        name = f"{one['task']}, {what}" if one["task"] else {"clock": "all times"}.get(what, what)
        y, factor = at * ROW + BELOW, one["factor"]
        if factor is None:
            rows.append(Row(name, y, remark="fails even at 0"))
            continue
        start, end = sorted((_factor(1), _factor(factor)))
        kind = "room" if factor >= 1 else "missing"
        box = Box(start, y, max(round(end - start, 2), 1), BAR, kind, f"{name}: {_down(factor)} times as long")
        rows.append(Row(name, y, (box,)))
    powers = range(-1, 3)
    ticks = tuple(Mark(_factor(10.0**power), "" if power else "now", f"{10.0**power:g}") for power in powers)
    return Chart(ROW * len(rows) + 10, tuple(rows), ticks=ticks)


def _factor(factor: float) -> float:
    """Where a factor is on the axis, or the end of the axis if it is beyond that."""
    inside = min(max(factor, LEAST_FACTOR), MOST_FACTOR)
    return _scale(math.log10(inside / LEAST_FACTOR), math.log10(MOST_FACTOR / LEAST_FACTOR))


def _down(factor: float) -> str:
    return f"{math.floor(factor * 1000) / 1000:g}"


def responses(one: DocumentView) -> Chart:
    """How a task's response times are distributed, with bound and deadline.  ``one``: of a trace's tasks."""
    spread = one["distribution"]
    most = max(spread["histogram"][-1]["below_ns"], one["deadline_ns"], one["wcrt_ns"] or 0)
    width = spread["interval_ns"]
    boxes = _columns((row["below_ns"] - width, row["below_ns"], row["jobs"]) for row in spread["histogram"])
    marks = [Mark(_scale(one["deadline_ns"], most), "deadline", "deadline"),
             Mark(_scale(one["mort_ns"], most), "mort", "MORT")]  # fmt: skip
    if one["wcrt_ns"] is not None:
        marks.append(Mark(_scale(one["wcrt_ns"], most), "wcrt", "WCRT"))
    placed = tuple(
        Box(_scale(low, most), HEIGHT - tall, round(_scale(high, most) - _scale(low, most), 2),
            tall, "jobs", f"{count} jobs of {low} to {high} ns")
        for (low, high, count), tall in boxes
    )  # fmt: skip
    ticks = tuple(Mark(_scale(part * most / 4, most), "", _ms(part * most / 4)) for part in range(5))
    return Chart(HEIGHT, boxes=placed, marks=tuple(marks), ticks=ticks)


def updates(rows: Sequence[DocumentView], alpha: int) -> Chart:
    """How long runlist updates took, of all causes together, on a logarithmic axis.  ``rows``: histograms' rows."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["below_ns"]] = counts.get(row["below_ns"], 0) + row["updates"]
    edges = sorted(counts)
    low, high = math.log10(edges[0]) - 0.2, math.log10(max(edges[-1], alpha)) + 0.05

    def at(ns: float) -> float:
        return _scale(min(max(math.log10(max(ns, 1)) - low, 0), high - low), high - low)

    columns = _columns((edge * 7 // 8, edge, counts[edge]) for edge in edges)
    boxes = tuple(
        Box(at(start), HEIGHT - tall, round(max(at(edge) - at(start), 1.5), 2), tall, "jobs",
            f"{count} updates below {edge} ns")
        for (start, edge, count), tall in columns
    )  # fmt: skip
    decades = range(math.ceil(low), math.floor(high) + 1)
    ticks = tuple(Mark(at(10**power), "", _ms(10**power)) for power in decades)
    marks = (Mark(at(alpha), "deadline", "alpha"),) if alpha else ()
    return Chart(HEIGHT, boxes=boxes, marks=marks, ticks=ticks)


def _columns(counted: Iterable[tuple[int, int, int]]) -> list[tuple[tuple[int, int, int], float]]:
    """Intervals and their counts, each with its height."""
    rows = list(counted)
    most = max(count for _, _, count in rows)
    return [(row, round(max(LEAST, (HEIGHT - 4) * row[2] / most), 2)) for row in rows]


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.4g} ms"
