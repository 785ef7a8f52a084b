# SPDX-License-Identifier: GPL-2.0
"""The command that checks compiled kernels of gpurt_sm.h: measure code."""

from __future__ import annotations

from pathlib import Path

import click

from gpurt.errors import UsageError
from gpurt.types import Document
from pycontrol.commands.options import JSON, command
from pycontrol.measure.smcheck import verdict
from pycontrol.measure.smcheck.limits import USUAL_SHARED
from pycontrol.measure.smcheck.verdict import Verdict
from pycontrol.output import render

MOST_BYTES = 1 << 20


@command(
    computes=True,
    epilog="""\b
Examples:
  nvcc -arch=sm_75 -ptx kernel.cu -o kernel.ptx
  ptxas -v -arch=sm_75 kernel.ptx -o kernel.cubin 2> kernel.txt
  gpurt measure code kernel.ptx kernel.txt

\b
Files: PTX for what the code does, and what ptxas -v prints for what it uses.  A kernel is right if both are
given and right.  They have to be of one build, which is not checked.  What is not understood is a NO.

\b
Exit codes: 0 all kernels are right; 1 some are not, or not known to be; 2 wrong usage; 3 a file is wrong.""",
)
@click.argument("inputs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@click.option("--kernel", "names", multiple=True, metavar="NAME",
              help="Judge this kernel, by its name in the files; again for more. Unless given, all.")  # fmt: skip
@click.option("--dynamic", type=click.IntRange(0, MOST_BYTES), metavar="BYTES",
              help="Shared memory that the launch adds for each block.")  # fmt: skip
@JSON
def code_command(inputs: tuple[Path, ...], names: tuple[str, ...], dynamic: int | None, as_json: bool) -> int:
    """Say whether two blocks of a kernel of gpurt_sm.h fit on an SM of NVIDIA, and it reads the SM's number once."""
    said = verdict.Said()
    if sum(str(path) == "-" for path in inputs) > 1:
        raise UsageError("standard input can be read once")
    for path in inputs:
        verdict.read_code(path, said)
    try:
        found = verdict.kernel_verdicts(said, names, dynamic)
    except ValueError as error:
        raise UsageError(str(error)) from None
    notes = _notes(found, dynamic or 0)
    render.note(*notes, as_json=as_json)
    good = all(one.good for one in found)
    why = None if good else "; ".join(f"{one.kernel}: {reason}" for one in found for reason in one.why)
    data = {"right": good, "why": why, "kernels": [_data(one, dynamic) for one in found], "notes": notes}
    render.emit(data, as_json, _text(found, dynamic))
    return 0 if good else 1


def _notes(found: list[Verdict], dynamic: int) -> list[str]:
    notes = [f"{one.kernel}: keeps registers or variables in memory, which all SMs share: measure its time beside"
             " the other tasks" for one in found if one.use and (one.use.spilled or one.use.stack)]  # fmt: skip
    notes += [f"{one.kernel}: launch it with {one.room.threads} threads a block on {one.use.arch}"
              for one in found if one.room and one.use]  # fmt: skip
    for one in found:
        if not (one.use and one.room):
            continue
        shared = one.use.shared + dynamic
        if shared > 1024:
            notes.append(f"{one.kernel}: two blocks fit only while an SM of {one.use.arch} gives them shared memory:"
                         " ask for it (cudaFuncAttributePreferredSharedMemoryCarveout)")  # fmt: skip
        if shared > USUAL_SHARED:
            notes.append(f"{one.kernel}: a launch with more than {USUAL_SHARED} bytes of shared memory fails unless the"
                         " program asks for it (cudaFuncAttributeMaxDynamicSharedMemorySize)")  # fmt: skip
    return list(dict.fromkeys(notes))


def _data(one: Verdict, dynamic: int | None) -> Document:
    use, room = one.use, one.room
    return {
        "name": one.kernel, "architecture": use.arch if use else None, "right": one.good,
        "reads_once": one.reads_once, "two_blocks": one.two_blocks, "why": "; ".join(one.why) or None,
        "block_threads": room.threads if room else None,
        "thread_registers": use.registers if use else None, "most_registers": room.registers if room else None,
        "shared_bytes": use.shared + (dynamic or 0) if use else None,
        "most_shared_bytes": room.shared if room else None,
    }  # fmt: skip


def _text(found: list[Verdict], dynamic: int | None) -> str:
    rows = []
    for one in found:
        data = _data(one, dynamic)
        rows.append((
            one.kernel, data["architecture"] or "-", "yes" if one.good else "NO", _word(one.reads_once),
            _word(one.two_blocks), _of(data["thread_registers"], data["most_registers"]),
            _of(data["shared_bytes"], data["most_shared_bytes"]),
        ))  # fmt: skip
    lines = [render.table(("kernel", "for", "right", "SM read once", "two fit", "registers", "shared B"), rows)]
    for one in found:
        lines += [f"NO: {one.kernel}{f' ({one.use.arch})' if one.use else ''}: {reason}" for reason in one.why]
    return "\n".join(lines)


def _word(answer: bool | None) -> str:
    return "unknown" if answer is None else "yes" if answer else "no"


def _of(used: int | None, most: int | None) -> str:
    return "-" if used is None else str(used) if most is None else f"{used} of {most}"
