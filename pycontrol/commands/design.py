# SPDX-License-Identifier: GPL-2.0
"""Commands that help to design a taskset: assign, choose, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from gpurt.errors import UsageError
from gpurt.files import is_stream
from gpurt.text import filename
from pycontrol.commands import render
from pycontrol.commands.options import FILE, JSON, tests
from pycontrol.commands.render import ms

NO_WAY = "no way is known to run this taskset in time; gpurt analyze says which task fails and why"


def _test(taskset: Any, name: str | None) -> tuple[Any, str]:
    """The test of that name; without one, the test that the verdict on the taskset rests on, or why there is none."""
    from analysis.verdict import answer

    if name:
        return tests((name,))[0], ""
    found = answer(taskset)
    return found.test, "" if found.test else found.why


def _loaded(file: Path, write: bool) -> Any:
    """The taskset file; refuses to write one back that is no file."""
    from analysis import taskset

    loaded = taskset.load(file)
    if write and is_stream(file):
        raise UsageError(f"--write needs a file, and {filename(file)} is none")
    return loaded


@click.command(
    epilog="""\b
Examples:
  gpurt assign set.toml
  gpurt assign set.toml --test gcaps-busy --write

\b
Exit codes: 0 the taskset is schedulable, with the priorities printed if any; 1 no assignment makes it so;
2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--test", "name", metavar="NAME", help="The test to pass; one for the file's policy and waiting modes.")
@click.option("--write", is_flag=True, help="Write the priorities into the file and change nothing else in it.")
@JSON
def assign(file: Path, name: str | None, write: bool, as_json: bool) -> int:
    """Find GPU priorities by Audsley's method where the file's own fail the test."""
    from analysis.taskset.write import write_values

    loaded = _loaded(file, write)
    test, why = _test(loaded.taskset, name.removesuffix("+gpu-priority") if name else None)
    if why:
        render.emit(_assigned(file, None, why=why), as_json, f"not schedulable: {why}")
        return 1
    if not test.assignable:
        raise UsageError(f"{test.name} assigns no GPU priorities; use --test with another, such as gcaps-suspend")
    if test.run(loaded.taskset).schedulable:
        text = f"schedulable under {test.name} as it is; nothing to assign"
        render.emit(_assigned(file, test), as_json, text)
        return 0
    try:
        assignment = test.assign(loaded.taskset)
    except ValueError as error:
        raise UsageError(f"{filename(file)}: {error}") from None
    if assignment.priorities is None:
        render.emit(_assigned(file, test, why=str(assignment)), as_json, f"not schedulable: {assignment}")
        return 1
    if write:
        write_values(file, {"gpu_priority": assignment.priorities})
    rows = [(task.name, str(task.priority), str(assignment.priorities[task.name]))
            for task in loaded.taskset if task.name in assignment.priorities]  # fmt: skip
    text = render.table(("task", "priority", "GPU priority"), rows) + (f"\nwritten to {file}" if write else "")
    tasks = {task.name: {"priority": task.priority, "gpu_priority": assignment.priorities[task.name]}
             for task in loaded.taskset if task.name in assignment.priorities}  # fmt: skip
    render.emit(_assigned(file, test, tasks, [file] if write else []), as_json, text)
    return 0


def _assigned(
    file: Path, test: Any, tasks: Mapping[str, Any] = MappingProxyType({}), files: Sequence[Path] = (), why: str = ""
) -> dict[str, Any]:
    """The JSON document: ``tasks`` are those whose GPU priority is to change, ``files`` those that were written."""
    return {
        "file": file, "test": test.name if test else None, "schedulable": not why, "why": why or None, "tasks": tasks,
        "files": files,
    }  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  gpurt choose set.toml
  gpurt choose set.toml --write

\b
Exit codes: 0 there is a way to run the taskset in time; 1 none is known; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--write", is_flag=True, help="Write policy, waiting modes and GPU priorities of the best into the file.")
@JSON
def choose(file: Path, write: bool, as_json: bool) -> int:
    """Find the policy and each task's waiting mode that leave the most slack.

    Slack is the smallest (D - WCRT) / D of all tasks.
    """
    from analysis.choose import choices
    from analysis.taskset.write import write_values

    loaded = _loaded(file, write).taskset
    if not loaded.real_time:
        why = "there is no real-time task, so there is nothing to choose"
        render.emit({"file": file, "schedulable": False, "why": why, "ways": [], "files": []}, as_json, why)
        return 1
    found = choices(loaded)
    best = found[0]
    if write and best.schedulable:
        modes = {name: mode.value for name, mode in best.modes.items()}
        write_values(file, {"waiting": modes, "gpu_priority": dict(best.priorities)}, best.policy)
    rows = [(one.policy, one.test, _percent(one.slack), _modes(one)) for one in found]
    text = render.table(("policy", "test", "slack", "waiting"), rows)
    if not best.schedulable:
        text += f"\n{NO_WAY}"
    elif write:
        text += f"\nwritten to {file}; give it to a running host with: gpurt policy {best.policy}"
    data = {
        "file": file, "schedulable": best.schedulable, "why": None if best.schedulable else NO_WAY,
        "ways": [_data(one) for one in found], "files": [file] if write and best.schedulable else [],
    }  # fmt: skip
    render.emit(data, as_json, text)
    return 0 if best.schedulable else 1


