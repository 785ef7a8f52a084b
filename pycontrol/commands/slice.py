# SPDX-License-Identifier: GPL-2.0
"""The command that sets slices and levels of any process on a Tegra, a hint (tier T0): set slice."""

from __future__ import annotations

import click

from gpurt.units import US, parse_time
from pycontrol.commands.options import JSON, PIDS, Parsed, command
from pycontrol.link import tegra
from pycontrol.link.hints import HintLevel, SchedNode
from pycontrol.link.tegra import whole_us
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt set slice 1234                              show
  gpurt set slice 1234 --slice 10ms --interleave high

\b
Exit codes: 0 done; 2 wrong usage; 4 no such node, or another process has it open; 5 not permitted, refused by the
driver, or a process without time-slice groups."""
)
@PIDS
@click.option("--slice", "slice_us", type=Parsed("time", lambda text: whole_us(parse_time(text))), metavar="TIME",
              help="Time slice of the process's groups, 1ms to 50ms.")  # fmt: skip
@click.option("--interleave", type=click.Choice(["low", "medium", "high"]), help="How often they are in the runlist.")
@JSON
def slice_command(pids: tuple[int, ...], slice_us: int | None, interleave: str | None, as_json: bool) -> int:
    """Show or set time slices and interleave levels of any process on a Tegra (tier T0: no isolation).

    Works on unmodified drivers and on programs that do not use gpurt, through the driver's scheduling node.
    """
    level = HintLevel[interleave.upper()] if interleave else None
    with SchedNode() as node:
        if slice_us is not None or level is not None:
            tegra.apply(node, [tegra.Setting(pid, slice_us, level) for pid in pids])
        found = [one for pid in pids for one in node.hints(pid)]
    rows = [(str(one.pid), str(one.tsg), str(one.slice_us), one.level.name.lower()) for one in found]
    data = [{"pid": one.pid, "tsg": one.tsg, "slice_ns": one.slice_us * US, "interleave": one.level.name.lower()}
            for one in found]  # fmt: skip
    render.emit({"hints": data}, as_json, render.table(("pid", "TSG", "slice us", "interleave"), rows))
    return 0
