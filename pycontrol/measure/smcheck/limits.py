# SPDX-License-Identifier: GPL-2.0
"""The resources that a block may use so that two fit on an SM, by architecture.

The numbers are NVIDIA's, of three sources.  The sources are the CUDA programming guide's table of technical
specifications by compute capability, the traits of architectures in libcu++, and cuda_occupancy.h of CUDA 13.0.  The
sources agree where they name the same number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Compute capability -> threads that an SM holds, and KiB of shared memory that it has at most.  Others are not known.
SMS = {
    "60": (2048, 64), "61": (2048, 96), "62": (2048, 64), "70": (2048, 96), "72": (2048, 96), "75": (1024, 64),
    "80": (2048, 164), "86": (1536, 100), "87": (1536, 164), "88": (1536, 100), "89": (1536, 100), "90": (2048, 228),
    "100": (2048, 228), "103": (2048, 228), "110": (1536, 228), "120": (1536, 100), "121": (1536, 100),
}  # fmt: skip
#: An SM's registers.  A warp takes them in units that are a multiple of this many for each of its threads.
REGISTERS, GRAIN = 65536, 8
#: The shared memory that a block takes beside its own, from 8.0 on.
RESERVED = 1024
#: Bytes of shared memory of a block above which its program has to ask for them, with any architecture.
USUAL_SHARED = 48 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """A block of half the threads that an SM holds: its threads, and most registers of a thread and shared bytes."""

    threads: int
    registers: int
    shared: int


def room_of_blocks(arch: str) -> Room:
    """The room that two blocks leave each other.  Raises ValueError for an architecture that is not known."""
    # sm_90a and sm_100f are those SMs, with instructions that no other has.
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if found is None or found[1] not in SMS:
        raise ValueError(f"what an SM of {arch} holds is not known; known: {', '.join(f'sm_{one}' for one in SMS)}")
    threads, kib = SMS[found[1]]
    shared = kib * 1024 // 2 - (RESERVED if int(found[1]) >= 80 else 0)
    return Room(threads // 2, REGISTERS // threads // GRAIN * GRAIN, shared)
