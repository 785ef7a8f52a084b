# SPDX-License-Identifier: GPL-2.0
"""The command that draws a trace: trace plot."""

from __future__ import annotations

import os
from pathlib import Path

import click

from analysis.traces.plot import format_of, gantt, responses_plot
from analysis.traces.trace import load_trace
from gpurt.errors import UsageError
from gpurt.files import STDIN, is_stream
from gpurt.text import filename
from pycontrol.commands.options import JSON, Output, Time, command, files_apart
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt trace plot run.json                       run.png
  gpurt trace plot run.json -o run.svg --since 100ms --to 300ms
  gpurt trace plot run.json --kind responses

\b
Exit codes: 0 done; 2 wrong usage; 3 not a trace, or the picture cannot be written."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=Output(),
    help="The picture: .png, .svg or .pdf; PNG without a suffix. Default: TRACE with .png.",
)  # fmt: skip
@click.option("--kind", type=click.Choice(["gantt", "responses"]), default="gantt", show_default=True)
@click.option("--since", "start", metavar="TIME", type=Time(), help='Start of the window, such as "100ms".')
@click.option("--to", "end", metavar="TIME", type=Time(), help="End of the window; 300ms after its start unless given.")
@JSON
def plot_command(
    trace: Path, output: Path | None, kind: str, start: int | None, end: int | None, as_json: bool
) -> int:  # fmt: skip
    """Draw a trace: which task executed where and when, or how response times are distributed."""
    if output is None and is_stream(trace) and (os.path.exists(trace) or str(trace) in STDIN):
        raise UsageError(f"{filename(trace)} is no file that a picture can be named after; name one with -o")
    output = output or trace.with_suffix(".png")
    format_of(output)  # raises UsageError before anything is read
    files_apart([output], trace)
    if kind == "responses" and (start, end) != (None, None):
        raise UsageError("--since and --to go with --kind gantt")
    loaded = load_trace(trace)
    if kind == "gantt":
        gantt(loaded, output, start, end)
    else:
        responses_plot(loaded, output)
    if as_json or output.is_file():  # otherwise stdout may be the picture
        render.emit({"trace": trace, "kind": kind, "files": [output]}, as_json, str(output))
    return 0
