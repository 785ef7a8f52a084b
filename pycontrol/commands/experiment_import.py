# SPDX-License-Identifier: GPL-2.0
"""The command that makes profiles of published measurements: experiment import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from analysis.papers.energy import authors
from analysis.papers.energy.authors import Copies, Imported
from analysis.papers.energy.published import FACTS, RTX, T400
from gpurt.files import check_writable, written
from gpurt.text import filename
from gpurt.units import US
from pycontrol.commands.energy_options import Power
from pycontrol.commands.options import JSON, Output, command
from pycontrol.output import render
from pycontrol.output.energy import fit_text, quality


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment import DIR
  gpurt experiment import DIR --published-copies -o profiles.toml

\b
DIR has gpu_NAME/BENCHMARK.csv with the columns SM, Min(ms), Max(ms), Power(W), energy and energy_in_window.

\b
Exit codes: 0 done; 1 the measurements do not tell the powers; 2 wrong usage; 3 a file is wrong, or cannot be
written.""",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--static-of", "statics", multiple=True, metavar="GPU=POWER",
              help="A GPU's static power; unless given, the column energy_in_window tells it.")  # fmt: skip
@click.option("--published-copies", is_flag=True,
              help="Add the copy times of the authors' code; without, copies take no time.")  # fmt: skip
@click.option("--method", type=click.Choice(list(authors.METHODS)), default="least-squares", show_default=True,
              help="`thesis` is the published recipe.")  # fmt: skip
@click.option("-o", "--output", type=Output(), help="Write the profiles for a taskset file (TOML).")
@JSON
def import_(
    folder: Path, statics: tuple[str, ...], published_copies: bool, method: str, output: Path | None, as_json: bool
) -> int:  # fmt: skip
    """Import profiles in the format that the authors of sBEET-mg published."""
    powers = {}
    for one in statics:
        name, _, power = one.partition("=")
        powers[name] = Power().convert(power, None, click.get_current_context())
    if output:
        check_writable(output)
    gpus = authors.load(folder, powers, method)
    copies = _published_copies() if published_copies else {}
    if output:
        with written(output) as file:
            file.write(authors.toml(gpus, filename(folder), copies, method).encode())
    notes = _import_notes(gpus, copies, published_copies)
    found = [{"name": gpu.name, "units": gpu.units, "static_uw": gpu.fit.static.power, "idle_uw": gpu.fit.idle.power,
              "kernels": [{"name": name, "power_uw": one.power, "error_uw": one.error}
                          for name, one in gpu.fit.kernels.items()], **quality(gpu.fit)} for gpu in gpus]  # fmt: skip
    render.note(*notes, as_json=as_json)
    whole = {"folder": folder, "method": method, "gpus": found, "notes": notes, "files": [output] if output else []}
    render.emit(whole, as_json, "\n\n".join(f"{gpu.name}, {gpu.units} SMs\n{fit_text(gpu.fit)}" for gpu in gpus))
    return 0


def _published_copies() -> Copies:
    """The copy times of the authors' code."""
    return {name: {kind: (into * US, back * US) for kind, (_, into, back) in zip((RTX, T400), facts, strict=True)}
            for name, facts in FACTS.items()}  # fmt: skip


def _import_notes(gpus: Sequence[Imported], copies: Copies, asked: bool) -> list[str]:
    notes = [f"{gpu.name}: {one}" for gpu in gpus for one in gpu.fit.warnings]
    for gpu in gpus:
        if gpu.fit.above:
            above = f"{gpu.fit.above / 1e6:.6f} W more than it says"
            notes.append(f"{gpu.name}: the fit is no bound: {gpu.fit.above_where} drew {above}")
    if not asked:
        notes.append("the files have no copy times: the profiles have none either, so jobs seem shorter than they are")
    elif lacking := sorted({name for gpu in gpus for name in gpu.lines if gpu.name not in copies.get(name, {})}):
        notes.append(f"no copy times are known for {', '.join(lacking)}")
    every = dict.fromkeys(name for gpu in gpus for name in gpu.lines)
    notes += [f"{gpu.name} has no {name}" for gpu in gpus for name in every if name not in gpu.lines]
    return notes
