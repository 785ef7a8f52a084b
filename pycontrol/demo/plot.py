# SPDX-License-Identifier: GPL-2.0
"""The demonstration's picture: response times of every task under every set-up, beside bounds and deadlines.

Bars are virtual time, of which the bounds speak; dots are what this machine saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpurt.files import written
from pycontrol.demo.results import Results, SetupResult, TaskInfo

#: Okabe and Ito's palette: told apart with every kind of colour vision.
COLOURS = ("#999999", "#e69f00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7")
DEADLINE, BOUND = "#d55e00", "#111111"
#: Width of a task's group of bars; tasks are 1 apart.
GROUP = 0.82


def _positions(count: int, index: int, setups: int) -> list[float]:
    width = GROUP / setups
    return [task - GROUP / 2 + width * (index + 0.5) for task in range(count)]


def _bars(axes: Any, tasks: Sequence[TaskInfo], setups: Sequence[SetupResult]) -> None:
    """MORT in virtual time as bars, that of this machine as dots, bounds as ticks across the bars."""
    width = GROUP / len(setups)
    for index, one in enumerate(setups):
        places = _positions(len(tasks), index, len(setups))
        results = [one.tasks[task.name] for task in tasks]
        seen = [(result.simulated or 0) / 1e6 for result in results]
        label = one.setup.title.replace("\n", ", ")
        axes.bar(places, seen, width * 0.9, color=COLOURS[index % len(COLOURS)], label=label, zorder=2)
        for x, result in zip(places, results, strict=True):
            if result.observed:
                axes.plot(x, result.observed / 1e6, "o", ms=4.5, mfc="white", mec=BOUND, mew=1.0, zorder=4)
            if result.bound:
                y = result.bound / 1e6
                axes.plot([x - width * 0.45, x + width * 0.45], [y, y], color=BOUND, lw=2.4, zorder=3)


def _response_panel(axes: Any, tasks: Sequence[TaskInfo], results: Results) -> None:
    _bars(axes, tasks, results.setups)
    for index, task in enumerate(tasks):
        ends = [index - GROUP / 2 - 0.04, index + GROUP / 2 + 0.04]
        axes.plot(ends, [task.deadline / 1e6] * 2, color=DEADLINE, lw=1.6, ls=(0, (4, 2)), zorder=3)
    here = "MORT on this machine" + ("" if results.comparable else " (not the file's)")
    axes.plot([], [], color=BOUND, lw=2.4, label="WCRT bound")
    axes.plot([], [], "o", ms=4.5, mfc="white", mec=BOUND, mew=1.0, ls="none", label=here)
    axes.plot([], [], color=DEADLINE, lw=1.6, ls=(0, (4, 2)), label="deadline")
    axes.set_yscale("log")
    axes.set_ylabel("longest response time (ms); bars: in virtual time")
    labels = [f"{t.name}\nCPU {t.cpu}, priority {t.priority}" for t in tasks]
    axes.set_xticks(range(len(tasks)), labels)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if str(value)[0] in "25" else "")
    axes.tick_params(axis="y", which="minor", labelsize=8, labelcolor="#666666")
    low, high = axes.get_ylim()
    axes.set_ylim(low * 0.8, high * 1.15)


def _throughput_panel(axes: Any, tasks: Sequence[TaskInfo], results: Results) -> None:
    setups = results.setups
    for index, one in enumerate(setups):
        places = _positions(len(tasks), index, len(setups))
        rates = [one.tasks[task.name].throughput or 0.0 for task in tasks]
        axes.bar(places, rates, GROUP / len(setups) * 0.9, color=COLOURS[index % len(COLOURS)], zorder=2)
    for index, task in enumerate(tasks):
        ends = [index - GROUP / 2 - 0.04, index + GROUP / 2 + 0.04]
        axes.plot(ends, [1e9 / task.period] * 2, color="#666666", lw=1.2, ls=":", zorder=3)
    axes.plot([], [], color="#666666", lw=1.2, ls=":", label="rate of release")
    axes.legend(loc="upper left", framealpha=1, edgecolor="none", fontsize=8)
    axes.set_ylabel("jobs finished per second, on this machine")
    axes.set_xticks(range(len(tasks)), [f"{t.name}\nCPU {t.cpu}, best effort" for t in tasks])
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)


def _legend(axes: Any, setups: int) -> None:
    """Above the panel: the set-ups first, then what the marks mean."""
    handles, labels = axes.get_legend_handles_labels()
    bars = len(labels) - setups
    handles, labels = [*handles[bars:], *handles[:bars]], [*labels[bars:], *labels[:bars]]
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.01), ncol=4, frameon=False, borderaxespad=0)


def _figure(results: Results, footer: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    urgent = [task for task in results.tasks if not task.best_effort]
    other = [task for task in results.tasks if task.best_effort]
    panels = [part for part in (urgent, other) if part]
    figure = Figure(figsize=(max(9.0, 3 + 1.65 * len(results.tasks)), 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    if not panels:
        return figure
    ratios = {"width_ratios": [len(part) for part in panels]}
    grid = figure.subplots(1, len(panels), gridspec_kw=ratios, squeeze=False)[0]
    for axes, part in zip(grid, panels, strict=True):
        (_response_panel if part is urgent else _throughput_panel)(axes, part, results)
        axes.grid(axis="y", which="major", color="#dddddd", lw=0.8, zorder=0)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", length=0)
    if urgent:
        _legend(grid[0], len(results.setups))
    title = f"{results.taskset}: response times on gpurt's virtual GPU"
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    figure.supxlabel(footer, fontsize=8, color="#555555")
    return figure


def save(results: Results, base: Path, footer: str) -> list[Path]:
    """Writes the picture as BASE.png and BASE.svg and returns their paths.

    Args:
        results: what to draw.
        base: path without suffix.
        footer: a line on the circumstances, below the picture.

    Raises:
        FileError: a file cannot be written.
    """
    from matplotlib import rc_context

    paths = [base.with_suffix(suffix) for suffix in (".png", ".svg")]
    with rc_context({"svg.hashsalt": "gpurt", "font.size": 9.5}):
        figure = _figure(results, footer)
        for path in paths:
            with written(path) as file:
                figure.savefig(file, dpi=150, format=path.suffix[1:])
    return paths
