# SPDX-License-Identifier: GPL-2.0
"""The command that measures kernels by number of units: measure kernels."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Sequence
from fractions import Fraction
from io import FileIO
from pathlib import Path

import click

from analysis.rtgpu.observed import Case, How, Observed, PartitionSizes, cases
from gpurt.errors import FileError, UsageError
from gpurt.files import make_folder, unwritable
from gpurt.text import filename
from gpurt.types import Document
from gpurt.units import format_time
from pycontrol.commands.options import JSON, Given, GivenPath, command
from pycontrol.measure.kernels import Offer, ask_program, measure
from pycontrol.output import render
from pycontrol.output.render import ms

#: The first line of a file of times.
TIMES_HEAD = "units,time"
#: The longest time that a measurement may take, s.
MEASUREMENT_LIMIT_S = 120.0


@command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  gpurt measure kernels -- ./kernels                       all its kernels, on some numbers of units
  gpurt measure kernels --units 8,16,24 -o times -- ./kernels
  gpurt measure kernels --kernel mmul --no-pairs -o times -- ./kernels

\b
The program is one of userlib/include/gpurt_measure.h; docs/rtgpu.md says how to write it. -o DIR adds to DIR/KERNEL.csv
a line for each launch alone: units,time. Measurements come in an order by chance.

\b
Exit codes: 0 measured; 2 wrong usage; 3 a file is wrong, or cannot be written; 6 the program or the GPU failed: what
was measured until then is in the files; 130 Ctrl-C.""",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--kernel", "chosen", multiple=True, metavar="NAME", help="Only this one; may be repeated.")
@click.option("--units", "counts", type=Given(), metavar="N,M,...", help="Numbers of units; some of all unless given.")
@click.option("--pairs/--no-pairs", default=True, show_default=True, help="Measure kernels beside each other, too.")
@click.option("--runs", default=100, show_default=True, type=click.IntRange(1, 1_000_000), help="Launches of each.")
@click.option("-o", "--output", type=GivenPath(path_type=Path, file_okay=False),
              help="Folder for the times.")  # fmt: skip
