# SPDX-License-Identifier: GPL-2.0
"""Time slices as nvgpu sets them (R35 and R36): in microseconds, and as a number of at most eight bits with a shift."""

from __future__ import annotations

from functools import cache

from analysis.model import MS, US

#: The slices that the driver's setter accepts, ns.
SHORTEST, LONGEST = MS, 50 * MS
#: The slice of a TSG unless someone sets it, ns.
DEFAULT = 1_024 * US
#: The largest number that the register holds.  A longer slice is halved, rounding down, until it fits.
MAX_REGISTER = 255
#: A slice lasts longer than set by this factor: the hardware counts units of 1,024 ns, the driver writes us.
STRETCH = 1_024, 1_000


def settled(slice_: int) -> int:
    """The slice that the hardware gets, ns: never longer than the one set.  Below 1 us: unchanged."""
    number, shift = slice_ // US, 0
    if not number:
        return slice_
    while number > MAX_REGISTER:
        number, shift = number // 2, shift + 1
    return (number << shift) * US


@cache
def settable() -> tuple[int, ...]:
    """All slices that the setter accepts and the hardware keeps as they are, ns, ascending."""
    return tuple(ns for ns in range(SHORTEST, LONGEST + 1, US) if settled(ns) == ns)


def longest_slice(slice_: int, stretch: bool) -> int:
    """The longest time that the slice may last, ns, rounded up; with ``stretch``, as long as on the hardware."""
    return -(-slice_ * STRETCH[0] // STRETCH[1]) if stretch else slice_
