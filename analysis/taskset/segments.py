# SPDX-License-Identifier: GPL-2.0
"""The segments of a task in a taskset file: CPU segments, GPU segments, and copies and kernels."""

from __future__ import annotations

from decimal import Decimal
from itertools import groupby
from typing import Any

from analysis.model import Copy, CpuSegment, GpuSegment, Kernel, Segment, Span
from analysis.model.fold import whole_gpu
from analysis.model.kernel import MAX_INTERLEAVE, WHOLE
from analysis.taskset import schema
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Field, Mistakes, ValueKind
from gpurt.types import Document, TomlValue


def _work() -> ValueKind:
    """A kernel's time alone on one unit.  Earlier versions accepted a profile's name there."""
    plain = schema.span()

    def read(value: TomlValue, path: Where, report: Mistakes) -> Any:
        if isinstance(value, str) and value[:1].isalpha():
            named = schema.quoted(value)
            report.add(path, f"kernel: {named} is no time; the name of a [[profile]] is {{ profile = {named} }}")
            return None
        return plain.read(value, path, report)

    return ValueKind(read, plain.schema)


SEGMENT = {
    "cpu": Field(schema.span(), "a CPU segment"),
    "misc": Field(schema.span(), "G^m, the CPU work of a GPU segment"),
    "gpu": Field(schema.gpu_time(), "G^e, the pure GPU work of a GPU segment"),
    "ready": Field(
        schema.integer(1, 1000),
        "begin by yield: at most how often its group becomes ready on the GPU; 1 if G^e has no gap; unknown "
        "unless given",
    ),
    "copy": Field(schema.span(), "a copy between host and GPU"),
    "kernel": Field(_work(), "a kernel: its time alone on one SM or CU"),
    "overhead": Field(
        schema.time(), "the part of a kernel that more SMs or CUs do not shorten; none unless given",
        assumes="all of the kernel is divided by the number of units",
    ),
    "interleave": Field(
        schema.string("^(1([.][0-9]{1,3})?|2([.]0{1,3})?)$", 'a factor from "1" to "2" with up to three digits'),
        "how much longer a kernel takes when its two halves interleave on each SM or CU; 2, the most, unless given",
    ),
    "block": Field(
        schema.time(), "the longest thread block of a kernel alone; unless given, work divides without limit",
        assumes="no preemption waits for its thread blocks, and units share its work evenly",
    ),
    "kernel_times": Field(
        schema.array(schema.span(), "an array of times"), "a kernel's times on 1, 2, ... SMs or CUs, as measured"
    ),
    "profile": Field(
        schema.string("^[A-Za-z0-9_.-]{1,64}$", "the name of a [[profile]]"),
        "a copy in, a kernel and a copy out, as the [[profile]] of that name says",
    ),
    "workers": Field(
        schema.array(schema.string("^[A-Za-z0-9_.-]{1,64}$", "a task's name"), "an array of names"),
        "the tasks that the job starts here; it sleeps until all are done",
    ),
    "hold": Field(schema.boolean(), "whether it is in a GPU segment from before its workers start until all are done"),
}  # fmt: skip
#: The key of a segment in which a task starts its workers.
WORKERS_KEY = "workers"
#: The keys that are only for kernels.
_OF_KERNEL = {"overhead", "interleave", "block"}
#: The keys of the other kinds of segments.
_ALONE = (
    {"cpu"}, {"misc", "gpu"}, {"misc", "gpu", "ready"}, {"copy"}, {"kernel_times"}, {"profile"}, {"workers"},
    {"workers", "hold"},
)
_FORMS = (
    'a segment is { cpu = "..." }, { misc = "...", gpu = "..." }, { copy = "..." }, { kernel = "..." } with overhead, '
    'interleave and block, { kernel_times = ["...", ...] }, { profile = "..." } or { workers = ["...", ...] }, '
    "also with hold"
)
#: By the keys of an incomplete segment, a message that names the missing key.
_INCOMPLETE = {
    frozenset({"gpu"}): '"misc" is missing: the CPU work of this GPU segment; misc = "0ms" if there is none',
    frozenset({"misc"}): '"gpu" is missing: its pure GPU work; work of the CPU alone is { cpu = "..." }',
    frozenset({"hold"}): '"workers" is missing: the tasks that it starts and waits for',
    frozenset({"cpu", "gpu"}): 'CPU work before or after GPU work is a segment of its own: { cpu = "..." }, '
                               '{ misc = "0ms", gpu = "..." }; misc is what the CPU does for the GPU work',
}  # fmt: skip


