# SPDX-License-Identifier: GPL-2.0
"""Pictures of traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from analysis.trace import Event, Kind, Trace
from gpurt.errors import UsageError
from gpurt.files import unwritable

MS = 1e6
DEFAULT_WINDOW = 300_000_000
UPDATE_COLOUR = "#222222"


def _colours(trace: Trace) -> dict[str, Any]:
    palette = [*mpl.color_sequences["tab10"], *mpl.color_sequences["Set2"]]
    tasks = sorted({event.task for event in trace.events if event.task})
    return {task: palette[index % len(palette)] for index, task in enumerate(tasks)}


def _save(figure: Any, output: Path) -> None:
    try:
        figure.savefig(output, dpi=130, bbox_inches="tight")
    except ValueError as error:
        raise UsageError(f"{output}: {error}") from None
    except OSError as error:
        raise unwritable(output, error) from None
    finally:
        plt.close(figure)


def gantt(trace: Trace, output: Path, start: int | None = None, end: int | None = None) -> None:
    """Draws a lane for each GPU and CPU, then releases and completions.  Raises UsageError for an empty window."""
    times = [event.time for event in trace.events]
    if not times:
        raise UsageError("the trace has no events")
    first = min(times)
    low = first + (start or 0)
    high = first + end if end is not None else low + DEFAULT_WINDOW
    inside = [event for event in trace.events if event.time < high and event.time + (event.duration or 0) > low]
    if low >= high or not inside:
        raise UsageError(f"nothing happens in the window; the trace lasts {(max(times) - first) / MS:.1f} ms")
    colours = _colours(trace)
    lanes = _lanes(inside)
    tasks = sorted({event.task for event in inside if event.task})
    rows = [*lanes, *(("task", task) for task in tasks)]
    figure, axes = plt.subplots(figsize=(13, 0.55 * len(rows) + 1.6))
    height = {row: len(rows) - index for index, row in enumerate(rows)}
    for event in inside:
        _draw(axes, event, height, colours, first)
    labels = [str(name) if kind == "task" else f"{kind} {name}" for kind, name in rows]
    axes.set_yticks([height[row] for row in rows], labels)
    axes.set_ylim(0.4, len(rows) + 0.6)
    axes.set_xlim((low - first) / MS, (min(high, max(times)) - first) / MS)
    axes.set_xlabel("ms")
    axes.grid(axis="x", alpha=0.25)
    title = ", ".join(trace.meta[key] for key in ("source", "policy", "waiting") if key in trace.meta)
    axes.set_title(title, fontsize=10, loc="left")
    handles = [Patch(color=colours[task], label=task) for task in tasks]
    handles.append(Patch(color=UPDATE_COLOUR, label="runlist update"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False)
    _save(figure, output)


def _lanes(events: list[Event]) -> list[tuple[str, Any]]:
    gpus = sorted({event.gpu for event in events if event.kind is Kind.GPU and event.gpu is not None})
    cpus = sorted({event.cpu for event in events if event.kind in (Kind.CPU, Kind.UPDATE) and event.cpu is not None})
    return [*(("GPU", gpu) for gpu in gpus), *(("CPU", cpu) for cpu in cpus)]


def _draw(axes: Any, event: Event, height: dict[tuple[str, Any], int], colours: dict[str, Any], first: int) -> None:
    at = (event.time - first) / MS
    if event.kind in (Kind.CPU, Kind.GPU, Kind.UPDATE, Kind.COMMIT) and event.duration:
        on_gpu = event.kind in (Kind.GPU, Kind.COMMIT)
        row = height.get(("GPU", event.gpu) if on_gpu else ("CPU", event.cpu))
        if row is None:
            return
        update = event.kind in (Kind.UPDATE, Kind.COMMIT)
        colour = UPDATE_COLOUR if update else colours.get(event.task, "grey")
        axes.broken_barh([(at, event.duration / MS)], (row - 0.36, 0.72), facecolor=colour, linewidth=0)
        return
    row = height.get(("task", event.task))
    if row is None:
        return
    marks = {Kind.RELEASE: ("^", 26), Kind.COMPLETE: ("|", 90), Kind.PREEMPT: ("x", 18)}
    if event.kind in marks:
        marker, size = marks[event.kind]
        axes.scatter([at], [row], marker=marker, s=size, color=colours[event.task], zorder=3)
    if event.kind is Kind.COMPLETE and event.duration is not None:
        axes.plot([at - event.duration / MS, at], [row, row], color=colours[event.task], linewidth=1, alpha=0.6)


def responses(trace: Trace, output: Path) -> None:
    """Draws the distribution of response times, a curve for each task.  Raises UsageError if no job finished."""
    jobs = trace.responses()
    if not jobs:
        raise UsageError("the trace has no finished job")
    colours = _colours(trace)
    figure, axes = plt.subplots(figsize=(9, 5))
    for task, finished in sorted(jobs.items()):
        times = sorted(job.response / MS for job in finished)
        share = [(index + 1) / len(times) for index in range(len(times))]
        axes.step(times, share, where="post", color=colours[task], label=f"{task}: worst {times[-1]:.2f} ms")
        axes.scatter(times[-1:], share[-1:], color=colours[task], s=20, zorder=3)
    axes.set_xlabel("response time, ms")
    axes.set_ylabel("share of jobs")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    _save(figure, output)
