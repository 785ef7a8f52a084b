# SPDX-License-Identifier: GPL-2.0
"""The command that says how much may grow: sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from gpurt.errors import UsageError
from pycontrol.commands import render
from pycontrol.commands.options import FILE, JSON, Given, analysable, beside_of, covering_test, tests
from pycontrol.commands.render import ms, room


@click.command(
    epilog="""\b
Examples:
  gpurt sensitivity set.toml
  gpurt sensitivity set.toml --test boosted-busy --clock orin=0.6 --clock xavier=1.4

\b
Exit codes: 0 the taskset is schedulable as it is; 1 it is not; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--test", "name", type=Given(), metavar="NAME",
              help="The test to pass; one for the file's policy and waiting modes.")  # fmt: skip
@click.option("--clock", "clocks", multiple=True, metavar="NAME=FACTOR",
              help="Hardware that multiplies every time except epsilon by a factor; may be repeated.")  # fmt: skip
@JSON
def sensitivity(file: Path, name: str | None, clocks: tuple[str, ...], as_json: bool) -> int:
    """Say how much each time may grow before a task misses its deadline, or must shrink until none does."""
    loaded = analysable(file, tests((name,)) if name else ()).taskset
    data, text = study(file, loaded, name, clocks)
    render.note(*data["notes"], as_json=as_json)
    render.emit(data, as_json, text)
    return 0 if data["schedulable"] else 1


def study(file: Path, loaded: Any, name: str | None, clocks: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """How much may grow: the command's document, and the same as text.

    ``name``: the test; None: the one that the verdict on the taskset rests on.  ``clocks``: as the option has them.
    Raises UsageError if there is no such test, for a wrong clock, or for clocks that make no difference.
    """
    data, text = _room(file, loaded, name, clocks)
    test = tests((data["test"],))[0] if data["test"] else None
    found = beside_of(loaded, test, data["why"] or "", name, "sensitivity")
    return {**data, **found.data()}, "\n".join([text.rstrip("\n"), *found.lines()])


def _room(file: Path, loaded: Any, name: str | None, clocks: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The same without what is known beside a no."""
    from analysis.sensitivity import effort, epsilon_budgets, margins

    hardware = _hardware(clocks)
    test, why, notes = covering_test(loaded, name)
    if clocks and test is not None and test.policy == "federated":
        raise UsageError(f"--clock: what is searched for is the largest epsilon, which {test.name} does not depend on")
    if test is None or not loaded.real_time:
        nothing: dict[str, Any] = {"test": None, "sound": None, "margins": [], "hardware": [], "notes": notes}
        return {"file": file, "schedulable": False, "why": why, **nothing}, f"NOT PROVED: {why}"
    result = test.run(loaded)
    why = why or result.why
    units = test.policy == "federated"
    hardware = {} if units else hardware
    with render.progress(effort(loaded, len(hardware)), "searching") as bar:
        found, budgets = margins(test, loaded, bar.update), epsilon_budgets(test, loaded, hardware, bar.update)
    bounds = _limits(test.name, loaded) if units else None
    data = {
        "file": file, "test": test.name, "sound": test.sound, "schedulable": not why, "why": why or None,
        "margins": [{"what": one.what, "task": one.task, "now_ns": one.now or None, "most_ns": one.most,
                     "factor": one.factor} for one in found],
        "hardware": [{"name": name, "factor": factor, "most_epsilon_ns": budgets[name]}
                     for name, factor in hardware.items()],
        "limits": bounds, "notes": notes,
    }  # fmt: skip
    return data, _text(test, result, why, found, hardware, budgets) + (_shown(bounds) if bounds else "")


def _text(
    test: Any, result: Any, why: str, found: Sequence[Any], hardware: Mapping[str, Fraction],
    budgets: Mapping[str, int | None],
) -> str:  # fmt: skip
    lines = [] if test.sound else [f"UNSOUND, do not rely on it: {test.note}"]
    if result.schedulable:
        lines.append(f"NOT PROVED: {why}" if why else f"schedulable under {test.name}; {_tightest(found)}")
        lines += ["", "Each of these may grow by itself until the test fails:" if why else
                  "Each of these may grow by itself:"]  # fmt: skip
    else:
        lines.append(f"NOT PROVED under {test.name}: {result.why}")
        lines += ["", "To be schedulable, one of these must shrink, by a factor below 1:"]
    rows = [(one.what.words, one.task or "-", ms(one.now or None), room(one.most), _factor(one))
            for one in found]  # fmt: skip
    lines += [render.table(("what", "task", "now ms", "at most ms", "factor"), rows), ""]
    if not hardware:
        return "\n".join(lines)
    lines.append("The largest epsilon with which all deadlines hold, if all other times are multiplied as stated:")
    machines = [(name, f"{float(factor):g}", room(budgets[name])) for name, factor in hardware.items()]
    lines.append(render.table(("hardware", "times", "epsilon at most ms"), machines))
    return "\n".join(lines)


def _limits(name: str, taskset: Any) -> dict[str, Any]:
    """What else may change where tasks own units of the GPU."""
    from analysis.rtgpu.method import METHODS
    from analysis.rtgpu.sensitivity import effort, limits

    with render.progress(effort(taskset), "searching limits") as bar:
        found = limits(METHODS[name], taskset, bar.update)
        bar.update(bar.length - bar.pos)
    return {
        "units": found.units, "interleave_factor": _number(found.interleave),
        "overhead_factor": _number(found.overhead),
        "copies_factor": _number(found.copies), "chunk_ns": found.chunk,
    }  # fmt: skip


def _number(found: Fraction | None) -> float | None:
    return None if found is None else float(found)


def _shown(limits: Mapping[str, Any]) -> str:
    chunk = limits["chunk_ns"]
    rows = [
        ("fewest units of the GPU", limits["units"]),
        ("most interleaving of all kernels", limits["interleave_factor"]),
        ("most overhead of all kernels, factor", limits["overhead_factor"]),
        ("longest copies, factor", limits["copies_factor"]),
        ("longest chunk of copies, ms", "whole copies" if chunk == 0 else room(chunk)),
    ]  # fmt: skip
    listed = [(what, "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value))
              for what, value in rows]  # fmt: skip
    return "\nEach of these by itself:\n" + render.table(("what", "limit"), listed)


def _tightest(found: Sequence[Any]) -> str:
    """Which single time may grow the least, in words."""
    single = [one for one in found if one.task and one.most is not None]
    if not single:
        return "no task's time limits it"
    least = min(single, key=lambda one: one.factor)
    return (
        f"the tightest: {least.task}'s {least.what.words} may grow to {_down(least.factor, 2)} times, "
        f"from {ms(least.now)} to {room(least.most)} ms"
    )


def _factor(margin: Any) -> str:
    from analysis.sensitivity import UNLIMITED

    if margin.factor is None:
        return "no bound at 0"
    return "no limit" if margin.factor == UNLIMITED else _down(margin.factor, 4)


def _down(factor: Fraction, digits: int) -> str:
    """The factor with so many digits, rounded down: at what is printed the test passes, too."""
    return f"{float(Fraction(int(factor * 10**digits), 10**digits)):.{digits}f}"


def _hardware(clocks: Sequence[str]) -> dict[str, Fraction]:
    """The factor of each hardware by its name.  Raises UsageError."""
    found = {"this one": Fraction(1)}
    for name, factor in map(_clock, clocks):
        if name in found:
            raise UsageError(f"--clock: {name!r} is named twice")
        found[name] = factor
    return found


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
