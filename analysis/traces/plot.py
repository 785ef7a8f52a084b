# SPDX-License-Identifier: GPL-2.0
"""Pictures of traces."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from gpurt.types import Document

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.traces.jobs import JobTimes, jobs_of, traced_segments
from analysis.traces.trace import GROUPS, TIMED, About, Event, Kind, Trace, lanes, place
from gpurt.errors import FileError, UsageError
from gpurt.files import written
from gpurt.text import filename, visible
from gpurt.units import MS

DEFAULT_WINDOW = 300 * MS
UPDATE_COLOUR, LATE_COLOUR, GONE_COLOUR = "#222222", "#d00000", "#888888"
#: A row of the picture: the number of its group and its own, or a task's name.
_Row: TypeAlias = tuple[int, int] | str
#: Suffixes that say the format of a picture; a name without a suffix is a PNG.
FORMATS = {"": "png", ".png": "png", ".svg": "svg", ".pdf": "pdf"}
#: Colour maps of tasks, and how many colours each has.  matplotlib 3.5 has no other name for them.
PALETTES = (("tab10", 10), ("Set2", 8))
#: Units of the time axis, ns, and the longest window for which each is used.
AXIS_UNITS = ((1, "ns", 10_000), (1_000, "us", 5 * MS), (MS, "ms", 20_000 * MS), (1_000 * MS, "s", 2**63))
#: Height of a lane of a GPU or CPU on which several tasks executed at the same time; that of a task is 1.
LANE = 0.5
#: Marks of a row that fit beside each other at full size.
MAX_MARKS_OF_A_ROW = 60


def format_of(output: Path) -> str:
    """The format that the suffix of a picture's name asks for.  Raises UsageError if there is no such format."""
    try:
        return FORMATS[output.suffix.lower()]
    except KeyError:
        known = ", ".join(suffix for suffix in FORMATS if suffix)
        raise UsageError(f"{filename(output)}: pictures end in {known}; a name without a suffix is a PNG") from None


def _colours(trace: Trace) -> Document:
    palette = [tuple(colour) for name, count in PALETTES for colour in mpl.colormaps[name](list(range(count)))]
    return {task: palette[index % len(palette)] for index, task in enumerate(trace.names())}


def _shown(name: str) -> str:
    """A name as matplotlib takes it: it would read dollars as formulas, and leave out labels that begin with _."""
    escaped = visible(name).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def _label(name: str, about: About | None) -> str:
    if about is None or about.priority is None:
        return _shown(name)
    return f"{_shown(name)} ({about.priority or 'best effort'})"


