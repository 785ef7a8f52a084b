# SPDX-License-Identifier: GPL-2.0
"""The command that gives tasks units of the GPU of their own, and one bus: plan units."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers.loading import analysable_text
from analysis.answers.registry import UNITS as UNITS_TESTS
from gpurt.types import DocumentView
from pycontrol.act.plan.division import check_output, sizes_of
from pycontrol.act.plan.units import BUSY_TEST, OBJECTIVES, TEST, own_units, units_of
from pycontrol.commands.options import FILE, JSON, TEST_NAME, command
from pycontrol.commands.plan_options import OUT, SIZES, UNITS
from pycontrol.output import render
from pycontrol.output.render import bound, ms, room


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan units examples/federated.toml
  gpurt plan units set.toml --objective slack -o planned.toml

\b
Exit codes: 0 every task with units holds its deadline; 1 one does not; 2 wrong usage; 3 a file is wrong.""",
)
@FILE
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help=f"The test.  [default: {TEST}; {BUSY_TEST} if tasks wait busily]")  # fmt: skip
@click.option("--objective", type=click.Choice(OBJECTIVES), default=OBJECTIVES[0], show_default=True,
              help="Few units, or much slack, relative to deadlines.")  # fmt: skip
@UNITS
@SIZES
@OUT
@JSON
def units_command(
    file: Path, name: str | None, objective: str, units: int | None, sizes: str | None, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Give each task with kernels units of its own, and all of them one bus for copies (docs/rtgpu.md)."""
    loaded, text = analysable_text(file, [UNITS_TESTS[TEST]])
    there = loaded.taskset.platform.compute_units if units is None else units
    given = units_of(loaded, units, None if sizes is None else sizes_of(sizes, there))
    if output:
        check_output(loaded, units, output)
    found = own_units(loaded, name, given, objective)
    data = {"file": loaded.path, **found.data(), "files": [output] if output and not found.why else []}
    if output and not found.why:
        found.write(loaded, text, output)
    render.note(*data["notes"], as_json=as_json)
    render.emit(data, as_json, _text(data))
    return 1 if found.why else 0


def _text(data: DocumentView) -> str:
    """A line for each task, and the quality of the allocation."""

    def shown(count: int | None) -> str:
        return "-" if count is None else str(count)

    cells = [
        (name, task["partition"] if task["units"] else "-", shown(task["units"]),
         shown(task["units"] and 2 * task["units"]), bound(task["wcrt_ns"]), ms(task["deadline_ns"]),
         room(task["slack_ns"]))
        for name, task in data["tasks"].items()
    ]  # fmt: skip
    lines = [render.table(("task", "partition", "units", "virtual SMs", "WCRT ms", "deadline ms", "slack ms"), cells)]
    if data["fits"]:
        lines.append(f"fits in {data['used_units'] or 0} of {data['compute_units']} compute units under {data['test']}")
    else:
        lines.append(f"DOES NOT FIT under {data['test']}: {data['why']}")
    return "\n".join(lines)
