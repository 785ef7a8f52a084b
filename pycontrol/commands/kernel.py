# SPDX-License-Identifier: GPL-2.0
"""The command that makes a kernel of measured times: measure kernel."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from analysis.rtgpu import fit
from gpurt.errors import FileError, UsageError
from gpurt.text import filename
from gpurt.units import format_time
from pycontrol.commands.options import JSON, Time, command
from pycontrol.output import render
from pycontrol.output.render import ms


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt measure kernel times.csv                        a segment with the least overhead that bounds all times
  gpurt measure kernel times.csv --table                a segment with the measured times
  gpurt measure kernel times.csv --overhead 12ms        where a formula with that overhead is no bound

\b
A line of the file is a number of SMs or CUs and a time: 4,12.5ms. Several lines for each number are welcome.

\b
Exit codes: 0 done; 1 the formula is no bound of what was measured; 2 wrong usage; 3 the file is wrong.""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--table", "as_table", is_flag=True, help="Print the times themselves instead of a formula.")
@click.option("--interleave-factor", "interleave", type=click.FloatRange(1, 2), default=2, show_default=True,
              help="The factor of the formula; 2 if both halves were running when times were measured.")  # fmt: skip
@click.option("--overhead", type=Time(), metavar="TIME", help="Use this overhead, and say where it is too little.")
@click.option("--minimum", type=click.IntRange(1, 4096), default=1, show_default=True,
              help="No task gets fewer units, as [platform] units says.")  # fmt: skip
@JSON
def kernel_command(
    file: Path, as_table: bool, interleave: float, overhead: int | None, minimum: int, as_json: bool
) -> int:  # fmt: skip
    """Make a kernel segment of measured times, by number of SMs or CUs.

    Measured times are no proof of a bound: add a margin.
    """
    if as_table and overhead is not None:
        raise UsageError("--table and --overhead exclude each other: a table has no overhead")
    if as_table and minimum > 1:
        raise UsageError("--table and --minimum exclude each other: a table begins with 1 unit")
    if not 1 <= interleave <= 2:  # NaN is in every range of floats
        raise UsageError("--interleave-factor: expected a factor from 1 to 2")
    measured = fit.read_rows(file)
    try:
        thousandths = int(Decimal(str(interleave)) * 1000)
        found = fit.times_table(measured) if as_table else fit.formula(measured, thousandths, overhead, minimum)
    except ValueError as error:
        raise FileError(f"{filename(file)}: {error}") from None
    beyond = [] if as_table else fit.unbounded(found, measured)
    notes = _notes(measured, minimum)
    render.note(*notes, as_json=as_json)
    segment = _segment(found)
    data = {
        "file": file, "segment": segment, "notes": notes,
        "unbounded": [{"units": units, "measured_ns": time, "bound_ns": bound} for units, time, bound in beyond],
    }  # fmt: skip
    rows = [(str(units), ms(time), ms(bound)) for units, time, bound in beyond]
    text = segment
    if rows:
        text += "\nNO BOUND where more was measured than it allows:\n"
        text += render.table(("units", "measured ms", "formula ms"), rows)
    render.emit(data, as_json, text)
    return 1 if rows else 0


def _notes(measured: Any, minimum: int) -> list[str]:
    notes = ["what was measured is no proof of a bound: add a margin"]
    if measured.slower:
        shown = ", ".join(map(str, measured.slower))
        notes.append(f"more units are slower than fewer: {shown}; tests of own units leave units idle where that helps")
    if minimum > 1:
        notes.append(f"the formula says nothing about fewer than {minimum} units: say units = {{ minimum = {minimum}, "
                     f"step = ... }} in [platform]")  # fmt: skip
    if missing := [units for units in measured.missing if units > minimum]:
        shown = ", ".join(map(str, missing))
        notes.append(f"not measured on {shown} units: a table has the time on the next smaller number there")
    return notes


def _segment(found: Any) -> str:
    """The segment as a taskset file has it."""
    if found.times:
        return f"{{ kernel_times = [{', '.join(_span(time) for time in found.times)}] }}"

    interleave = f"{Decimal(found.interleave) / 1000:f}"
    overhead = format_time(found.overhead)
    return f'{{ kernel = {_span(found.work)}, overhead = "{overhead}", interleave = "{interleave}" }}'


def _span(span: Any) -> str:
    if span.worst == span.best:
        return f'"{format_time(span.worst)}"'
    return f'{{ worst = "{format_time(span.worst)}", best = "{format_time(span.best)}" }}'