def check_segments(segments: list[Document], units: int, period: int | None, path: Where, report: Mistakes) -> None:
    """Reports segments of no known kind, and impossible kernels and copies.  ``units``: the platform's."""
    for index, segment in enumerate(segments):
        where = (*path, index)
        keys = set(segment)
        if keys not in _ALONE and keys - _OF_KERNEL != {"kernel"}:
            report.add(where, _INCOMPLETE.get(frozenset(keys), _FORMS))
        elif keys & {"kernel", "kernel_times"} and not units:
            report.add(where, "a kernel needs SMs or CUs: say how many the GPU has, compute_units in [platform]")
        elif "kernel" in keys:
            _check_kernel(segment, where, report)
        elif "kernel_times" in keys:
            for place, time in enumerate(segment["kernel_times"]):
                if not time.best:
                    report.add((*where, "kernel_times"), f"kernel_times: the time on {place + 1} is 0")
        elif "copy" in keys and period is not None and segment["copy"].worst > period:
            report.add((*where, "copy"), "copy: is longer than the task's period")


def _check_kernel(segment: Document, where: Where, report: Mistakes) -> None:
    kernel = _kernel(segment)
    if WHOLE * kernel.overhead > kernel.interleave * kernel.work.worst:
        report.add((*where, "overhead"), "overhead: is part of the kernel's time, and cannot be longer")
    if kernel.block > kernel.work.worst:
        report.add((*where, "block"), "block: is part of the kernel's time, and cannot be longer")


def uses_gpu(task: Document) -> bool:
    """Whether a [[task]], which may have mistakes, has segments that use more than the CPU."""
    segments = task.get("segments")
    return isinstance(segments, list) and any(isinstance(one, dict) and set(one) != {"cpu"} for one in segments)


def segments_of(values: list[Document], units: int) -> tuple[Segment, ...]:
    """The segments; those that start workers are left out, unless the task holds a segment while these execute.

    Copies and kernels in a row are the parts of one GPU segment.
    """
    found: list[Segment] = []
    for keys, run in groupby(values, key=lambda one: {"cpu", "gpu", WORKERS_KEY} & set(one)):
        if WORKERS_KEY in keys:
            found += (GpuSegment(Span(0, 0), Span(0, 0)) for one in run if one.get("hold"))
        elif not keys:
            found.append(whole_gpu(tuple(_part(one) for one in run), units))
        else:
            found += (CpuSegment(one["cpu"]) if "cpu" in one else _gpu(one) for one in run)
    return tuple(found)


def _gpu(segment: Document) -> GpuSegment:
    """A GPU segment.  A segment that scales gets its time when all tasks are known (partitions.placed_in)."""
    time, ready = segment["gpu"], segment.get("ready")
    if isinstance(time, Span):
        return GpuSegment(segment["misc"], time, ready=ready)
    return GpuSegment(segment["misc"], Span.exactly(time.worst(schema.MAX_UNITS)), scaling=time, ready=ready)


def _part(segment: Document) -> Copy | Kernel:
    return Copy(segment["copy"]) if "copy" in segment else _kernel(segment)


def _kernel(segment: Document) -> Kernel:
    if "kernel_times" in segment:
        return Kernel.measured(segment["kernel_times"])
    interleave = int(Decimal(segment["interleave"]) * WHOLE) if "interleave" in segment else MAX_INTERLEAVE
    return Kernel(segment["kernel"], segment.get("overhead", 0), interleave, segment.get("block", 0))
