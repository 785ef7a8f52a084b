# SPDX-License-Identifier: GPL-2.0
"""The command that draws a trace: trace plot."""

from __future__ import annotations

import os
from pathlib import Path

import click

from analysis.traces.plot import format_of, gantt
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

\b
Exit codes: 0 done; 2 wrong usage; 3 not a trace, or the picture cannot be written."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=Output(),
    help="The picture: .png, .svg or .pdf; PNG without a suffix. Default: TRACE with .png.",
)  # fmt: skip
@click.option("--since", "start", metavar="TIME", type=Time(), help='Start of the window, such as "100ms".')
@click.option("--to", "end", metavar="TIME", type=Time(), help="End of the window; 300ms after its start unless given.")
@JSON
def plot_command(trace: Path, output: Path | None, start: int | None, end: int | None, as_json: bool) -> int:
    """Draw a trace: which task executed where and when."""
    if output is None and is_stream(trace) and (os.path.exists(trace) or str(trace) in STDIN):
        raise UsageError(f"{filename(trace)} is no file that a picture can be named after; name one with -o")
    output = output or trace.with_suffix(".png")
    format_of(output)  # raises UsageError before anything is read
    files_apart([output], trace)
    gantt(load_trace(trace), output, start, end)
    if as_json or output.is_file():  # otherwise stdout may be the picture
        render.emit({"trace": trace, "files": [output]}, as_json, str(output))
    return 0
