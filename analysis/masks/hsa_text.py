# SPDX-License-Identifier: GPL-2.0
"""The text of HSA_CU_MASK, with which ROCm confines a whole process: ``0:0xff; 1,2:0-7,32-39``.

ROCr parses it in Flag::parse_masks() of core/util/flag.cpp.  It drops the first set that it does not understand and all
that follow, without a word.  Text that ROCr takes by accident ("-3", "3-", ids that no GPU has) is a mistake here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analysis.masks.mapping import MOST_BITS

#: ROCr's own limit of GPUs is the machine's; no machine has more.
MAX_GPUS_OF_ROCR = 256
_IDS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_HEX = re.compile(r"0x([0-9a-f]{1,256})", re.ASCII)
_SPACE = re.compile(r"[ \t\n\v\f\r]")


@dataclass(frozen=True, slots=True)
class RocrLimits:
    """How many GPUs the machine has, and the CUs of its largest.  A set that is past either is a mistake to ROCr."""

    gpus: int = MAX_GPUS_OF_ROCR
    units: int = MOST_BITS


UNLIMITED = RocrLimits()


class MaskTextError(ValueError):
    """The text has a mistake: ``number`` is the set's, from 1; ROCm ignores that set and the ``lost - 1`` after it."""

    def __init__(self, why: str, number: int, lost: int) -> None:
        after = f" and the {lost - 1} after it" if lost > 1 else ""
        super().__init__(f"set {number}: {why}; ROCm ignores this set{after}")
        self.number, self.lost = number, lost


def parse_hsa(text: str, limits: RocrLimits = UNLIMITED) -> dict[int, int]:
    """The mask of each GPU that the text confines.  Raises MaskTextError at the first mistake."""
    sets = _SPACE.sub("", text).lower().split(";")
    if len(sets) > 1 and not sets[-1]:
        sets.pop()  # ROCr allows one at the end
    found: dict[int, int] = {}
    for number, one in enumerate(sets, 1):
        try:
            for gpu, mask in _set(one, limits):
                if gpu in found:
                    raise ValueError(f"GPU {gpu} is named twice")
                found[gpu] = mask
        except ValueError as error:
            raise MaskTextError(str(error), number, len(sets) - number + 1) from None
    return found


def write_masks(masks: Mapping[int, int]) -> str:
    """The text for these GPUs.  Raises ValueError if a mask is empty, which ROCm takes for a mistake."""
    for gpu, mask in masks.items():
        if mask <= 0 or mask >> MOST_BITS or not 0 <= gpu < MAX_GPUS_OF_ROCR:
            raise ValueError(f"GPU {gpu}: {mask:#x} cannot be written: 1 to {MOST_BITS} bits, some of them set")
    return ";".join(f"{gpu}:{mask:#x}" for gpu, mask in masks.items())


def _set(text: str, limits: RocrLimits) -> Iterator[tuple[int, int]]:
    gpus, colon, units = text.partition(":")
    if not colon or ":" in units:
        raise ValueError(f"expected GPUs:CUs, got {text[:40]!r}")
    mask = _units(units)
    if not mask & (1 << limits.units) - 1:
        raise ValueError(f"no GPU of the machine has any of these CUs; the largest has {limits.units}")
    ids = _ids(gpus, MAX_GPUS_OF_ROCR, "GPU")
    if min(ids) >= limits.gpus:
        raise ValueError(f"the machine has {limits.gpus} GPU{'s' if limits.gpus > 1 else ''}, and none of these")
    yield from ((gpu, mask) for gpu in ids)


def _units(text: str) -> int:
    if not text.startswith("0x"):
        return sum(1 << unit for unit in _ids(text, MOST_BITS, "CU"))
    found = _HEX.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no hexadecimal mask of 1 to {MOST_BITS} bits")
    if not int(found[1], 16):
        raise ValueError("the mask has no CU")
    return int(found[1], 16)


def _ids(text: str, limit: int, what: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        ids = _IDS.fullmatch(part)
        if ids is None:
            raise ValueError(f"{part[:40]!r} is no {what} and no range of {what}s such as 0-3")
        low = int(ids[1])
        high = int(ids[2]) if ids[2] else low
        if high < low:
            raise ValueError(f"the range {part} is upside down")
        if high >= limit:
            raise ValueError(f"{what} {high} is past the last, {limit - 1}")
        found += range(low, high + 1)
    twice = sorted({one for one in found if found.count(one) > 1}) if len(set(found)) < len(found) else []
    if twice:
        raise ValueError(f"{what} {twice[0]} is named twice")
    return found
