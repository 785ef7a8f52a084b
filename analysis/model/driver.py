# SPDX-License-Identifier: GPL-2.0
"""Time slices as nvgpu sets them (R35 and R36): in microseconds, and as a number of at most eight bits with a shift."""

from __future__ import annotations

from analysis.model import US

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


def longest_slice(slice_: int, stretch: bool) -> int:
    """The longest time that the slice may last, ns, rounded up; with ``stretch``, as long as on the hardware."""
    return -(-slice_ * STRETCH[0] // STRETCH[1]) if stretch else slice_