def _save(figure: Figure, output: Path) -> None:
    """Writes the picture to exactly this file."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the font lacks
        figure.savefig(picture, dpi=130, bbox_inches="tight", format=format_of(output))
    plt.close(figure)
    with written(output) as file:
        file.write(picture.getbuffer())


def gantt(trace: Trace, output: Path, start: int | None = None, end: int | None = None) -> None:
    """Draws which task had each GPU and CPU, and below that the jobs of each task, the most urgent one first.

    Args:
        trace: what to draw.
        output: the file, PNG, SVG or PDF by its suffix.
        start: start of the window, ns after the first event; 0 unless given.
        end: end of the window; DEFAULT_WINDOW after its start unless given.

    Raises:
        UsageError: the window is empty or after the end, or no format has the file's suffix.
        FileError: the trace has no events, or the file cannot be written.
    """
    if not trace.events:
        raise FileError("the trace has no events: nothing used a GPU while it was recorded")
    first = min(event.time for event in trace.events)
    low = first + (start or 0)
    high = first + end if end is not None else low + DEFAULT_WINDOW
    inside = [
        (event, lane) for event, lane in zip(trace.events, lanes(trace.events), strict=True)
        if event.time < high and event.time + _length(event) >= low
    ]  # fmt: skip
    if low >= high or low > trace.end:
        raise UsageError(f"the window is empty, or after the end; the trace lasts {(trace.end - first) / MS:.1f} ms")
    high = min(high, max(trace.end, low + 1))
    picture = _Gantt(trace, inside, first, low, high)
    picture.bars(inside)
    picture.jobs(jobs_of(trace))
    picture.segments(traced_segments(trace))
    picture.preemptions(event for event, _ in inside)
    _save(picture.finish(), output)


def _length(event: Event) -> int:
    return event.duration or 0 if event.kind in TIMED else 0


def _part(count: int) -> float:
    """How large so many marks of a row may be, as a part of their full size."""
    return max(0.2, min(1.0, MAX_MARKS_OF_A_ROW / max(1, count)))


class _Gantt:
    """The picture: a row for each GPU, each CPU and each task."""

    def __init__(
        self, trace: Trace, inside: Sequence[tuple[Event, int]], first: int, low: int, high: int
    ) -> None:  # fmt: skip
        self._trace, self._low, self._high, self._first = trace, low, high, first
        self._colours = _colours(trace)
        self._scale, self._unit = next((ns, unit) for ns, unit, longest in AXIS_UNITS if high - low <= longest)
        lanes: dict[tuple[int, int], int] = {}
        for event, lane in inside:
            if _length(event):
                lanes[place(event)] = max(lanes.get(place(event), 1), lane + 1)
        self._depth: dict[_Row, int] = dict(lanes.items())  # lanes of a row
        self._rows: list[_Row] = [*sorted(lanes, key=lambda p: (-p[0], p[1])), *trace.names()]
        self._size = {row: max(1.0, self._depth.get(row, 1) * LANE) for row in self._rows}
        self._height, top = {}, sum(self._size.values()) + 0.5
        for row in self._rows:
            self._height[row] = top - self._size[row] / 2
            top -= self._size[row]
        self._figure, self._axes = plt.subplots(figsize=(13, 0.5 * sum(self._size.values()) + 1.5))
        self._marks: dict[str, Artist] = {}

    def _at(self, times: Iterable[int]) -> list[float]:
        return [(time - self._first) / self._scale for time in times]

    def bars(self, events: Sequence[tuple[Event, int]]) -> None:
        """Draws the work that executed on each GPU and CPU; work at the same time is drawn in lanes of the row."""
        found: dict[tuple[tuple[int, int], int, str], list[tuple[float, float]]] = {}
        for event, lane in events:
            if length := _length(event):
                where = place(event)
                update = event.kind in (Kind.UPDATE, Kind.COMMIT)
                colour = UPDATE_COLOUR if update else self._colours.get(event.task, "grey")
                found.setdefault((where, lane, colour), []).append((self._at([event.time])[0], length / self._scale))
        for (where, lane, colour), spans in found.items():
            whole = self._size[where] - 0.24
            height = whole / self._depth[where]
            bottom = self._height[where] + whole / 2 - height * (lane + 1)
            self._axes.broken_barh(spans, (bottom, height), facecolor=colour, linewidth=0)

    def jobs(self, jobs: Mapping[str, Sequence[JobTimes]]) -> None:
        """The jobs of each task from release to completion, with their deadlines."""
        for task, all_of_task in jobs.items():
            some = [job for job in all_of_task if job.release <= self._high and job.last(self._high) >= self._low]
            row, size = self._height[task], _part(len(some))
            for style, part in (("solid", [j for j in some if j.finish is not None]),
                                ("dotted", [j for j in some if j.finish is None])):  # fmt: skip
                ends = [self._high if job.finish is None else job.finish for job in part]
                self._axes.hlines([row] * len(part), self._at([job.release for job in part]), self._at(ends),
                                  color=self._colours[task], linewidth=1.8, linestyle=style)  # fmt: skip
            self._scatter([j.release for j in some], row - 0.2, "release", marker="^", s=30 * size)
            self._scatter([j.due for j in some if j.due is not None], row + 0.2, "deadline", marker="v", s=30 * size,
                          facecolors="none")  # fmt: skip
            for late, colour, word in ((False, "black", "completion"), (True, LATE_COLOUR, "completion, late")):
                times = [j.finish for j in some if j.finish is not None and j.late == late]
                self._scatter(times, row, word, marker="|", s=110 * size, color=colour, linewidths=1.8 * size)
            if any(job.finish is None for job in some):
                self._scatter([self._high], row, "unfinished", marker=">", s=45, color=GONE_COLOUR, clip_on=False)

    def segments(self, segments: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """The GPU segments of tasks without jobs in the trace."""
        jobs = self._trace.responses().keys() | self._trace.unfinished().keys()
        for task, whole in segments.items():
            some = [span for span in whole if span[0] <= self._high and span[1] >= self._low]
            if task and some and task not in jobs:
                spans = [(self._at([start])[0], (end - start) / self._scale) for start, end in some]
                self._axes.broken_barh(spans, (self._height[task] - 0.09, 0.18), facecolor=self._colours[task])
                self._marks.setdefault("GPU segment", Patch(color=GONE_COLOUR))

    def preemptions(self, events: Iterable[Event]) -> None:
        """When each task lost its GPU."""
        times: dict[str, list[int]] = {}
        for event in events:
            if event.kind is Kind.PREEMPT and event.task:
                times.setdefault(event.task, []).append(event.time)
        for task, some in times.items():
            size = _part(len(some))
            self._scatter(some, self._height[task], "preempted", marker="x", s=26 * size, color="black")

    def _scatter(self, times: Sequence[int], row: float, word: str, **style: Any) -> None:
        shown = [time for time in times if self._low <= time <= self._high]
        style = {"color": "black", "linewidths": 0.8, "zorder": 3, **style}
        if "facecolors" in style:
            style["edgecolors"] = style.pop("color")
        if shown:
            drawn = self._axes.scatter(self._at(shown), [row] * len(shown), **style)
            self._marks.setdefault(word, drawn)

    def finish(self) -> Figure:
        """Axes, title and legend; returns the figure."""
        axes, trace = self._axes, self._trace
        labels = [self._name(row) for row in self._rows]
        axes.set_yticks([self._height[row] for row in self._rows], labels)
        axes.set_ylim(0.4, sum(self._size.values()) + 0.6)
        low, high = self._at((self._low, self._high))
        axes.set_xlim(low - (high - low) * 0.006, high + (high - low) * 0.006)
        axes.set_xlabel(self._unit)
        axes.ticklabel_format(axis="x", useOffset=False, style="plain")
        axes.grid(axis="x", alpha=0.25)
        axes.set_axisbelow(True)
        known = [f"{key}: {trace.meta[key]}" for key in ("source", "taskset", "policy", "waiting") if key in trace.meta]
        lost = [event.detail or "events lost" for event in trace.events if event.kind is Kind.LOST]
        axes.set_title(_shown(", ".join([*known, *lost[:1]])), fontsize=10, loc="left")
        axes.legend(handles=self._legend(), loc="upper left", bbox_to_anchor=(1.005, 1), fontsize=8, frameon=False)
        return self._figure

    def _name(self, row: _Row) -> str:
        if isinstance(row, str):
            return _label(row, self._trace.tasks.get(row))
        group, number = row
        return f"{GROUPS[group]} {number}"

    def _legend(self) -> list[Artist]:
        tasks = [Patch(color=self._colours[task], label=_shown(task)) for task in self._trace.names()]
        update = Patch(color=UPDATE_COLOUR, label="runlist update")
        marks = []
        for word, drawn in self._marks.items():
            drawn.set_label(word)
            marks.append(drawn)
        return [*tasks, update, Line2D([], [], color="none", label=""), *marks]
