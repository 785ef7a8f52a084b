# SPDX-License-Identifier: GPL-2.0
"""What the attack on the bounds found, as text: the table of docs/soundness.md and tasksets as files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from analysis import rta
from analysis.attack import Outcome, attack
from analysis.model import CpuSegment, Segment, Span, Taskset
from pycontrol.units import format_time


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a Markdown table."""
    head = "| test | shown as | tasksets | bounded | jobs | highest observed / bound | broken |"
    rule = "|---|---|--:|--:|--:|--:|--:|"
    rows = [
        f"| `{o.test}` | {'sound' if rta.find(o.test).sound else 'unsound'} | {o.tasksets:,} | {o.schedulable:,} "
        f"| {o.jobs:,} | {float(o.worst.ratio) if o.worst else 0:.4f} | {o.violations:,} |"
        for o in outcomes
    ]
    return "\n".join([head, rule, *rows])


def toml(taskset: Taskset) -> str:
    """The taskset as a file that `gpurt analyze` and `gpurt simulate` read."""
    platform = taskset.platform
    lines = ["[platform]", f"cpus = {platform.cpus}"]
    lines.append(f'epsilon = "{format_time(platform.epsilon)}"')
    lines.append(f'theta = "{format_time(platform.theta)}"')
    lines.append(f'time_slice = "{format_time(platform.time_slice)}"')
    for task in taskset:
        lines += ["", "[[task]]", f'name = "{task.name}"', f"cpu = {task.cpu}", f"priority = {task.priority}"]
        if task.gpu_priority is not None:
            lines.append(f"gpu_priority = {task.gpu_priority}")
        lines += [f'period = "{format_time(task.period)}"', f'deadline = "{format_time(task.deadline)}"']
        lines.append(f"segments = [{', '.join(_inline(s) for s in task.segments)}]")
    return "\n".join(lines) + "\n"


def _inline(segment: Segment) -> str:
    def span(time: Span) -> str:
        return f'{{ worst = "{format_time(time.worst)}", best = "{format_time(time.best)}" }}'

    if isinstance(segment, CpuSegment):
        return f"{{ cpu = {span(segment.time)} }}"
    return f"{{ misc = {span(segment.misc)}, gpu = {span(segment.pure)} }}"


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m analysis.attack_report`: the table of docs/soundness.md."""
    parser = argparse.ArgumentParser(description="Search for schedules that break the bounds.")
    parser.add_argument("tests", nargs="*", default=list(rta.TESTS), help="names; all unless given")
    parser.add_argument("--tasksets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    outcomes = []
    for name in options.tests:
        outcomes.append(attack(name, options.tasksets, options.seed, options.jobs))
        print(table(outcomes[-1:]).splitlines()[-1], flush=True)
        found = outcomes[-1].smallest
        if found:
            print(f"{found.task}: {found.observed} ns observed, bound {found.bound} ns", flush=True)
            print(toml(found.taskset), flush=True)


if __name__ == "__main__":
    main()
