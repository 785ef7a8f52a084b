# SPDX-License-Identifier: GPL-2.0
"""Figure 7 of RTNS'21: how many threads of MM1024 and MM256 execute over time when they share the whole GPU."""

from __future__ import annotations

import pytest
from dispatch import LaunchStream, Settings, dispatcher, timeline

from analysis.masks.topology import CHIPS

RADEON = CHIPS["radeon-vii"]
ALL, US = (1 << 60) - 1, 1000
#: All threads that the 60 CUs of a Radeon VII execute at once.
FULL = 122_880
MM1024 = LaunchStream("mm1024", ALL, 1024, 1024, 259 * US, 431 * US)
OTHER = LaunchStream("other", ALL, 1024, 1024, 259 * US, 431 * US, offset=800 * US)
MM256 = LaunchStream("mm256", ALL, 4096, 256, 259 * US, 431 * US, offset=800 * US)


def shares(*streams: LaunchStream, after: int = 1600 * US) -> list[float]:
    """The mean part of the GPU that each stream has from then until a kernel ends."""
    gpu, settings = dispatcher(streams, RADEON), Settings(1)
    trace = timeline(gpu, streams, settings)
    end = min(event.time + (event.duration or 0) for event in trace.events)
    found = []
    for counter in trace.counters.values():
        spans = zip(counter, [*counter[1:], (end, 0)], strict=True)
        work = sum(active * max(0, min(until, end) - max(at, after)) for (at, active), (until, _) in spans)
        found.append(work / FULL / (end - after))
    return found


def test_a_kernel_alone_uses_all_threads() -> None:
    """Figure 7a: a plateau at 122,880 threads."""
    trace = timeline(dispatcher([MM1024], RADEON), [MM1024], Settings(1))
    (counter,) = trace.counters.values()
    assert max(active for _, active in counter) == FULL
    assert shares(MM1024, after=400 * US)[0] > 0.85


def test_equal_blocks_share_and_smaller_ones_cut_ahead() -> None:
    """Figures 7b and 7c."""
    even, other = shares(MM1024, OTHER)
    assert even == pytest.approx(other, rel=0.15)
    starved, ahead = shares(MM1024, MM256)
    assert starved < 0.3 * ahead
