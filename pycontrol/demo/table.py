# SPDX-License-Identifier: GPL-2.0
"""The demonstration's results as a table for people."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pycontrol.demo.results import Results, SetupResult, TaskInfo, TaskResult

ROWS = ("observed", "simulated", "bound", "jobs, missed")
LEGEND = (
    "Times in ms; due: deadline; prio: SCHED_FIFO priority. observed: longest response time seen on this machine "
    "(MORT); "
    "simulated: the same in virtual time; bound: worst-case response time by analysis, - where there is none."
)


def milliseconds(time: int | None) -> str:
    """A time for a table cell: four digits, so that five columns with marks fit into 80 characters."""
    if time is None:
        return "-"
    value = time / 1e6
    return f"{value:.{2 if value < 99.995 else 1 if value < 999.95 else 0}f}"


def _observed(result: TaskResult, task: TaskInfo) -> Text:
    text = milliseconds(result.observed)
    if result.above_bound:
        return Text(f">{text}", style="bold yellow")
    if not task.best_effort and result.observed is not None and result.observed > task.deadline:
        return Text(text, style="yellow")
    return Text(text)


def _simulated(result: TaskResult, task: TaskInfo) -> Text:
    text = milliseconds(result.simulated)
    if result.unsound:
        return Text(f">>{text}", style="bold red")
    late = not task.best_effort and result.simulated is not None and result.simulated > task.deadline
    return Text(text, style="yellow" if late else "")


def _bound(result: TaskResult) -> Text:
    if result.bound is None and result.why_no_bound:
        return Text(result.why_no_bound, style="dim")
    return Text(milliseconds(result.bound), style="cyan" if result.bound is not None else "dim")


def _cells(result: TaskResult, task: TaskInfo) -> tuple[Text, ...]:
    if task.best_effort:
        return _observed(result, task), _simulated(result, task), Text(f"{result.throughput:.1f}/s")
    missed = Text(f"{result.jobs}, {result.misses}", style="yellow" if result.misses else "")
    return _observed(result, task), _simulated(result, task), _bound(result), missed


def _label(task: TaskInfo) -> Text:
    """The first cell of a task: its name, its parameters, and the names of its rows."""
    rows = ("observed", "simulated", "jobs done") if task.best_effort else ROWS
    rest = "best effort" if task.best_effort else f"due {task.deadline / 1e6:g}, prio {task.priority}"
    return Text.assemble((task.name, "bold"), (f"\n{rest}, CPU {task.cpu}", "dim"), *(f"\n  {row}" for row in rows))


def _column(one: SetupResult, task: TaskInfo) -> Text:
    return Text("\n").join((Text(), Text(), *_cells(one.tasks[task.name], task)))


def table(results: Results) -> RenderableType:
    """The table with a row for each task and a column for each set-up, and the meaning of the marks."""
    title = f"{results.taskset}: response times under each policy"
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    grid.add_column("task", no_wrap=True)
    for one in results.setups:
        grid.add_column(one.setup.title, justify="right", no_wrap=True)
    for task in results.tasks:
        grid.add_row(_label(task), *(_column(one, task) for one in results.setups), end_section=True)
    notes = [Text(LEGEND, style="dim")]
    shown = [result for one in results.setups for result in one.tasks.values()]
    if any(result.above_bound for result in shown):
        notes.append(Text("> above its bound on this machine, which is not the system that was analysed"))
    if any(result.unsound for result in shown):
        notes.append(Text(">> above its bound in virtual time: the bound or the simulator is wrong", style="red"))
    return Group(grid, *notes)
