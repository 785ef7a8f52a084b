# SPDX-License-Identifier: GPL-2.0
"""What a block may use so that two fit on an SM, by architecture."""

from __future__ import annotations

from dataclasses import dataclass

#: Architecture -> threads that an SM holds.  Others are not known here.
THREADS = {
    "sm_60": 2048, "sm_61": 2048, "sm_62": 2048, "sm_70": 2048, "sm_75": 1024, "sm_80": 2048, "sm_86": 1536,
    "sm_87": 1536, "sm_89": 1536, "sm_90": 2048,
}  # fmt: skip
REGISTERS, GRAIN = 65536, 8
#: Bytes of shared memory that an SM of each of these has at least, and what a block takes beside its own from 8.0 on.
SHARED, RESERVED = 65536, 1024


@dataclass(frozen=True, slots=True)
class Room:
    """A block of half the threads that an SM holds: its threads, and most registers of a thread and shared bytes."""

    threads: int
    registers: int
    shared: int


def room(arch: str) -> Room:
    """What two blocks leave each other.  Raises ValueError for an architecture that is not known."""
    if arch not in THREADS:
        raise ValueError(f"what an SM of {arch} holds is not known; known: {', '.join(THREADS)}")
    holds = THREADS[arch]
    shared = SHARED // 2 - (RESERVED if int(arch[3:]) >= 80 else 0)
    return Room(holds // 2, REGISTERS // holds // GRAIN * GRAIN, shared)
