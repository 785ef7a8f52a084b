# SPDX-License-Identifier: GPL-2.0
"""Begin by yield: the most urgent process launches at once, and the host takes the others off during its segment.

The added waits become part of its G^e.  Then the bounds for isolated begins hold (docs/readings/yield.md).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from analysis.model import Copy, CpuSegment, GpuSegment, Segment, Task, Taskset
from analysis.model.platform import ISOLATED, TURNS, Platform, Yield
from analysis.rta.regions import longest_known
from gpurt.units import exact_ms


def users(taskset: Taskset) -> list[Task]:
    """The real-time tasks that use the GPU, highest GPU priority first."""
    return sorted((t for t in taskset.real_time if t.uses_gpu), key=lambda t: -t.segment_priority)


def wait(segment: GpuSegment, taskset: Taskset) -> int:
    """By how much a segment of the most urgent task may exceed G^e, beyond the charges for updates, ns.

    min(k Delta + (m + h) (theta + s), W): lemmas 1 and 2.  If no other real-time task uses the GPU, no update is
    charged, and W includes one.  Only W holds if a slice of the task itself may end before others are off, or if a
    turn may be handed on more than once before the host knows of the segment.
    """
    platform, others = taskset.platform, len(users(taskset)) - 1
    values = _values(platform)
    off = values.lazy + 2 * values.decision + (0 if others else platform.epsilon)
    alone = values.lazy + 2 * values.decision + platform.epsilon
    handed = platform.begin == TURNS
    if not segment.ready or min(segment.pure.worst, alone) > values.long or (handed and values.decision > values.lazy):
        return off
    groups, turn = values.groups + others, platform.theta + values.slice
    return min(segment.ready * (groups * turn + platform.theta) + (groups + handed) * turn, off)


def _values(platform: Platform) -> Yield:
    assert platform.yields is not None, "refusal() objects"
    return platform.yields


def contained(taskset: Taskset) -> Taskset:
    """Replaces begin by yield by isolated begins: the result has a bound wherever the taskset has one."""
    platform, found = taskset.platform, users(taskset)
    if platform.begin == ISOLATED or not found:
        return taskset
    longer = replace(found[0], segments=tuple(_longer(one, taskset) for one in found[0].segments))
    alone = {"alpha": 0, "theta": 0} if len(found) == 1 else {}
    platform = replace(platform, begin=ISOLATED, yields=None, **alone)  # type: ignore[arg-type]
    return replace(taskset, platform=platform, tasks=tuple(longer if t is found[0] else t for t in taskset))


def _longer(segment: Segment, taskset: Taskset) -> Segment:
    if isinstance(segment, CpuSegment):
        return segment
    return replace(segment, pure=replace(segment.pure, worst=segment.pure.worst + wait(segment, taskset)))


def remarks(taskset: Taskset) -> list[str]:
    """A sentence on how much longer the most urgent task's segments count; none where segments begin otherwise."""
    platform, found = taskset.platform, users(taskset)[:1]
    if platform.begin == ISOLATED or platform.yields is None or not found:
        return []
    times = ", ".join(exact_ms(wait(one, taskset)) for one in found[0].gpu_segments)
    longer = f"the GPU segments of {found[0].name} count as longer by what they may wait: {times}"
    return [f"begin by {platform.begin}: {longer}"]


def refusal(name: str, taskset: Taskset, able: bool) -> str | None:
    """Why the test has no bound for segments that begin by yield; None if it has one, or if no segment does.

    ``able``: whether segments may begin by yield in the test's system.
    """
    platform, found = taskset.platform, users(taskset)
    if platform.begin == ISOLATED or not found:
        return None
    if not able:
        return f'{name} is for begin = "{ISOLATED}", and the file has "{platform.begin}"'
    values, equal = platform.yields, _equal(found)
    region = max(platform.region, longest_known(taskset))
    free = {t.process or (t.thread.name if t.thread else t.name) for t in taskset if t.best_effort and t.uses_gpu}
    least = min(len(free), 1) if platform.begin == TURNS else len(free)
    reasons = {
        "yield is missing in [platform]: what was measured of slices and decisions": values is None,
        "theta is missing in [platform]: what a context switch takes": not platform.theta_known,
        f"alpha is below theta{' and the region' * bool(region)}, although updates wait for switches under way":
            platform.alpha < platform.theta + region,
        f"groups is below {least}: so many of the file's best-effort processes use the GPU at once":
            values is not None and values.groups < least,
        "stall is not 0: anyone may make calls at any rate, and each stops whatever executes":
            values is not None and values.stall > 0,
        "no bound is known for partitions, workers and processes of several threads whose segments begin by yield":
            bool(taskset.partitions or taskset.forks or taskset.processes),
        f"{equal}, which begin by yield has no bound for": bool(equal),
        "segments with copies begin otherwise, and no bound is known for both ways together":
            any(isinstance(part, Copy) for task in found for one in task.gpu_segments for part in one.parts),
    }  # fmt: skip
    return next((why for why, there in reasons.items() if there), None)


def _equal(found: list[Task]) -> str:
    """Two tasks of one GPU priority; empty if there are none."""
    same = (both for both in pairwise(found) if both[0].segment_priority == both[1].segment_priority)
    return next((f"{one.name} and {other.name} have the same GPU priority" for one, other in same), "")
