# SPDX-License-Identifier: GPL-2.0
"""The demonstration's results as tables for people: first what bounds speak of, then what this machine saw."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pycontrol.act.demo.results import Results, TaskInfo, TaskResult

VIRTUAL_LEGEND = (
    "Times in ms. bound: worst-case response time (WCRT) by analysis; virtual: longest response time (MORT) of "
    "simulated runs of the file's system; due: deadline."
)
MACHINE_LEGEND = (
    "Times in ms. longest: longest response time (MORT) of tasks that ran as processes; missed: jobs that missed their "
    "deadline, of all; prio: SCHED_FIFO priority."
)

#: The lines of a task in one column.
Cells = Callable[[TaskResult, TaskInfo], tuple[Text, Text]]


def milliseconds(time: int | None) -> str:
    """A time for a table cell: four digits, so that six columns with marks fit into 80 characters."""
    if time is None:
        return "-"
    value = time / 1e6
    return f"{value:.{2 if value < 99.995 else 1 if value < 999.95 else 0}f}"


def _late(time: int | None, task: TaskInfo) -> str:
    """The style of a time."""
    return "yellow" if not task.best_effort and time is not None and time > task.deadline else ""


def _virtual(result: TaskResult, task: TaskInfo) -> tuple[Text, Text]:
    mark, style = (">>", "bold red") if result.unsound else ("", _late(result.simulated, task))
    virtual = Text(mark + milliseconds(result.simulated), style=style)
    if task.best_effort:
        return Text("-", style="dim"), virtual
    if result.bound is None and result.why_no_bound:
        return Text(result.why_no_bound, style="dim"), virtual
    return Text(milliseconds(result.bound), style="cyan"), virtual


def _machine(comparable: bool) -> Cells:
    def cells(result: TaskResult, task: TaskInfo) -> tuple[Text, Text]:
        above = comparable and result.above_bound
        mark, style = (">", "bold yellow") if above else ("", _late(result.observed, task))
        longest = Text(mark + milliseconds(result.observed), style=style)
        if result.throughput is None:
            return longest, Text("-")
        if task.best_effort:
            return longest, Text(f"{result.throughput:.1f}/s")
        return longest, Text(f"{result.misses}/{result.jobs}", style="yellow" if result.misses else "")

    return cells


def _grid(
    results: Results, title: str, words: tuple[str, str, str], label: Callable[[TaskInfo], str], cells: Cells
) -> Table:
    """A table with two lines for each task; ``words`` name the lines, the last one the second line of best effort."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    grid.add_column("task", no_wrap=True)
    grid.add_column("", no_wrap=True)
    for one in results.setups:
        grid.add_column(one.setup.title, justify="right", no_wrap=True)
    for task in results.tasks:
        names = (words[0], words[2] if task.best_effort else words[1])
        columns = (Text("\n").join(cells(one.tasks[task.name], task)) for one in results.setups)
        name = Text.assemble((task.name, "bold"), ("\n" + label(task), "dim"))
        grid.add_row(name, Text("\n".join(names), style="dim"), *columns, end_section=True)
    return grid


def virtual_time(results: Results) -> RenderableType:
    """Bounds, and the longest response times in virtual time, which they hold for."""
    grid = _grid(
        results, f"{results.taskset} in virtual time, under each policy", ("bound", "virtual", "virtual"),
        lambda task: "best effort" if task.best_effort else f"due {task.deadline / 1e6:g}", _virtual,
    )  # fmt: skip
    notes = [Text(VIRTUAL_LEGEND, style="dim")]
    if results.unsound:
        notes.append(Text(">> above its bound: the bound or the simulator is wrong", style="red"))
    return Group(grid, *notes)


def this_machine(results: Results) -> RenderableType:
    """The tasks' results here, with the bounds only where this machine is as the file says."""
    title = f"{results.taskset} on this machine"
    grid = _grid(
        results, title if results.comparable else f"{title}, which is not the file's: no bound speaks of it",
        ("longest", "missed", "jobs"),
        lambda task: f"CPU {task.cpu}" if task.best_effort else f"CPU {task.cpu}, prio {task.priority}",
        _machine(results.comparable),
    )  # fmt: skip
    notes = [Text(MACHINE_LEGEND, style="dim")]
    if results.comparable and any(result.above_bound for one in results.setups for result in one.tasks.values()):
        notes.append(Text("> above its bound: the emulator and this kernel are not the system that was analysed"))
    return Group(grid, *notes)
