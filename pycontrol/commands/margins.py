# SPDX-License-Identifier: GPL-2.0
"""The command that shows how much each time may grow: margins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import click

from analysis.answers.chosen import tests
from analysis.answers.growth import Growth, growth
from analysis.answers.loading import analysable
from analysis.answers.periods import MAX_PERIOD_FACTOR, Period
from analysis.answers.sensitivity import UNLIMITED, Margin
from analysis.rta import Test
from pycontrol.commands.options import FILE, JSON, TEST_NAME, command
from pycontrol.output import chains, render
from pycontrol.output.render import ms, room

#: The remark above the periods.
MOVES = "a deadline that is the period moves with it"


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt margins set.toml
  gpurt margins set.toml --test boosted-busy

\b
Exit codes: 0 the taskset is schedulable as it is; 1 it is not; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help="The test to pass; one for the file's policy and waiting modes.")  # fmt: skip
@JSON
def margins_command(file: Path, name: str | None, as_json: bool) -> int:
    """Say how much each time may grow before a task misses its deadline, or must shrink until none does.

    Also say how short the period of each task may become, or how much longer it has to be.
    """
    loaded = analysable(file, tests((name,)) if name else (), workers=True).taskset
    found = growth(loaded, name, render.progress, interrupted=_interrupted)
    render.note(*found.notes, as_json=as_json)
    data = found.data(file)
    render.emit(data, as_json, "\n".join([_text(found).rstrip("\n"), *found.beside.lines()]))
    return 1 if found.why else 0


def _interrupted(test: Test, found: Sequence[Margin]) -> None:
    render.say(f"interrupted; {len(found)} times were searched under {test.name}:\n{_table(found)}")


def _table(found: Sequence[Margin]) -> str:
    """The table, smallest room for growth first; if times must shrink, the smallest change first."""
    shrinks = all(one.factor is None or one.factor < 1 for one in found)
    known = sorted((one for one in found if one.factor is not None), key=lambda one: one.factor or 0, reverse=shrinks)
    none = [one for one in found if one.factor is None]
    found = [*known, *none] if shrinks else [*none, *known]
    rows = [(one.what.words, one.task or "-", ms(one.now or None), room(one.most), _factor(one))
            for one in found]  # fmt: skip
    return render.table(("what", "task", "now ms", "at most ms", "factor"), rows)


def _text(found: Growth) -> str:
    test, why = found.test, found.why
    if test is None:
        return f"NOT PROVED: {why}"
    lines = [test.doubt] if test.doubt else []
    if not found.failing:
        lines.append(f"NOT PROVED: {why}" if why else f"schedulable under {test.name}; {_tightest(found.margins)}")
        lines += ["", "Each of these may grow by itself until the test fails:" if why else
                  "Each of these may grow by itself:"]  # fmt: skip
    else:
        lines.append(f"NOT PROVED under {test.name}: {found.failing}")
        if found.chains:
            said = "Every task is in time; limits of chains are what fails, and these are the least that are proved:"
            lines += [said, chains.tabulated_chains(found.chains), "", "Or one of these shrinks, by a factor below 1:"]
        elif any(one.factor is not None for one in found.margins):
            lines += ["", "To be schedulable, one of these must shrink, by a factor below 1:"]
        else:
            lines += ["", "None of these makes it schedulable by itself, however short it is:"]
    lines += [_table(found.margins), ""]
    if found.periods:
        lines += [f"{'Or one of these periods changes' if found.failing else 'Shortest periods'}; {MOVES}:",
                  _periods(found.periods), ""]  # fmt: skip
    if not test.rules.units:
        lines.append(f"the largest epsilon, with theta's share of it: {room(found.epsilon)} ms")
    return "\n".join(lines)


def _tightest(found: Sequence[Margin]) -> str:
    """The single time with the least room for growth, in words."""
    single = [(one.factor, one) for one in found if one.task and one.factor is not None and one.most is not None]
    if not single:
        return "no task's time limits it"
    factor, least = min(single, key=lambda pair: pair[0])
    return (
        f"the tightest: {least.task}'s {least.what.words} may grow to {_down(factor, 2)} times, "
        f"from {ms(least.now)} to {room(least.most)} ms"
    )


def _periods(found: Sequence[Period]) -> str:
    rows = [(one.task, ms(one.now), *_limit(one)) for one in found]
    return render.table(("task", "period ms", "by itself, ms", "factor"), rows)


def _limit(one: Period) -> tuple[str, str]:
    """The limit of a period in words, and its factor, rounded so that the test passes."""
    if one.factor is None:
        return f"none up to {MAX_PERIOD_FACTOR} times", "-"
    if one.least is None:
        return f"at most {room(one.most)}", _down(one.factor, 4)
    return f"at least {render.bound(one.least)}", _down(-(-one.factor * 10**4 // 1) / Fraction(10**4), 4)


def _factor(margin: Margin) -> str:
    if margin.factor is None:
        return "no bound above 0"
    return "no limit" if margin.factor == UNLIMITED else _down(margin.factor, 4)


def _down(factor: Fraction, digits: int) -> str:
    """The factor with this many digits, rounded down, so that the test passes at the printed factor, too."""
    return f"{float(Fraction(int(factor * 10**digits), 10**digits)):.{digits}f}"
