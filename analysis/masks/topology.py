# SPDX-License-Identifier: GPL-2.0
"""A GPU's compute units by XCC, shader engine and shader array, and the chips known by name."""

from __future__ import annotations

from dataclasses import dataclass

#: Limits of KFD (KFD_MAX_NUM_SE, KFD_MAX_NUM_SH_PER_SE) and of a register's half.
MOST_ENGINES, MOST_ARRAYS, MOST_UNITS = 8, 2, 16
MOST_XCCS = 8
#: From GC 10.0.0 on, CUs are switched in pairs (work-group processors).
PAIRED_GC = 100_000
#: Threads that a CU of a Radeon VII executes at once, as measured (section 4.2 of the paper; documents say 2,560).
CU_THREADS = 2_048


@dataclass(frozen=True)
class Topology:
    """The active compute units of a GPU.

    ``arrays[se][sh]``: CUs of a shader array, equal in each XCC.  ``gfx``: KFD's gfx_target_version, 90006 for gfx906.
    ``assumed``: the facts that nobody has reported; empty if none.  Raises ValueError for numbers that no chip has.
    """

    name: str
    gfx: int
    arrays: tuple[tuple[int, ...], ...]
    xccs: int = 1
    assumed: str = ""

    def __post_init__(self) -> None:
        widths = {len(engine) for engine in self.arrays}
        if not 1 <= len(self.arrays) <= MOST_ENGINES:
            raise ValueError(f"{len(self.arrays)} shader engines; a GPU has 1 to {MOST_ENGINES}")
        if len(widths) != 1 or not widths <= {1, MOST_ARRAYS}:
            raise ValueError(f"each shader engine has 1 or {MOST_ARRAYS} shader arrays, as many as the others")
        counts = [count for engine in self.arrays for count in engine]
        if not all(0 <= count <= MOST_UNITS for count in counts) or not any(counts):
            raise ValueError(f"a shader array has up to {MOST_UNITS} CUs, and some array has one")
        if not 1 <= self.xccs <= MOST_XCCS:
            raise ValueError(f"{self.xccs} XCCs; a GPU has 1 to {MOST_XCCS}")
        if self.paired and (self.xccs > 1 or any(count % 2 for count in counts)):
            raise ValueError("from gfx10 on CUs come in pairs, and there is one XCC")

    @property
    def paired(self) -> bool:
        """Whether CUs can only be enabled in pairs."""
        return self.gfx >= PAIRED_GC

    @property
    def step(self) -> int:
        """The number of CUs that are enabled together."""
        return 2 if self.paired else 1

    @property
    def engines(self) -> tuple[int, ...]:
        """The CUs of each shader engine of an XCC."""
        return tuple(map(sum, self.arrays))

    @property
    def units(self) -> int:
        """All CUs."""
        return self.xccs * sum(self.engines)


def _even(name: str, gfx: int, engines: int, units: int, arrays: int = 1, assumed: str = "", xccs: int = 1) -> Topology:
    return Topology(name, gfx, ((units,) * arrays,) * engines, xccs, assumed)


_EQUAL = "each shader engine is assumed to have {} of its {} CUs: the chip has {} of {}"
_MI250X = "of each die's 110 CUs, shader engines 0 to 5 are assumed to have 14, 6 and 7 to have 13"
_MI300 = "of each XCC's 38 CUs, shader engines 0 and 1 are assumed to have 10, 2 and 3 to have 9"
_LISTED = (
    _even("radeon-vii", 90006, 4, 15),
    _even("mi50", 90006, 4, 15, assumed=_EQUAL.format(15, 16, 60, 64)),
    _even("mi60", 90006, 4, 16),
    _even("mi100", 90008, 8, 15, assumed=_EQUAL.format(15, 16, 120, 128)),
    _even("mi210", 90010, 8, 13, assumed=_EQUAL.format(13, 14, 104, 112)),
    _even("mi250", 90010, 8, 13, assumed=_EQUAL.format(13, 14, 104, 112)),  # each of its two dies is a GPU
    Topology("mi250x", 90010, ((14,),) * 6 + ((13,),) * 2, 1, _MI250X),
    Topology("mi300x", 90402, ((10,), (10,), (9,), (9,)), 8, _MI300),
    Topology("mi300a", 90402, ((10,), (10,), (9,), (9,)), 6, _MI300),
    _even("mi350x", 90500, 4, 8, assumed="of each XCC's 32 CUs, each shader engine is assumed to have 8", xccs=8),
    _even("gfx1030", 100300, 4, 10, arrays=2),  # RX 6900 XT
    _even("gfx1100", 110000, 6, 8, arrays=2),  # RX 7900 XTX
    _even("gfx1101", 110001, 3, 10, arrays=2),  # RX 7800 XT
    _even("gfx1151", 110501, 2, 10, arrays=2),  # Strix Halo
    _even("gfx1200", 120000, 2, 8, arrays=2),  # RX 9060 XT
    _even("gfx1201", 120001, 4, 8, arrays=2),  # RX 9070 XT
)
#: Chips by name.  Chips of one name can be harvested differently: read the topology of the chip at hand.
CHIPS: dict[str, Topology] = {chip.name: chip for chip in _LISTED}
