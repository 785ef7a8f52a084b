# SPDX-License-Identifier: GPL-2.0
"""Sentences of a text about a figure, judged at each point by the intervals of the rows: holds, tie or fails."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import sqrt
from pathlib import Path

from analysis.papers.energy.statistics import Interval
from analysis.papers.experiments.rows import Row
from gpurt.types import Document

#: The unit of what differs, by measure.
UNITS = {"share": "points", "missed_percent": "%", "less_missed_percent": "points", "active_less_j": "J",
         "job_less_mj": "mJ"}  # fmt: skip
#: Two-sided normal quantile of 95 % intervals.
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a source, whether it holds here, and the numbers that show it, or why it does not."""

    text: str
    reproduced: bool
    why: str


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that ``write_rows`` wrote, as text; of a point and a curve with the measures that it keeps."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    if "measure" not in lines[0]:
        return list(lines)
    found: dict[tuple[str, str, str], Document] = {}
    for line in lines:
        place = {key: line[key] for key in ("panel", "x", "tasksets")}
        for curve in (key for key in line if key not in ("panel", "x", "tasksets", "measure")):
            row = found.setdefault((line["panel"], line["x"], curve), {**place, "curve": curve})
            row[line["measure"]] = line[curve]
    return list(found.values())


@dataclass(frozen=True)
class Point:
    """The judgement of one point: ``sign`` 1 holds, 0 tie, -1 fails; ``found``: the difference to the other curve.

    ``lead``: what speaks for the sentence there.
    """

    panel: str
    x: float
    sign: int
    found: Interval
    lead: float
    other: str = ""


class Figure:
    """The rows of an experiment by panel, x and curve."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = {(row["panel"], float(row["x"]), row["curve"]): row for row in rows}
        self.places = list(dict.fromkeys((panel, x) for panel, x, _ in self.rows))

    def at(self, panel: str, x: float, curve: str, measure: str) -> Interval:
        """The measure of a curve at a point.  A share has Wilson's interval, %."""
        row = self.rows[panel, x, curve]
        if measure != "share":
            return Interval(*(float(row[f"{measure}{end}"]) for end in ("", "_low", "_high")))
        return _wilson(int(row["schedulable"]), int(row["tasksets"]))


def _wilson(count: int, total: int) -> Interval:
    share, spread = count / total, _Z * _Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / total + spread / total / 4) / (1 + spread)
    return Interval(100 * share, 100 * (middle - half), 100 * (middle + half))


Judging = Callable[[Figure], Iterator[Point]]


@dataclass(frozen=True)
class Sentence:
    """``text``: what the source says of a figure.  ``judging``: its points, in the order of panels and x."""

    text: str
    judging: Judging
    unit: str

    def judge(self, rows: Iterable[Row]) -> Claim:
        """The claim holds if it holds at every point."""
        points = list(self.judging(Figure(rows)))
        parts = [_part(word, [point for point in points if point.sign == sign], len(points))
                 for word, sign in (("holds", 1), ("tie", 0), ("fails", -1))]  # fmt: skip
        worst = min(points, key=lambda point: (point.sign, point.lead))
        said = ", ".join(part for part in parts if part)
        return Claim(self.text, all(point.sign > 0 for point in points), f"{said}; {self._told(worst)}")

    def _told(self, point: Point) -> str:
        one, against = point.found, f" against {point.other}" if point.other else ""
        interval = f"{one.value:+.3g} [{one.low:+.3g}, {one.high:+.3g}] {self.unit}"
        return f"{point.panel}, {point.x:g}{against}: {interval}"


#: Above so many points that do not hold they are counted, not listed.
_LISTED = 21


def _part(word: str, points: Sequence[Point], total: int) -> str:
    if not points:
        return ""
    if len(points) == total:
        return word if total == 1 else f"{word} at all {total} points"
    said = f"{word} at {len(points)} of {total}"
    if word == "holds" or total > _LISTED:
        return said
    panels = [f"{key}: {', '.join(f'{point.x:g}' for point in some)}"
              for key, some in groupby(points, key=lambda point: point.panel)]  # fmt: skip
    return f"{said} ({'; '.join(panels)})"


def _chosen(figure: Figure, panels: Sequence[str], least: float, most: float) -> Iterator[tuple[str, float]]:
    return ((panel, x) for panel, x in figure.places if least <= x <= most and (not panels or panel in panels))


def above(
    curves: str | Sequence[str], *others: str, measure: str = "share", panels: Sequence[str] = (), least: float = 0,
    most: float = 1e9, below: bool = False,
) -> Judging:  # fmt: skip
    """Each curve has more of the measure than each other one; ``below``: less.  The nearest other decides.

    Points where both accept all tasksets, or none, are left out.
    """
    named = (curves,) if isinstance(curves, str) else curves

    def judging(figure: Figure) -> Iterator[Point]:
        for curve in named:
            for panel, x in _chosen(figure, panels, least, most):
                own = figure.at(panel, x, curve, measure)
                gaps = [(own - figure.at(panel, x, other, measure), other) for other in others if other != curve]
                signed = [(-gap if below else gap, other) for gap, other in gaps]
                nearest, other = min(signed, key=lambda pair: (pair[0].sign, pair[0].value))
                if measure == "share" and not nearest.value and own.value in (0, 100):
                    continue
                place = panel if len(named) == 1 else f"{curve}, {panel}"
                yield Point(place, x, nearest.sign, -nearest if below else nearest, nearest.value, other)

    return judging