def _percent(slack: Fraction | None) -> str:
    return "-" if slack is None else f"{float(100 * slack):.1f} %"


def _modes(choice: Any) -> str:
    modes = set(choice.modes.values())
    if len(modes) == 1:
        return f"all {modes.pop().value}"
    text = ", ".join(f"{name} {mode.value}" for name, mode in choice.modes.items())
    busy = sum(mode.value == "busy" for mode in choice.modes.values())
    return text if len(text) <= 60 else f"{busy} of {len(choice.modes)} busy"


def _data(choice: Any) -> dict[str, Any]:
    return {
        "policy": choice.policy, "test": choice.test, "schedulable": choice.schedulable,
        "slack": choice.slack,
        "tasks": {name: {"waiting": mode, "gpu_priority": choice.priorities.get(name)}
                  for name, mode in choice.modes.items()},
    }  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  gpurt sensitivity set.toml
  gpurt sensitivity set.toml --test gcaps-busy --clock orin=0.6 --clock xavier=1.4

\b
Exit codes: 0 the taskset is schedulable as it is; 1 it is not; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--test", "name", metavar="NAME", help="The test to pass; one for the file's policy and waiting modes.")
@click.option("--clock", "clocks", multiple=True, metavar="NAME=FACTOR",
              help="Hardware that multiplies every time except epsilon by a factor; may be repeated.")  # fmt: skip
@JSON
def sensitivity(file: Path, name: str | None, clocks: tuple[str, ...], as_json: bool) -> int:
    """Say how much each time may grow before a task misses its deadline, or must shrink until none does."""
    from analysis import taskset
    from analysis.sensitivity import epsilon_budgets, margins

    loaded = taskset.load(file).taskset
    test, why = _test(loaded, name)
    if why:
        nothing: dict[str, Any] = {"test": None, "sound": None, "margins": [], "hardware": []}
        render.emit({"file": file, "schedulable": False, "why": why, **nothing}, as_json, f"not schedulable: {why}")
        return 1
    hardware = {"this one": Fraction(1), **dict(map(_clock, clocks))}
    found, budgets = margins(test, loaded), epsilon_budgets(test, loaded, hardware)
    rows = [
        (one.what.value, one.task or "", ms(one.now) if one.now else "-", ms(one.most), _factor(one)) for one in found
    ]
    text = f"{test.name}\n" + render.table(("what", "task", "now ms", "at most ms", "factor"), rows)
    if not test.sound:
        text = f"UNSOUND, do not rely on it: {test.note}\n{text}"
    most = [(where, ms(budget)) for where, budget in budgets.items()]
    text += "\n\n" + render.table(("hardware", "epsilon at most ms"), most)
    result = test.run(loaded)
    data = {
        "file": file, "test": test.name, "sound": test.sound, "schedulable": result.schedulable,
        "why": None if result.schedulable else str(result.failures[0]),
        "margins": [{"what": one.what, "task": one.task, "now_ns": one.now or None, "most_ns": one.most,
                     "factor": one.factor} for one in found],
        "hardware": [{"name": name, "factor": factor, "most_epsilon_ns": budgets[name]}
                     for name, factor in hardware.items()],
    }  # fmt: skip
    render.emit(data, as_json, text)
    return 0 if result.schedulable else 1


def _factor(margin: Any) -> str:
    from analysis.sensitivity import UNLIMITED

    if margin.factor is None:
        return "fails at 0"
    return "any" if margin.factor == UNLIMITED else f"{float(margin.factor):.4f}"


def _clock(text: str) -> tuple[str, Fraction]:
    """A name and a factor such as "orin=0.6"."""
    name, _, factor = text.partition("=")
    try:
        value = Fraction(factor)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not name or not 0 < value <= 1000:
        raise UsageError(f"--clock: expected a name and a factor up to 1000, such as orin=0.6, got {text[:40]!r}")
    return name, value
