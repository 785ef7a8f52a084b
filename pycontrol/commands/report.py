# SPDX-License-Identifier: GPL-2.0
"""The command that puts the evidence about a system on one page: report."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers.chosen import tests
from gpurt.files import check_writable, written
from pycontrol.commands.options import FILE, JSON, TEST_NAME, Output, command, files_apart
from pycontrol.observe.report.evidence import gather, inputs
from pycontrol.observe.report.page import page
from pycontrol.output import render


@command(
    computes=True,
    extra="a run to compare with is --trace RUN",
    epilog="""\b
Examples:
  gpurt report robot.toml -o robot.html
  gpurt report robot.toml --trace run.json --trace night.json -o robot.html
  gpurt report examples/case-study.toml --elsewhere -o case-study.html

\b
Exit codes: 0 every deadline holds, and nothing that was seen speaks against that; 1 the report is written, and says why
not; 2 wrong usage; 3 a file is wrong or truncated, a trace is of another taskset, or the page cannot be written."""
)
@FILE
@click.option("--trace", "traces", multiple=True, type=click.Path(path_type=Path), metavar="RUN",
              help="Compare the response times of this run with the bounds; may be repeated.")  # fmt: skip
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help="Use this test instead of one for the file's policy.")  # fmt: skip
@click.option("--elsewhere", is_flag=True, help="The system does not run on this machine: do not look at it. What the "
              "bounds assume of a machine is then unchecked.")  # fmt: skip
@click.option("-o", "--output", required=True, type=Output(), help="The page, one file of HTML.")
@JSON
@click.pass_obj
def report_command(
    device: str | None, file: Path, traces: tuple[Path, ...], name: str | None, elsewhere: bool, output: Path,
    as_json: bool,
) -> int:  # fmt: skip
    """Write the evidence on a system as one page: bounds, what they assume, how that was checked, what was observed.

    Unless --elsewhere is given, the page has what `gpurt doctor` and the host say of this machine.
    """
    if name:
        tests((name,))  # raises UsageError before anything is read
    files_apart([output], file, *traces)
    given = inputs(file, traces, name, device, elsewhere, output)
    check_writable(output)
    found = gather(given)
    html = page(render.plain(found))
    with written(output) as target:
        target.write(html.encode())
    render.note(*found["notes"], as_json=as_json)
    verdict = "every deadline holds if the assumptions do" if found["holds"] else f"NO: {found['why']}"
    if as_json or output.is_file():  # otherwise stdout may be the page
        render.emit(found, as_json, f"{output}: {verdict}")
    return 0 if found["holds"] else 1