@JSON
def kernels_command(
    program: tuple[str, ...], chosen: tuple[str, ...], counts: str | None, pairs: bool, runs: int,
    output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Measure a program's kernels by number of SMs or CUs: times, interleaving, conflicts.

    Measured times are no proof of a bound: add a margin.  One NVIDIA GPU has executed this, and none of AMD's
    (docs/rtgpu.md).
    """
    offer = ask_program(program, MEASUREMENT_LIMIT_S)
    names = _names(offer, chosen)
    numbers = _counts(offer.units, counts)
    beside = offer.units.half if pairs else 0
    plan = cases(offer.units, names, numbers, beside)
    random.Random(1).shuffle(plan)
    files = {name: output / f"{name}.csv" for name in names} if output else {}
    found = _measured(program, plan, runs, offer.units, files)
    bound = {name: found.memory_bound(name) for name in names}
    notes = _notes(found, names, bound, beside)
    data = {
        "program": list(program), "mechanism": offer.mechanism,
        "least_units": offer.units.least, "unit_step": offer.units.step, "most_units": offer.units.most,
        "all_units": offer.units.all, "pair_units": beside or None,
        "kernels": [_data(found, name, bound) for name in names], "notes": notes, "files": [*files.values()],
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, _text(data))
    return 0


def _names(offer: Offer, chosen: Sequence[str]) -> list[str]:
    """The kernels to measure.  Raises UsageError for a kernel that the program lacks."""
    for name in chosen:
        if name not in offer.kernels:
            raise UsageError(f"--kernel: the program has no {name!r:.80}; it has {', '.join(offer.kernels)}")
    return list(dict.fromkeys(chosen or offer.kernels))


def _counts(units: PartitionSizes, text: str | None) -> list[int]:
    """The numbers of units.  Raises UsageError for a number that no partition of the GPU has."""
    if text is None:
        return list(units.some())
    found = [int(word) if word.isascii() and word.isdigit() and len(word) < 6 else 0 for word in text.split(",")]
    for word, count in zip(text.split(","), found, strict=True):
        if not units.has(count):
            raise UsageError(f"--units: {word!r:.40} is no number that a partition has: {_possible(units)}")
    return sorted(set(found))


def _possible(units: PartitionSizes) -> str:
    return f"{units.least} to {units.most} in steps of {units.step}, or all {units.all}"


def _measured(
    program: Sequence[str], plan: Sequence[Case], runs: int, units: PartitionSizes, files: dict[str, Path]
) -> Observed:
    """Measures every case of the plan; writes each time alone as soon as it is known."""
    found = Observed(units)
    with contextlib.ExitStack() as stack, render.progress(len(plan), "measuring") as bar:
        lines = {name: _opened(path, stack) for name, path in files.items()}
        for case in plan:
            times = measure(program, case, runs, MEASUREMENT_LIMIT_S)
            found.add(case, times)
            for time in times if case.how is How.ALONE and case.kernel in lines else ():
                _write(lines[case.kernel], f"{case.units},{time}ns")
            bar.update(1)
    return found


def _opened(path: Path, stack: contextlib.ExitStack) -> FileIO:
    """A file of times; if the file exists, measurement continues it.  Raises FileError."""
    make_folder(path.parent)
    try:
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 - the stack closes it
        new = not file.tell()
        file.seek(0)
        head = file.readline(len(TIMES_HEAD) + 1)
        file.seek(-1 if head else 0, os.SEEK_END)
        cut = file.read(1) not in (b"\n", b"")
    except OSError as error:
        raise unwritable(path, error) from None
    stack.enter_context(file)
    if new:
        _write(file, TIMES_HEAD)
    elif head != f"{TIMES_HEAD}\n".encode():
        raise FileError(f"{filename(path)}: is no file of times; name another folder with -o")
    elif cut:
        raise FileError(f"{filename(path)}: its last line is cut: remove that line, or name another folder with -o")
    return file


def _write(file: FileIO, line: str) -> None:
    """Writes each line as soon as it is known, so that an early end loses no time.  Raises FileError."""
    try:
        file.write(f"{line}\n".encode())
    except OSError as error:
        raise unwritable(Path(str(file.name)), error) from None


def _notes(found: Observed, names: Sequence[str], bound: dict[str, bool | None], pairs: int) -> list[str]:
    notes = ["what was measured is no proof of a bound: add a margin"]
    if found.units.least > 1:
        notes.append(f"a partition has {_possible(found.units)}: say units = {{ minimum = {found.units.least}, "
                     f"step = {found.units.step} }} in [platform]")  # fmt: skip
    notes += [f"{name}: whether memory bounds it is not known without its times on all units and on 60 % of them"
              for name in names if bound[name] is None]  # fmt: skip
    notes += [f"{name}: two at once take longer than one after the other" for name in names
              if (found.interleave(name) or 0) > 2]  # fmt: skip
    if not pairs:
        notes.append("no kernel was measured beside another one: their bounds need that, as they share memory")
    return notes


def _thousandths(value: Fraction | None) -> int | None:
    """The value in thousandths, rounded up like a bound."""
    return None if value is None else -(-1000 * value.numerator // value.denominator)


def _data(found: Observed, name: str, bound: dict[str, bool | None]) -> Document:
    """The JSON object of a kernel."""
    twice = {case.units: factor for case in found.times
             if case.kernel == name and case.how is How.TWICE and (factor := found.factor(case))}  # fmt: skip
    beside = sorted({(case.other, case.units) for case in found.times if case.kernel == name and case.other})
    memory = bound[name]
    return {
        "name": name, "intensity": None if memory is None else "memory" if memory else "compute",
        "interleave_thousandths": _thousandths(found.interleave(name)),
        "conflict_thousandths": _thousandths(found.conflict(name, bound, How.SAME)),
        "cross_thousandths": _thousandths(found.conflict(name, bound, How.APART)) if memory else None,
        "times": [{"units": units, "best_ns": span.best, "worst_ns": span.worst,
                   "twice_thousandths": _thousandths(twice.get(units))} for units, span in found.alone(name).items()],
        "beside": [{"name": other, "units": units,
                    "same_thousandths": _thousandths(found.factor(Case(name, units, How.SAME, other))),
                    "apart_thousandths": _thousandths(found.factor(Case(name, units, How.APART, other)))}
                   for other, units in beside],
    }  # fmt: skip


def _factor(thousandths: int | None) -> str:
    return "-" if thousandths is None else f"{thousandths / 1000:.3f}"


def _table(times: Sequence[Document]) -> str:
    """A GPU time by units in the form of a taskset file: more units never take longer."""
    worst, cells = 0, list[str]()
    for one in reversed(times):
        worst = max(worst, one["worst_ns"])
        cells.insert(0, f'"{one["units"]}" = "{format_time(worst)}"')
    return f"gpu = {{ units = {{ {', '.join(cells)} }} }}"


def _text(data: Document) -> str:
    rows = [(one["name"], str(time["units"]), ms(time["best_ns"]), ms(time["worst_ns"]),
             _factor(time["twice_thousandths"])) for one in data["kernels"] for time in one["times"]]  # fmt: skip
    lines = [render.table(("kernel", "units", "best ms", "worst ms", "two at once"), rows), ""]
    pairs = [(one["name"], other["name"], str(other["units"]), _factor(other["same_thousandths"]),
              _factor(other["apart_thousandths"])) for one in data["kernels"] for other in one["beside"]]  # fmt: skip
    if pairs:
        lines += [render.table(("kernel", "beside", "units", "the same units", "other units"), pairs), ""]
    for one in data["kernels"]:
        said = [f'intensity = "{one["intensity"]}"'] if one["intensity"] else []
        said += [f"conflict = {_factor(one['conflict_thousandths'])}"] if one["conflict_thousandths"] else []
        said += [f'interleave = "{_factor(one["interleave_thousandths"])}"'] if one["interleave_thousandths"] else []
        lines.append(f"{one['name']}: {', '.join([*said, _table(one['times'])])}")
    cross = max((one["cross_thousandths"] or 0 for one in data["kernels"]), default=0)
    if cross:
        lines.append(f"[platform] cross_contention = {_factor(cross)}")
    return "\n".join(lines)
