# SPDX-License-Identifier: GPL-2.0
"""The findings of the attack on the bounds: a table, and tasksets as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from attack_outcome import Outcome

from analysis.model import Chain, Copy, CpuSegment, Kernel, Partition, Platform, Segment, Span, Task, Taskset
from gpurt.types import Document, DocumentView
from gpurt.units import format_time

Row = DocumentView
ATTACK_COLUMNS = ("test", "sound", "tasksets", "bounded", "jobs", "ratio", "broken")


def row(outcome: Outcome, sound: bool) -> Document:
    """One line of the table, and the simplest counterexample: its task, times (ns) and taskset file."""
    found = outcome.smallest
    return {
        "test": outcome.test, "sound": sound, "tasksets": outcome.tasksets,
        "bounded": outcome.schedulable, "jobs": outcome.jobs,
        "ratio": round(float(outcome.worst.ratio), 4) if outcome.worst else 0.0, "broken": outcome.violations,
        "counterexample": found and {
            "task": found.task, "mort_ns": found.observed, "wcrt_ns": found.bound, "taskset": toml(found.taskset),
        },
    }  # fmt: skip


def standing(found: DocumentView) -> str:
    """How a line's test is shown; a formula outside of the tree is a draft."""
    return "draft" if ".py:" in found["test"] else "sound" if found["sound"] else "unsound"


def attack_table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = "| test | shown as | tasksets | bounded | jobs | highest observed / bound | broken |"
    rule = "|---|---|--:|--:|--:|--:|--:|"
    lines = [
        f"| `{r['test']}` | {standing(r)} | {r['tasksets']:,} | {r['bounded']:,} "
        f"| {r['jobs']:,} | {r['ratio']:.4f} | {r['broken']:,} |"
        for r in rows
    ]
    return "\n".join([head, rule, *lines])


def toml(taskset: Taskset) -> str:
    """The taskset as a file that `gpurt analyze` and `gpurt simulate` read."""
    platform = taskset.platform
    lines = ["[platform]", f"cpus = {platform.cpus}"]
    lines.append(f'epsilon = "{format_time(platform.epsilon)}"')
    if platform.theta_known:
        lines.append(f'theta = "{format_time(platform.theta)}"')
    lines.append(f'time_slice = "{format_time(platform.time_slice)}"')
    if yields := platform.yields:
        known = (one for one in yields.times.items() if one[0] not in ("lazy", "long"))
        times = "".join(f', {key} = "{format_time(time)}"' for key, time in known)
        lines += ['policy = "segment"', f'begin = "{platform.begin}"', f"yield = {{ groups = {yields.groups}{times} }}"]
    if platform.compute_units:
        lines.append(f"compute_units = {platform.compute_units}")
    if any(part.own_gpu for part in taskset.parts):
        lines.append(f'policy = "{platform.policy}"')
        lines += [line for part in taskset.parts for line in ("", *_table(part, platform))]
    for thread in {t.thread: t for t in taskset if t.thread}.values():
        lines += ["", *_thread(thread)]
    for task in taskset:
        fork = taskset.forked.get(task.name)
        worker = fork is not None and fork.task != task.name
        placed = replace(task, gpu_priority=None) if worker else task
        lines += ["", "[[task]]", f'name = "{task.name}"', *(_served(task) if task.thread else _place(placed))]
        if task.waiting.spins:
            lines.append(f'waiting = "{task.waiting.value}"')
        if task.form is not None:
            lines.append(f'form = "{task.form.word}"')
        if not worker:
            lines += [f'period = "{format_time(task.period)}"', f'deadline = "{format_time(task.deadline)}"']
            more = {"jitter": task.jitter, "max_period": task.max_period}
            lines += [f'{key} = "{format_time(time)}"' for key, time in more.items() if time]
        pieces = [_inline(s) for s in task.segments]
        if fork and not worker:
            lines.append(f'group = "{task.name}"')
            named = ", ".join(f'"{name}"' for name in fork.workers)
            pieces[fork.after : fork.after + fork.hold] = [f"{{ workers = [{named}]{', hold = true' * fork.hold} }}"]
        lines.append(f"segments = [{', '.join(pieces)}]")
        if task.partition is not None:
            lines.append(f"partition = {_partition(task.partition)}")
    lines += [line for chain in taskset.chains for line in ("", *_chain(chain))]
    return "\n".join(lines) + "\n"


def _chain(chain: Chain) -> list[str]:
    links = ["triggered" if name in chain.triggered else "sampled" for name in chain.tasks[1:]]
    lines = ["[[chain]]", f'name = "{chain.name}"', f"tasks = {json.dumps(chain.tasks)}"]
    lines.append(f"links = {json.dumps(links)}")
    return [*lines, 'stimulus = "event"'] if chain.event else lines


def _place(task: Task) -> list[str]:
    """Where a task or a thread executes, and how urgent it is."""
    own = [] if task.gpu_priority is None else [f"gpu_priority = {task.gpu_priority}"]
    return [f"cpu = {task.cpu}", f"priority = {task.priority}", *own]


def _thread(one: Task) -> list[str]:
    """The thread that serves a task."""
    assert one.thread is not None
    return ["[[thread]]", f'name = "{one.thread.name}"', *_place(one), f'order = "{one.thread.order.value}"']


def _served(task: Task) -> list[str]:
    """The thread that serves the task, and its place there."""
    assert task.thread is not None
    rank = [f"rank = {task.rank}"] if task.thread.order.ranked else []
    kind = [f'kind = "{task.callback.value}"'] if task.callback else []
    return [f'thread = "{task.thread.name}"', *rank, *kind]


def _table(partition: Partition, platform: Platform) -> list[str]:
    """A partition that tasks share and that is a GPU of its own."""
    alpha, theta = platform.costs(partition)
    costs = [f'epsilon = "{format_time(alpha + theta)}"', f'theta = "{format_time(theta)}"']
    return ["[[partition]]", f'name = "{partition.name}"', f"compute_units = {partition.size}", *costs]


def _partition(partition: Partition) -> str:
    if partition.own_gpu:
        return f'"{partition.name}"'
    keys = []
    if partition.compute_units is not None:
        keys.append(f"compute_units = {partition.compute_units}")
    if partition.cu_mask is not None:
        keys.append(f'cu_mask = "{partition.cu_mask:#x}"')
    return f"{{ {', '.join(keys)} }}"


def _inline(segment: Segment) -> str:
    def span(time: Span) -> str:
        return f'{{ worst = "{format_time(time.worst)}", best = "{format_time(time.best)}" }}'

    def part(one: Copy | Kernel) -> str:
        if isinstance(one, Copy):
            return f"{{ copy = {span(one.time)} }}"
        if one.times:
            return f"{{ kernel_times = [{', '.join(map(span, one.times))}] }}"
        keys = [f"kernel = {span(one.work)}", f'overhead = "{format_time(one.overhead)}"']
        keys += [f'interleave = "{Decimal(one.interleave) / 1000:f}"', f'block = "{format_time(one.block)}"']
        return f"{{ {', '.join(keys)} }}"

    if isinstance(segment, CpuSegment):
        return f"{{ cpu = {span(segment.time)} }}"
    if segment.parts:
        return ", ".join(part(one) for one in segment.parts)
    ready = f", ready = {segment.ready}" if segment.ready else ""
    return f"{{ misc = {span(segment.misc)}, gpu = {span(segment.pure)}{ready} }}"
