# SPDX-License-Identifier: GPL-2.0
"""The command that finds exact worst cases of a small taskset, and compares them with its bounds: attack."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers.chosen import covering_test, tests
from analysis.answers.elsewhere import another
from analysis.answers.loading import analysable
from analysis.answers.registry import UNITS
from analysis.answers.verdict import NO_THETA, beyond, lacks_theta, unlike_the_file
from analysis.attack.exact import Exact, TooManyStatesError, exact_ways, explore, prioritised
from analysis.chains.bounds import bound_of
from analysis.chains.observed import MEASURE_KEYS
from analysis.model import Taskset
from analysis.rta import Result, Test
from analysis.simulation.simulate import PLACES, SimulationError
from gpurt.errors import UsageError
from gpurt.types import Document
from pycontrol.commands.options import FILE, JSON, TEST_NAME, command
from pycontrol.observe.judge.chains import ChainCheck
from pycontrol.observe.observed import chains_data, chains_text
from pycontrol.output import render
from pycontrol.output.render import bound, ms


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt attack tiny.toml
  gpurt attack tiny.toml --test boosted-suspend --states 100000000

\b
Time is counted in the largest unit that divides every time of the file, so that few digits make few states.  Random
schedules of larger files: gpurt simulate.  Random files: scripts/attack of a checkout.

\b
Exit codes: 0 every schedule meets all deadlines; 1 one does not, there is no real-time task, --test is about another
system than the file, or the test does not prove what was not looked at, such as releases between units; 2 wrong
usage, or too many states; 3 the file is wrong; 6 a sound bound was exceeded, which is a bug."""
)
@FILE
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help="The test whose bounds and system are meant, not the one that the file's verdict rests on.")
@click.option("--states", type=click.IntRange(1, 10**9), default=5_000_000, show_default=True,
              help="Look at so many states at most.  A million takes a few seconds.")
@JSON
def attack_command(file: Path, name: str | None, states: int, as_json: bool) -> int:
    """Look at every schedule of a small taskset: exact worst cases of tasks and chains beside their bounds."""
    chosen = tests((name,)) if name else []
    taskset = analysable(file, chosen, workers=True).taskset
    test = _test(taskset, name)
    result = test.run(taskset)
    how = unlike_the_file(test, taskset)
    why = f"nothing of the file is shown: {another(test, how)}" if how else _unseen(test, taskset, result)
    taskset = test.simulated(taskset)
    try:
        found = _explore(test, taskset, states)
    except TooManyStatesError as error:
        raise UsageError(f"{file}: {error}; --states allows more, and rounder times have fewer") from None
    except SimulationError as error:
        raise UsageError(f"{file}: {error}") from None
    return _show(file, test, taskset, result, found, why, as_json)


def _test(taskset: Taskset, name: str | None) -> Test:
    test = covering_test(taskset, name).test
    if test is None:
        raise UsageError("no test is about the file's system; name one with --test")
    if lacks_theta(test, taskset):
        raise UsageError(NO_THETA.format(test.name))
    if test.name in UNITS:
        raise UsageError(f"{test.name} is about tasks that own units, which the explorer does not know")
    return test


def _unseen(test: Test, taskset: Taskset, result: Result) -> str:
    """Which schedules no exploration covers, if not all of them are proved to meet the deadlines; else empty."""
    if result.schedulable and not beyond(test, taskset, result):
        return ""
    also = "; critical sections may be elsewhere in CPU segments, too" * bool(taskset.resources)
    return f"releases between units may make responses longer{also}; {test.name} does not prove that all are in time"


def _explore(test: Test, taskset: Taskset, states: int) -> list[Exact]:
    """One exploration for each system that the test is for."""
    own = prioritised(test, taskset)
    return [explore(own, options, None, states, periodic=test.periodic) for options in exact_ways(test, taskset)]


def _show(
    file: Path, test: Test, taskset: Taskset, result: Result, found: list[Exact], why: str, as_json: bool
) -> int:  # fmt: skip
    """Prints the results; returns the exit code.  ``why``: why these are not all schedules of the file."""
    rows: list[tuple[str, ...]] = []
    data: Document = {}
    broken = False
    late = next((one.late for one in found if one.late), None)
    for task in taskset.real_time:
        worst = max(one.worst[task.name] for one in found)
        wcrt = result.wcrt(task.name)
        over = wcrt is not None and worst > wcrt
        broken |= over
        ratio = f"{wcrt / worst:.3f}" if wcrt is not None and worst and not late else "-"
        rows.append((task.name, ms(worst), bound(wcrt), ratio, ms(task.deadline), "EXCEEDED" if over else ""))
        data[task.name] = {"exact_ns": worst, "wcrt_ns": wcrt, "deadline_ns": task.deadline, "broken": over}
    states = sum(one.states for one in found)
    places = f" with all critical sections at the {', or all at the '.join(PLACES)} of CPU segments"
    lines = [
        render.table(("task", "exact ms", "WCRT ms", "ratio", "deadline ms", ""), rows),
        f"every schedule under {test.policy}{places * bool(taskset.resources)}, as {test.name} is about: {states} "
        f"states, times in units of {found[0].unit} ns",
    ]
    chains = _chains(taskset, result, found)
    if chains:
        lines.append(chains_text(chains).rstrip("\n"))
    if late:
        lines.append(f"{late} misses its deadline; schedules are not followed further, so that others may take longer")
    if why:
        lines.append(why)
    document = {
        "file": file, "why": why or None, "test": test.name, "policy": test.policy, "unit_ns": found[0].unit,
        "states": states, "steps": sum(one.steps for one in found), "late": late, "tasks": data,
        "chains": chains_data(chains),
    }  # fmt: skip
    render.emit(document, as_json, "\n".join(lines))
    broken |= any(one.unsound for one in chains)
    if broken and test.sound:
        return 6
    return 1 if why or late or not rows or any(one.exceeded for one in chains) else 0


def _chains(taskset: Taskset, result: Result, found: list[Exact]) -> list[ChainCheck]:
    """The exact times of chains, with their bounds and the file's limits."""
    checks = []
    for chain in taskset.chains:
        worst = [max(times) for times in zip(*(one.chains[chain.name] for one in found), strict=True)]
        bounds = {key: one.bound for key, one in bound_of(chain, taskset, result).latencies.items()}
        checks.append(ChainCheck(chain.name, dict(zip(MEASURE_KEYS, worst, strict=True)), bounds, chain.limits))
    return checks
