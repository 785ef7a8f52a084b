# SPDX-License-Identifier: GPL-2.0
"""The demonstration's picture: a small panel for each task, in it a bar for each set-up, with bounds and deadlines.

Bars show virtual time, as bounds do; circles are observations on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gpurt.files import written
from pycontrol.act.demo.results import Results, TaskInfo, TaskResult

#: Colours of Okabe and Ito, which people with any colour vision can tell apart: best bar, other bars, a late bar.
BEST, OTHER, LATE = "#0072b2", "#b8c4cc", "#e69f00"
#: Keywords of matplotlib.
Style: TypeAlias = dict[str, Any]
#: Styles of the marks, in panels and in the legend.
BOUND: Style = {"color": "#111111", "lw": 2.4}
DEADLINE: Style = {"color": "#d55e00", "lw": 1.4, "ls": (0, (4, 2))}
RATE: Style = {"color": "#666666", "lw": 1.2, "ls": ":"}
SEEN: Style = {"color": "#111111", "ls": "none", "ms": 4.5, "mfc": "white", "mew": 0.9}
HERE, BEYOND = "o", ">"
#: Panels in a row; the part of a panel up to the deadline, or up to the longest bar below LONGEST deadlines.
COLUMNS, FILLED, LONGEST = 4, 0.7, 1.3
HEIGHT = 0.72
TITLE = "Which policy keeps each task's deadline, in simulation and with proof"
HOW = (
    "A bar is the longest response time in simulated runs, and the first number beside it. No bar crosses its black "
    "line, the proved bound, which is the number after \u2264; ? where none is known."
)


def _best(values: Sequence[float | None], least: bool) -> set[int]:
    """The indexes of the best known values: the smallest, or the largest."""
    known = [value for value in values if value is not None]
    if not known:
        return set()
    wanted = min(known) if least else max(known)
    return {place for place, value in enumerate(values) if value == wanted}


def _names(axes: Axes, results: Results, first: bool) -> None:
    """The set-ups, from the top down, only beside the first panel of a row."""
    labels = [one.setup.title for one in results.setups]
    axes.set_yticks(range(len(labels)), labels if first else [""] * len(labels))
    axes.set_ylim(len(labels) - 0.5, -0.5)


def _number(axes: Axes, place: int, at: float, text: str) -> None:
    axes.annotate(text, (at, place), (5, 0), textcoords="offset points", va="center", fontsize=7.5, zorder=5)


def _told(one: TaskResult) -> str:
    """The longest simulated response time and the bound, in ms; a bound is rounded up."""
    if not one.simulated:
        return "no job"
    bound = f"\u2264 {ceil(one.bound / 1e5) / 10:g}" if one.bound else "\u2264 ?"
    return f"{one.simulated / 1e6:.3g} {bound}"


def _urgent(axes: Axes, task: TaskInfo, results: Results) -> None:
    """Response times of a real-time task, ms."""
    found: list[TaskResult] = [one.tasks[task.name] for one in results.setups]
    deadline = task.deadline / 1e6
    marks = [mark / 1e6 for one in found for mark in (one.simulated, one.bound) if mark]
    limit = max([deadline, *(mark for mark in marks if mark <= LONGEST * deadline)]) / FILLED
    best = _best([one.bound for one in found], least=True)
    for place, one in enumerate(found):
        seen = (one.simulated or 0) / 1e6
        colour = LATE if seen > deadline else BEST if place in best else OTHER
        axes.barh(place, min(seen, limit), HEIGHT, color=colour, zorder=2)
        ends = [seen]
        if one.bound:
            ends.append(one.bound / 1e6)
            axes.plot([ends[-1]] * 2, [place - 0.45, place + 0.45], **BOUND, zorder=3)
        if one.observed:
            here = one.observed / 1e6
            mark = HERE if here < limit else BEYOND
            axes.plot(min(here, limit * 0.99), place, marker=mark, **SEEN, zorder=4)
            ends += [here] * (here < limit)
        _number(axes, place, min(max(ends), limit * 0.72), _told(one))
    axes.axvline(deadline, **DEADLINE, zorder=1)
    axes.set_xlim(0, limit)
    axes.set_title(f"{task.name}\nCPU {task.cpu}, priority {task.priority}", fontsize=9, loc="left")
    axes.set_xlabel("longest response time (ms)", fontsize=8)


def _best_effort(axes: Axes, task: TaskInfo, results: Results) -> None:
    """Jobs a second of a best-effort task on this machine."""
    rates = [one.tasks[task.name].throughput for one in results.setups]
    best = _best([None if rate is None else round(rate, 2) for rate in rates], least=False)
    for place, rate in enumerate(rates):
        axes.barh(place, rate or 0, HEIGHT, color=BEST if place in best else OTHER, zorder=2)
        _number(axes, place, rate or 0, "not run" if rate is None else f"{rate:.3g}")
    released = 1e9 / task.period
    axes.axvline(released, **RATE, zorder=3)
    axes.set_xlim(0, max([released, *(rate or 0 for rate in rates)]) / FILLED)
    axes.set_title(f"{task.name}\nCPU {task.cpu}, best effort", fontsize=9, loc="left")
    axes.set_xlabel("jobs finished per second, on this machine", fontsize=8)


def _legend(axes: Axes, results: Results) -> None:
    """The legend, in a cell of its own."""
    here = "longest response time on this machine" + ("" if results.comparable else ",\nwhich is not the file's")
    marks = [
        Line2D([], [], **BOUND, label="proved bound (WCRT)"),
        Line2D([], [], **DEADLINE, label="deadline"),
        Patch(color=BEST, label="shortest bound for this task, or most jobs"),
        Patch(color=OTHER, label="other policies"),
        Patch(color=LATE, label="misses its deadline in simulation"),
        Line2D([], [], marker=HERE, **SEEN, label=here),
        Line2D([], [], marker=BEYOND, **SEEN, label="the same, longer than the panel is wide"),
        Line2D([], [], **RATE, label="rate of release"),
    ]
    axes.legend(handles=marks, loc="center left", frameon=False, fontsize=8, borderaxespad=0)


def _figure(results: Results, footer: str) -> Any:
    tasks = sorted(results.tasks, key=lambda task: task.best_effort)
    rows = len(tasks) // COLUMNS + 1
    height = 1.1 + rows * (1.1 + 0.26 * len(results.setups))
    figure = Figure(figsize=(12.5, height), layout="constrained")
    FigureCanvasAgg(figure)
    title = f"{TITLE}: {results.taskset}, on gpurt's virtual GPU"
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    figure.supxlabel(f"{HOW}\n{footer}", fontsize=8.5, color="#444444", x=0.01, ha="left")
    cells = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for place, (axes, task) in enumerate(zip(cells, tasks, strict=False)):
        (_best_effort if task.best_effort else _urgent)(axes, task, results)
        _names(axes, results, place % COLUMNS == 0)
        axes.grid(axis="x", color="#e4e4e4", lw=0.7, zorder=0)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=7.5)
    for axes in cells[len(tasks) :]:
        axes.set_axis_off()
    _legend(cells[len(tasks)], results)
    return figure


def save_plot(results: Results, base: Path, footer: str) -> list[Path]:
    """Writes the picture as BASE.png and BASE.svg and returns their paths.

    Args:
        results: the results to draw.
        base: path without suffix.
        footer: a line about the circumstances, below the picture.

    Raises:
        FileError: a file cannot be written.
    """
    paths = [base.with_suffix(suffix) for suffix in (".png", ".svg")]
    with rc_context({"svg.hashsalt": "gpurt", "font.size": 9.5}):
        figure = _figure(results, footer)
        figure.draw_without_rendering()
        figure.set_layout_engine(None)  # fix the layout, which is otherwise computed for each file
        for path in paths:
            with written(path) as file:
                figure.savefig(file, dpi=150, format=path.suffix[1:])
    return paths
