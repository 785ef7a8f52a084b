# SPDX-License-Identifier: GPL-2.0
"""The command that makes profiles of measurements: measure powers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from analysis.energy import fit as fitting
from analysis.energy import measured, write
from analysis.energy.fit import Fit
from analysis.energy.measured import MeasuredPower
from analysis.energy.write import Profiled
from analysis.rtgpu.fit import read_rows
from gpurt.errors import FileError, UsageError
from gpurt.files import check_writable, written
from gpurt.text import filename
from gpurt.units import parse_time
from pycontrol.commands.energy_options import Power
from pycontrol.commands.options import FILE, JSON, Output, command, files_apart
from pycontrol.output import render
from pycontrol.output.energy import fit_text, quality


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt measure powers powers.csv --units 46
  gpurt measure powers powers.csv --units 6 --static 8W
  gpurt measure powers powers.csv --units 8 --times mmul=mmul.csv --copy-times mmul=2ms,1ms --margin 20 -o profiles.toml

\b
The file has the columns kernel, units and power_uw, and perhaps gpu, clock, sensor and error_uw
(docs/energy-measuring.md).  A line without a kernel is the idle GPU.  Lines with kernels side by side (mmul+bfs, 4+2)
are not fitted, but compared with the fit.

\b
-o writes profiles for a taskset file.  That needs each kernel's times, in files as `gpurt measure kernels -o` writes
them: lines such as 4,12.5ms, on every number of units that jobs may get.

\b
Exit codes: 0 fitted; 1 the measurements do not tell the powers, or the times; 2 wrong usage; 3 a file is wrong, or
cannot be written.""",
)
@FILE
@click.option("--units", required=True, type=click.IntRange(1, 4096), help="M, the GPU's SMs or CUs.")
@click.option("--static", metavar="POWER", type=Power(),
              help="Static power; the mean of lines without a kernel unless given.")  # fmt: skip
@click.option("--gpu-name", "gpu", metavar="NAME", help="Only lines of this GPU.")
@click.option("--sensor", metavar="NAME", help="Only lines of this sensor.")
@click.option("-o", "--output", type=Output(), help="Write the profiles for a taskset file (TOML).")
@click.option("--times", multiple=True, metavar="KERNEL=FILE", help="With -o: a kernel's times (units,time).")
@click.option("--copy-times", "copies", multiple=True, metavar="KERNEL=IN,OUT",
              help="With -o: its copies' times; 0 unless given.")  # fmt: skip
@click.option("--margin", default=0, type=click.IntRange(0, 1000), metavar="PERCENT",
              help="With -o: worst cases are so much longer than what was measured.")
