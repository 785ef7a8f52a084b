# SPDX-License-Identifier: GPL-2.0
"""The command that measures how late threads wake on this machine: measure latency."""

from __future__ import annotations

import os

import click

from gpurt.units import US, format_time
from pycontrol.commands.options import JSON, Time, command
from pycontrol.machine.wakeups import WakeUps, measure_wakeups
from pycontrol.measure.summary import enlarged, read_margin
from pycontrol.output import render

#: A shorter measurement says little.
USUAL = 60_000_000_000
SHORT_NS = 600_000_000_000


@command(
    epilog="""\b
Examples:
  sudo gpurt measure latency --duration 1h
  sudo gpurt measure latency --cpu 2 --cpu 3 --priority 98

\b
Exit codes: 0 measured; 2 wrong usage; 5 the priority or a CPU is not permitted; 6 a measuring process ended early.""",
)
@click.option("--cpu", "cpus", type=click.IntRange(0, 4095), multiple=True, metavar="N",
              help="Measure on this CPU; may be repeated. All that this program may use unless given.")  # fmt: skip
@click.option("--priority", type=click.IntRange(1, 99), default=98, show_default=True,
              help="SCHED_FIFO priority of the threads that measure.")  # fmt: skip
@click.option("--interval", type=Time(), default=1_000_000, metavar="TIME", help="A wake-up each; 1ms unless given.")
@click.option("--duration", type=Time(), default=USUAL, metavar="TIME", help="For how long; 60s unless given.")
@click.option("--margin", default="20%", show_default=True, metavar="PERCENT",
              help="What to add to the latest wake-up.")  # fmt: skip
@JSON
def latency_command(
    cpus: tuple[int, ...], priority: int, interval: int, duration: int, margin: str, as_json: bool
) -> int:  # fmt: skip
    """Measure how late real-time threads wake, as cyclictest does, for cpu_latency of a file's [platform].

    Run it while the system is loaded as it will be in the field, and longest before you ship.
    """
    share = read_margin(margin)
    for name, value in (("--interval", interval), ("--duration", duration)):
        if value <= 0:
            raise click.BadParameter("must be longer than 0", param_hint=name)
    found = measure_wakeups(sorted(set(cpus) or os.sched_getaffinity(0)), priority, interval, duration)
    stated = format_time(enlarged(max(one.most for one in found), share))
    notes = ["the latest wake-up that was seen is no bound: measure under the load of the field"]
    if duration < SHORT_NS:
        notes.append("latest wake-ups come seldom: measure for hours before you rely on them")
    render.note(*notes, as_json=as_json)
    rows = [(str(one.cpu), str(one.wakeups), *map(_us, (one.least, one.mean, one.most))) for one in found]
    text = render.table(("CPU", "wake-ups", "least us", "mean us", "most us"), rows)
    text += f'\ncpu_latency = "{stated}"   # for [platform]: the latest and {share * 100}%'
    render.emit({"wakeups": [_data(one) for one in found], "cpu_latency": stated, "notes": notes}, as_json, text)
    return 0


def _us(time: int) -> str:
    return f"{time / US:.1f}"


def _data(one: WakeUps) -> dict[str, int]:
    return {
        "cpu": one.cpu, "count": one.wakeups, "minimum_ns": one.least, "mean_ns": one.mean,
        "maximum_ns": one.most,
    }  # fmt: skip
