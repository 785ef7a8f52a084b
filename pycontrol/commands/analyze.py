# SPDX-License-Identifier: GPL-2.0
"""The command that answers whether every deadline holds: analyze."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gpurt.errors import UsageError
from pycontrol.commands import render
from pycontrol.commands.options import FILE, JSON, tests
from pycontrol.commands.render import ms


@click.command(
    epilog="""\b
Examples:
  gpurt analyze examples/case-study.toml
  gpurt analyze examples/case-study.toml --test gcaps-busy --explain dxtc
  gpurt analyze examples/case-study.toml --region 400us
  gpurt analyze robot.toml --measured               with the cost of updates on this machine
\b
Exit codes: 0 schedulable under at least one of the tests; 1 under none; 2 wrong usage; 3 the file is wrong;
4 no host, or one that has measured nothing."""
)
@FILE
@click.option("--test", "names", multiple=True, metavar="NAME", help="Test to run; repeatable. Default: all sound.")
@click.option("--explain", metavar="TASK", help="Show the parts of a task's bound, and the lemma of each part.")
@click.option("--region", metavar="TIME", help="The longest thread block or copy chunk, which every preemption of the "
              "GPU may have to wait for; none unless given.")  # fmt: skip
@click.option("--measured", is_flag=True, help="Use the longest runlist update that the host has measured as alpha.")
@JSON
@click.pass_obj
def analyze(
    device: str | None, file: Path, names: tuple[str, ...], explain: str | None, region: str | None, measured: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Bound every task's worst-case response time, and say whether every deadline holds."""
    from analysis import compiled, taskset

    loaded = taskset.load(file)
    chosen = tests(names)
    if explain is not None and explain not in {t.name for t in loaded.taskset}:
        raise UsageError(f"--explain: {file} has no task {explain!r}")
    system, notes = _with_region(loaded.taskset, region), list(loaded.notes)
    if measured:
        system, note = _with_measured(system, device)
        notes.append(note)
    data, passed = [], False
    if not as_json:
        for note in notes:
            click.echo(f"note: {note}", err=True)
    for test in chosen:
        result = compiled.run(test, system)
        passed = passed or result.schedulable
        if as_json:
            data.append(_result(test, result))
        else:  # print each result at once: some tests take minutes for a large taskset
            click.echo(_explained(test, result, explain) if explain else _tabulated(test, result))
            click.echo()
    if as_json:
        click.echo(json.dumps({"file": str(file), "notes": notes, "tests": data}, indent=2))
    return 0 if passed else 1


def _with_measured(system: Any, device: str | None) -> tuple[Any, str]:
    """The taskset with the alpha that the host has measured, and a line that says so."""
    from dataclasses import replace

    from gpurt.errors import DeviceError
    from pycontrol.live.control import connect

    with connect(device) as control:
        seen = control.latency()
        theta = max(status.theta_ns for status in control.status())
    if not seen:
        raise DeviceError("the host has carried out no runlist update yet: let the programs run first")
    longest, count = max(one.maximum for one in seen), sum(one.count for one in seen)
    theta = max(theta, system.platform.theta)
    changed = replace(system, platform=replace(system.platform, alpha=longest, theta=theta))
    text = f"alpha is {ms(longest)} ms, the longest of {count} runlist updates that the host has seen"
    return changed, f"{text}; theta is {ms(theta)} ms. What was seen is no proof: add a margin"


def _with_region(loaded: Any, region: str | None) -> Any:
    from analysis.rta.regions import with_region
    from gpurt.units import parse_time

    try:
        return with_region(loaded, parse_time(region)) if region else loaded
    except ValueError as error:
        raise UsageError(f"--region: {error}") from None


def _tabulated(test: Any, result: Any) -> str:
    from analysis.rta import Bound, Failure

    rows = []
    for name, verdict in result.verdicts.items():
        if isinstance(verdict, Bound):
            rows.append((name, ms(verdict.wcrt), ms(verdict.deadline), ms(verdict.slack), "yes"))
        elif isinstance(verdict, Failure):
            rows.append((name, "-", ms(verdict.deadline), "-", "NO"))
        else:
            rows.append((name, "-", "-", "-", "best effort"))
    lines = [
        f"{test.name} ({test.title}; {test.source}): " + ("schedulable" if result.schedulable else "NOT SCHEDULABLE")
    ]
    if not test.sound:
        lines.append(f"  UNSOUND, do not rely on it: {test.note}")
    lines.append(render.table(("task", "WCRT ms", "deadline ms", "slack ms", "in time"), rows))
    lines += [f"  {failure}" for failure in result.failures]
    return "\n".join(lines)


def _explained(test: Any, result: Any, task: str) -> str:
    from analysis.rta import Bound, Failure

    verdict = result.verdicts[task]
    if isinstance(verdict, Failure):
        return f"{test.name}: {verdict}"
    if not isinstance(verdict, Bound):
        return f"{test.name}: {task} is best effort: nothing is guaranteed to it"
    rows = [(term.kind.value, term.source or "", ms(term.amount), term.lemma) for term in verdict.terms]
    rows.append(("total", "", ms(verdict.wcrt), f"deadline {ms(verdict.deadline)}, slack {ms(verdict.slack)}"))
    warning = "" if test.sound else f"UNSOUND, do not rely on it: {test.note}\n"
    return f"{test.name}: {task}\n{warning}" + render.table(("part", "caused by", "ms", "from"), rows)


def _result(test: Any, result: Any) -> dict[str, Any]:
    from analysis.rta import Bound, Failure

    tasks = {}
    for name, verdict in result.verdicts.items():
        if isinstance(verdict, Bound):
            terms = [
                {"kind": t.kind.value, "source": t.source, "ns": t.amount, "lemma": t.lemma} for t in verdict.terms
            ]
            tasks[name] = {"wcrt_ns": verdict.wcrt, "deadline_ns": verdict.deadline, "slack_ns": verdict.slack,
                           "in_time": True, "terms": terms}  # fmt: skip
        elif isinstance(verdict, Failure):
            tasks[name] = {"wcrt_ns": None, "deadline_ns": verdict.deadline, "in_time": False,
                           "reason": verdict.reason.value, "why": str(verdict)}  # fmt: skip
        else:
            tasks[name] = {"best_effort": True}
    return {
        "test": test.name, "sound": test.sound, "note": test.note, "schedulable": result.schedulable, "tasks": tasks,
    }  # fmt: skip