@click.option("--limit", type=click.IntRange(1, 4096), help="With -o: jobs get at most so many units.")
@click.option("--granularity", default=1, type=click.IntRange(1, 4096), help="With -o: jobs get multiples of it.")
@JSON
def powers_command(
    file: Path, units: int, static: int | None, gpu: str | None, sensor: str | None,
    output: Path | None, times: tuple[str, ...], copies: tuple[str, ...], margin: int, limit: int | None,
    granularity: int, as_json: bool,
) -> int:  # fmt: skip
    """Fit static, idle and active power of a GPU to measurements."""
    if not output and (times or copies or margin or limit or granularity > 1):
        raise UsageError("--times, --copy-times, --margin, --limit and --granularity go with -o")
    if (limit or units) > units or granularity > (limit or units):
        raise UsageError(f"--limit and --granularity: the GPU has {units} units")
    files_apart([output], file, *(Path(one.partition("=")[2]) for one in times))
    if output:
        check_writable(output)
    every = measured.load_measured(file, units)
    lines = [one for one in every if gpu in (None, one.gpu) and sensor in (None, one.sensor)]
    _one_of_each(file, every, lines)
    found = fitting.fit(lines, units, static)
    notes = [*found.warnings, *_remarks(found, lines)]
    if output:
        shape = Profiled(lines[0].gpu or "gpu", found, {}, lines[0].clock, limit, granularity)
        pairs = _pairs("--times", times, found), _pairs("--copy-times", copies, found)
        notes += _write(output, file, shape, *pairs, margin)
    powers = [{"name": name, "power_uw": one.power, "error_uw": one.error} for name, one in found.kernels.items()]
    whole = {
        "file": file, "units": units, "static_uw": found.static.power,
        "static_error_uw": found.static.error, "idle_uw": found.idle.power, "idle_error_uw": found.idle.error,
        "kernels": powers, **quality(found), "notes": notes, "files": [output] if output else [],
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    render.emit(whole, as_json, fit_text(found))
    return 0


def _pairs(option: str, given: Sequence[str], found: Fit) -> dict[str, str]:
    """An option's values for fitted kernels, by kernel.  Raises UsageError."""
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, what = one.partition("=")
        if not equals or not what:
            raise UsageError(f"{option}: expected a kernel, =, and what is said of it; got {one!r:.80}")
        if name not in found.kernels or name in pairs:
            known = ", ".join(found.kernels)
            raise UsageError(f"{option}: {name!r:.80} is {'there twice' if name in pairs else f'none of {known}'}")
        pairs[name] = what
    return pairs


def _write(
    output: Path, source: Path, gpu: Profiled, times: dict[str, str], copies: dict[str, str], margin: int
) -> list[str]:  # fmt: skip
    """Writes the profiles of a fit; returns remarks.  Raises FitError, FileError, UsageError."""
    write.check_written(gpu.fit)
    if lacking := [name for name in gpu.fit.kernels if name not in times]:
        raise UsageError(f"-o needs the times of every kernel: --times {lacking[0]}=FILE is missing")
    kernels = {}
    for name, path in times.items():
        into, _, back = copies.get(name, "0ns,0ns").partition(",")
        try:
            both = parse_time(into), parse_time(back)
        except ValueError as error:
            raise UsageError(f"--copy-times: {name}: {error}") from None
        spans = read_rows(Path(path)).spans
        kernels[name] = write.Timed(write.filled(name, spans, gpu, margin), *both)
    head = f"Made by `gpurt measure powers` from {filename(source)}."
    said = f"Times are the longest and shortest that were measured, the longest with a margin of {margin} %."
    with written(output) as file:
        file.write(write.profiles([replace(gpu, kernels=kernels)], [head, said]).encode())
    notes = [] if margin else ["the worst cases are what was measured: that is no bound; --margin adds to it"]
    if bare := [name for name in kernels if name not in copies]:
        notes.append(f"no copy times of {', '.join(bare)}: jobs seem shorter than they are")
    return notes


def _one_of_each(file: Path, every: Sequence[MeasuredPower], lines: Sequence[MeasuredPower]) -> None:
    """Raises FileError or UsageError unless there are lines, of one GPU at one clock by one sensor."""
    options = {"gpu": "gpu-name", "sensor": "sensor"}
    for what in options:
        names = sorted({getattr(one, what) for one in every})
        if not lines and every:
            raise UsageError(f"no line is of that GPU and sensor; there are {', '.join(map(repr, names))}")
        here = sorted({getattr(one, what) for one in lines})
        if len(here) > 1:
            several = f"{filename(file)}: has lines of {', '.join(map(repr, here))}"
            raise UsageError(f"{several}: choose one by --{options[what]}")
    clocks = sorted({one.clock for one in lines})
    if len(clocks) > 1:
        found = ", ".join(map(repr, clocks))
        raise FileError(f"{filename(file)}: was measured at several clocks: {found}; a fit is for one")
    if not lines:
        raise FileError(f"{filename(file)}: has no measurement")


def _remarks(found: Fit, lines: Sequence[MeasuredPower]) -> list[str]:
    notes = []
    if found.above:
        notes.append(f"the fit is no bound: {found.above_where} drew {found.above / 1e6:.6f} W more than it says")
    single = [one for one in lines if len(one.kernels) == 1]
    if 0 < sum(bool(one.error) for one in single) < len(single):
        notes.append("error_uw is missing in some lines: all lines weigh the same")
    if found.idle.error is None:
        notes.append("there are as many powers as lines: nothing tells their errors")
    return notes
