"""Short ways to write tasksets (times in milliseconds) and to get bounds; hypothesis strategies for random sets."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from analysis.model import MS, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset
from analysis.papers import registry


def ms(value: float) -> int:
    """Milliseconds to nanoseconds."""
    return round(value * MS)


def cpu(worst: float) -> CpuSegment:
    return CpuSegment(Span.exactly(ms(worst)))


def gpu(misc: float, pure: float) -> GpuSegment:
    return GpuSegment(Span.exactly(ms(misc)), Span.exactly(ms(pure)))


def task(name: str, core: int, priority: int, period: float, *segments: Segment, deadline: float = 0) -> Task:
    return Task(name, core, priority, ms(period), ms(deadline or period), segments)


def taskset(*tasks: Task, epsilon: float = 0, theta: float = 0, slice_: float = 1.024) -> Taskset:
    cpus = max((t.cpu for t in tasks), default=0) + 1
    platform = Platform(cpus, alpha=ms(epsilon) - ms(theta), theta=ms(theta), time_slice=ms(slice_))
    return Taskset(platform, tasks)


def three(theta: float = 0) -> Taskset:
    """h and j on one CPU, i on another; h above i above j, all use the GPU."""
    return taskset(
        task("h", 0, 9, 100, cpu(1), gpu(1, 4), cpu(1)),
        task("i", 1, 5, 200, cpu(2), gpu(1, 5), cpu(2)),
        task("j", 0, 1, 400, cpu(3), gpu(2, 8), cpu(3)),
        theta=theta,
        epsilon=theta,
    )


def wcrt(name: str, system: Taskset, of: str) -> int | None:
    """The bound of a test for one of the tasks, ns."""
    return registry.find(name).run(system).wcrt(of)


@st.composite
def tasksets(draw: st.DrawFn, max_tasks: int = 6, cpus: int = 3, best_effort: bool = True) -> Taskset:
    """Small random tasksets with distinct priorities.  Their utilization is so low that bounds often exist."""
    count = draw(st.integers(1, max_tasks))
    order = draw(st.permutations(range(1, count + 1)))
    tasks = []
    for index in range(count):
        period = draw(st.integers(20, 200))
        segments: list[Segment] = []
        for _ in range(draw(st.integers(1, 3))):
            length = draw(st.integers(0, max(1, period // 12)))
            if draw(st.booleans()):
                segments.append(cpu(length))
            else:
                segments.append(gpu(draw(st.integers(0, 2)), length))
        new = task(f"t{index}", draw(st.integers(0, cpus - 1)), order[index], period, *segments)
        if best_effort and draw(st.integers(0, 5)) == 0:
            new = replace(new, priority=0)
        tasks.append(new)
    epsilon = draw(st.integers(0, 2))
    return taskset(*tasks, epsilon=epsilon, theta=epsilon / 2, slice_=draw(st.sampled_from([1, 3])))