def equal(curve: str, other: str, measure: str, panels: Sequence[str] = (), least: float = 0) -> Judging:
    """The same numbers to all places; a tie where the intervals meet."""

    def judging(figure: Figure) -> Iterator[Point]:
        for panel, x in _chosen(figure, panels, least, 1e9):
            one, two = figure.at(panel, x, curve, measure), figure.at(panel, x, other, measure)
            gap = one - two
            yield Point(panel, x, 1 if one == two else -abs(gap.sign), gap, -abs(gap.value), other)

    return judging


def gain(curves: str, before: str, over: tuple[str, str] | None = None) -> Judging:
    """A curve that accepts all that ``before`` does accepts more; ``over``: gains more than that pair of curves."""

    def difference(figure: Figure, panel: str, x: float, pair: tuple[str, str]) -> Interval:
        more, less = (figure.rows[panel, x, curve] for curve in pair)
        return _wilson(int(more["schedulable"]) - int(less["schedulable"]), int(more["tasksets"]))

    def judging(figure: Figure) -> Iterator[Point]:
        for panel, x in figure.places:
            own = difference(figure, panel, x, (curves, before))
            gap = own - difference(figure, panel, x, over) if over else own
            yield Point(panel, x, gap.sign if over else int(own.value > 0), gap, gap.value)

    return judging


def within(curve: str, other: str, low: float, high: float, panels: Sequence[str] = ()) -> Judging:
    """The curve needs ``low`` to ``high`` % less energy than the other; ends of the difference over the mean."""

    def judging(figure: Figure) -> Iterator[Point]:
        for panel, x in _chosen(figure, panels, 0, 1e9):
            whole = float(figure.rows[panel, x, other]["energy_j"]) / 100
            gap = figure.at(panel, x, other, "active_less_j") - figure.at(panel, x, curve, "active_less_j")
            less = gap.scaled(1 / whole)
            inside, apart = low <= less.low and less.high <= high, less.high < low or less.low > high
            yield Point(panel, x, 1 if inside else -1 if apart else 0, less, less.value)

    return judging


def none_missed(curve: str, panels: Sequence[str] = ()) -> Judging:
    """Not one job is late."""

    def judging(figure: Figure) -> Iterator[Point]:
        for panel, x in _chosen(figure, panels, 0, 1e9):
            missed = figure.at(panel, x, curve, "missed_percent")
            yield Point(panel, x, -1 if missed.value else 1, missed, -missed.value)

    return judging


def falling(curves: Sequence[str], panels: Sequence[str], measure: str = "share") -> Judging:
    """Each curve has less of the measure in each panel than in the panel before."""

    def judging(figure: Figure) -> Iterator[Point]:
        for curve in curves:
            for first, second in pairwise(panels):
                for _, x in _chosen(figure, (first,), 0, 1e9):
                    own = figure.at(first, x, curve, measure)
                    gap = own - figure.at(second, x, curve, measure)
                    if measure != "share" or gap.value or own.value not in (0, 100):
                        yield Point(f"{curve}, {first} to {second}", x, gap.sign, gap, gap.value)

    return judging


def as_much(
    curve: str, others: Sequence[str], published: float, measure: str = "share", panels: Sequence[str] = ()
) -> Judging:  # fmt: skip
    """The greatest lead of a curve over the best of others is as large as the text says, or larger."""

    def judging(figure: Figure) -> Iterator[Point]:
        leads = []
        for panel, x in _chosen(figure, panels, 0, 1e9):
            own = figure.at(panel, x, curve, measure)
            gaps = [own - figure.at(panel, x, other, measure) for other in others]
            signed = [gap if measure == "share" else -gap for gap in gaps]
            leads.append((panel, x, min(signed, key=lambda one: one.value)))
        panel, x, lead = max(leads, key=lambda one: one[2].value)
        yield Point(panel, x, (lead.low >= published) - (lead.high < published), lead, lead.value)

    return judging


def closer(curves: Sequence[str], panel: str, than: Sequence[str], measure: str) -> Judging:
    """Curves are closer to each other in one panel than in others: the highest less the lowest."""

    def spread(figure: Figure, panel: str, x: float) -> Interval:
        found = [figure.at(panel, x, curve, measure) for curve in curves]
        low, high = min(found, key=lambda one: one.value), max(found, key=lambda one: one.value)
        return high - low

    def judging(figure: Figure) -> Iterator[Point]:
        for other in than:
            for _, x in _chosen(figure, (panel,), 0, 1e9):
                gap = spread(figure, other, x) - spread(figure, panel, x)
                yield Point(f"against {other}", x, gap.sign, gap, gap.value)

    return judging
