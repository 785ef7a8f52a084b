# SPDX-License-Identifier: GPL-2.0
"""A verdict on each kernel, from what several texts say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpurt import files
from gpurt.errors import FileError
from gpurt.text import filename
from pycontrol.measure.smcheck import limits, ptx, ptxas
from pycontrol.measure.smcheck.code import Code
from pycontrol.measure.smcheck.limits import Room
from pycontrol.measure.smcheck.ptxas import Use

MAX_CODE_BYTES = 16 * 2**20
EXPECTED = "PTX, or what ptxas -v prints"
#: The marks of an assembler's text for AMD's GPUs, and the beginning of an object for them: ELF of machine EM_AMDGPU.
AMDGCN = re.compile(r"^\s*\.(?:amdgcn_target|amdhsa_kernel|amdgpu_hsa_kernel)\b", re.MULTILINE)
ELF, MACHINE, EM_AMDGPU = b"\x7fELF", slice(18, 20), b"\xe0\0"
NOT_JUDGED = (
    "is code for an AMD GPU, which is not judged: whether two blocks fit depends on the wavefront's size and the "
    "compute unit's mode, which the launch decides. Use CU masks, which need no such kernel (docs/rtgpu.md)"
)


@dataclass
class Said:
    """The facts that texts tell of kernels."""

    codes: list[Code] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """On a kernel on an architecture.  ``reads_once`` and ``two_blocks`` are None if no text says it.

    ``why``: the reasons why the kernel is not right, or not known to be; none if it is.
    """

    kernel: str
    reads_once: bool | None
    two_blocks: bool | None
    why: tuple[str, ...]
    use: Use | None
    room: Room | None

    @property
    def good(self) -> bool:
        """Whether all is known and right."""
        return bool(self.reads_once and self.two_blocks and not self.why)


def read_code(path: Path, into: Said) -> None:
    """Adds what a file says.  Raises FileError that names the file."""
    name = filename(path)
    data = files.read_whole(path, MAX_CODE_BYTES, "a kernel's text")
    if data.startswith(ELF) and data[MACHINE] == EM_AMDGPU:
        raise FileError(f"{name}: {NOT_JUDGED}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{name}: is not UTF-8 text; expected {EXPECTED}") from None
    if "\0" in text:
        raise FileError(f"{name}: is binary; expected {EXPECTED}")
    if AMDGCN.search(text):
        raise FileError(f"{name}: {NOT_JUDGED}")
    is_ptx, is_ptxas = ptx.is_ptx(text), ptxas.is_ptxas(text)
    if is_ptx == is_ptxas:
        raise FileError(f"{name}: is {'both' if is_ptx else 'neither'}: expected {EXPECTED}")
    try:
        codes, uses = (ptx.ptx_kernels(text), []) if is_ptx else ([], ptxas.uses(text))
    except ValueError as error:
        place = str(error)
        raise FileError(f"{name}:{place}" if place[:1].isdigit() else f"{name}: {place}") from None
    if not codes and not uses:
        raise FileError(f"{name}: has no kernel")
    into.codes += codes
    into.uses += uses


def kernel_verdicts(said: Said, names: Iterable[str], dynamic: int | None) -> list[Verdict]:
    """A verdict on each kernel, and each architecture for which a text says what it uses.

    ``names``: the kernels to judge; none: all.  ``dynamic``: bytes of shared memory that the launch adds, None if that
    is not known.  Raises ValueError for a name that no text has.
    """
    kernels = list(dict.fromkeys([*(code.kernel for code in said.codes), *(use.kernel for use in said.uses)]))
    found = list[Verdict]()
    for name in dict.fromkeys(names) or kernels:
        if name not in kernels:
            raise ValueError(f"no kernel is named {name!r}")
        codes = [code for code in said.codes if code.kernel == name]
        uses: list[Use | None] = [use for use in said.uses if use.kernel == name]
        found += [_verdict(name, codes, use, dynamic) for use in uses or [None]]
    return found


def _verdict(name: str, codes: list[Code], use: Use | None, dynamic: int | None) -> Verdict:
    why = [code.why_not for code in codes if code.why_not]
    reads_once = not why if codes else None
    why += [code.strays for code in codes if code.strays and not code.why_not]
    if not codes:
        why.append("its code is not given: add its PTX")
    two_blocks, room = None, None
    if use is None:
        why.append("what it uses is not given: add what ptxas -v prints")
    else:
        try:
            room = limits.room_of_blocks(use.arch)
        except ValueError as error:
            why.append(str(error))
    if use and room:
        crowded = list(_crowded(codes, use, room, dynamic))
        two_blocks = not crowded
        why += crowded
    return Verdict(name, reads_once, two_blocks, tuple(dict.fromkeys(why)), use, room)


def _crowded(codes: list[Code], use: Use, room: Room, dynamic: int | None) -> Iterable[str]:
    most = min((code.most_threads for code in codes if code.most_threads), default=room.threads)
    if most < room.threads:
        yield f"was compiled for {most} threads of a block at most; half of an SM of {use.arch} is {room.threads}"
    if use.registers > room.registers:
        yield f"{use.registers} registers a thread; two blocks of {room.threads} threads leave {room.registers}"
    if dynamic is None and any(code.adds_shared for code in codes):
        yield "uses shared memory that the launch adds: say how much with --dynamic"
    if use.shared + (dynamic or 0) > room.shared:
        yield f"{use.shared + (dynamic or 0)} bytes of shared memory; two blocks leave {room.shared} each"
