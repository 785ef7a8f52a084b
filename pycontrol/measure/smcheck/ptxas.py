# SPDX-License-Identifier: GPL-2.0
"""The resources of an SM that kernels use, as ptxas -v says."""

from __future__ import annotations

import re
from dataclasses import dataclass

ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([\w$]+)' for '(sm_\w+)'\s*")
PROPERTIES = re.compile(r"ptxas info\s*: Function properties for ([\w$]+)\s*")
STACK = re.compile(r"\s*(\d{1,9}) bytes stack frame, (\d{1,9}) bytes spill stores, (\d{1,9}) bytes spill loads\s*")
USED = re.compile(r"ptxas info\s*: Used (\d{1,9}) registers((?:, [^,]+)*)\s*")
SHARED = re.compile(r"(\d{1,9})(?:\+(\d{1,9}))? bytes smem")
#: The further words of a line "Used", which say nothing of registers or shared memory.
OTHER = re.compile(r"used \d+ barriers|\d+(?:\+\d+)? bytes (?:cmem\[\d+\]|lmem|gmem|cumulative stack size)"
                   r"|\d+ (?:textures|samplers|surfaces)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Use:
    """The resources of a kernel on an architecture: registers of a thread, bytes of a block; the rest, of a thread.

    ``spilled``: bytes of stores and loads of registers in memory; ``stack``: bytes of its stack.
    """

    kernel: str
    arch: str
    registers: int
    shared: int
    stack: int
    spilled: int


def is_ptxas(text: str) -> bool:
    """Whether a text has a line of ptxas -v."""
    return "ptxas info" in text


def uses(text: str) -> list[Use]:
    """The kernels of a text.  Raises ValueError, with the number of the line, where it is not whole."""
    found = list[Use]()
    entry: tuple[str, str] | None = None
    began, here, stack = 0, "", (0, 0)
    lines = text.splitlines()
    if not text.endswith("\n"):
        raise ValueError(f"{len(lines)}: the last line has no end: the text is not whole")
    for number, line in enumerate(lines, 1):
        if "Compiling entry function" in line:
            _whole(entry, began)
            entry, began, here, stack = _entry(line, number), number, "", (0, 0)
        elif properties := PROPERTIES.fullmatch(line):
            here = properties[1]
        elif entry and here == entry[0] and (sizes := STACK.fullmatch(line)):
            stack = (int(sizes[1]), int(sizes[2]) + int(sizes[3]))
        elif re.match(r"ptxas info\s*: Used\b", line):
            if entry is None:
                raise ValueError(f"{number}: says of no kernel what it uses: the text is not whole")
            found.append(Use(*entry, *_used(line, number), *stack))
            entry = None
    _whole(entry, began)
    return found


def _entry(line: str, number: int) -> tuple[str, str]:
    found = ENTRY.fullmatch(line)
    if found is None:
        raise ValueError(f"{number}: names no kernel and architecture in the form of ptxas -v")
    return found[1], found[2]


def _used(line: str, number: int) -> tuple[int, int]:
    """Registers and bytes of shared memory."""
    found = USED.fullmatch(line)
    if found is None:
        raise ValueError(f'{number}: expected "Used N registers, ..." as ptxas -v has it')
    shared = 0
    for part in found[2].split(",")[1:]:
        if size := SHARED.fullmatch(part.strip()):
            shared += int(size[1]) + int(size[2] or 0)
        elif not OTHER.fullmatch(part.strip()):
            raise ValueError(f"{number}: {part.strip()!r} is not known in a line of ptxas -v")
    return int(found[1]), shared


def _whole(entry: tuple[str, str] | None, number: int) -> None:
    if entry:
        raise ValueError(f'{number}: {entry[0]} has no line "Used ... registers": the text is not whole')
