# SPDX-License-Identifier: GPL-2.0
"""The part of `gpurt partition` for tasks that own units of the GPU and share its bus: --federated.

The command parses options and calls ``federated``; it says which units there are and how an allocation is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpurt.errors import UsageError
from pycontrol.commands import render
from pycontrol.commands.render import bound, ms, room

OBJECTIVES = ("least", "slack")
#: Writes an allocation, units by task, into a taskset file.
Writer = Callable[[Path, Mapping[str, int]], None]


def federated(
    file: Path, name: str, total: int | None, objective: str, frontier: bool, writer: Writer | None, as_json: bool,
    step: int = 1, least: int = 1,
) -> int:  # fmt: skip
    """Gives each task units of its own; ``total``: of them, the file's unless given.  Returns the exit code.

    ``name``: the test.  ``objective``: few units, or much slack.  ``frontier``: also what more units of each task are
    worth.  ``writer``: writes the allocation where one is found.  Raises UsageError for a test or objective that is
    none of these, and TasksetError or FileError for the file.
    """
    from analysis import rta, taskset
    from analysis.rta.registry import UNITS
    from analysis.rtgpu import allocate, compiled
    from analysis.rtgpu.analyse import System, Units, on_units
    from analysis.rtgpu.method import METHODS

    if name not in UNITS:
        raise UsageError(f"--test: {name!r} is not about tasks that own units; there are {', '.join(UNITS)}")
    if objective not in OBJECTIVES:
        raise UsageError(f"--objective: expected {' or '.join(OBJECTIVES)}, got {objective!r}")
    loaded = taskset.load(file).taskset
    test, system = rta.find(name), System(METHODS[name], loaded)
    units = Units(loaded.platform.compute_units if total is None else total, step, least)
    result = compiled.run(system, units)
    if result.schedulable and objective == "slack":
        best = allocate.most_slack(system, units)
        assert best is not None
        result = on_units(system, allocate.named(system, best))
    rows = allocate.frontier(system, units) if frontier and result.schedulable else {}
    proved = result.schedulable and test.sound and bool(loaded.real_time)
    if writer is not None and proved and result.units:
        writer(file, result.units)
    data = {
        "file": file, "test": name, "sound": test.sound, "schedulable": proved,
        "why": None if proved else _why(test, result, loaded), "units": result.units, "objective": objective,
        "tasks": {task.name: _task(result.verdicts[task.name]) for task in loaded},
        "frontier": [{"task": task, "units": count, "wcrt_ns": wcrt}
                     for task, found in rows.items() for count, wcrt in found],
    }  # fmt: skip
    render.emit(data, as_json, _text(data, result, units.total, rows))
    return 0 if proved else 1


def _why(test: Any, result: Any, loaded: Any) -> str:
    from analysis.verdict import no_proof

    return str(result.failures[0]) if result.failures else no_proof(test, loaded)


def _task(verdict: Any) -> dict[str, Any]:
    from analysis.rta import Bound

    found = isinstance(verdict, Bound)
    return {
        "wcrt_ns": verdict.wcrt if found else None, "deadline_ns": getattr(verdict, "deadline", None),
        "slack_ns": verdict.slack if found else None,
    }  # fmt: skip


def _text(data: Mapping[str, Any], result: Any, total: int, rows: Mapping[str, Any]) -> str:
    """A line for each task, and what the allocation is worth."""
    given = result.units or {}
    shown = [
        (name, str(given.get(name, "-")), str(2 * given[name]) if name in given else "-", bound(task["wcrt_ns"])
         if task["wcrt_ns"] is not None else "-", ms(task["deadline_ns"]), room(task["slack_ns"]))
        for name, task in data["tasks"].items()
    ]  # fmt: skip
    lines = [render.table(("task", "units", "virtual SMs", "WCRT ms", "deadline ms", "slack ms"), shown)]
    if data["schedulable"]:
        lines.append(f"{sum(given.values())} of {total} units suffice under {data['test']}")
    else:
        lines.append(f"NOT SCHEDULABLE under {data['test']}: {data['why']}")
    if rows:
        table = [(name, str(count), "-" if wcrt is None else bound(wcrt)) for name, found in rows.items()
                 for count, wcrt in found]  # fmt: skip
        lines += ["", render.table(("task", "units", "WCRT ms"), table)]
    return "\n".join(lines)
