# SPDX-License-Identifier: GPL-2.0
"""Objects that JSON documents of several commands share (docs/output.md); times in ns."""

from __future__ import annotations

import time

from gpurt._gpurt import lib
from gpurt.types import Document
from pycontrol.link.control import BusStatus, ClientInfo, Durations, RuleInfo, UpdateLatency, told_fields
from pycontrol.observe.judge.finding import Finding


def client(one: ClientInfo) -> Document:
    """A client of a GPU."""
    data = told_fields(one)
    return {"name": data.pop("comm"), "owned_ns": data.pop("held_ns"), **data}


def rule(one: RuleInfo) -> Document:
    """A rule about processes, and its effect.

    ``pid``, ``name`` and ``cgroup`` are also None if this process may not know them.
    """
    named_by = "pid" if one.pid is not None else "name" if one.comm is not None else "cgroup"
    return {
        "effect": "exempt" if one.exempt else "bar", "named_by": named_by, "pid": one.pid or None,
        "name": one.comm or None, "cgroup": one.cgroup or None, "age_ns": time.monotonic_ns() - one.since_ns,
    }  # fmt: skip


def latency(one: UpdateLatency) -> Document:
    """How long the runlist updates of one cause took, with the histogram's counts that are not 0."""
    return {"gpu": one.gpu, "cause": one.cause, "updates": one.count, **_times(one, "updates")}


def bus(one: BusStatus) -> Document:
    """The bus of a GPU: which client has it (None: no client), and how long clients waited before they got it."""
    holder = {
        "client": one.client, "pid": one.pid or None, "name": one.comm or None, "priority": one.priority,
        "held_ns": one.held_ns,
    }  # fmt: skip
    return {
        "gpu": one.gpu, "holder": holder if one.client else None, "waiters": one.waiters, "copies": one.count,
        **_times(one, "copies"),
    }  # fmt: skip


def _times(one: Durations, counted: str) -> Document:
    histogram = [
        {"below_ns": int(lib.gpurt_hist_floor(bucket + 1)), counted: count}
        for bucket, count in enumerate(one.buckets)
        if count
    ]
    return {
        "minimum_ns": one.minimum, "mean_ns": one.mean, "p99_ns": one.percentile(0.99), "maximum_ns": one.maximum,
        "histogram": histogram,
    }  # fmt: skip


def seen_task(
    *, best_effort: bool, jobs: int, mort: int | None, wcrt: int | None, deadline: int, misses: int | None,
    above: bool = False,
) -> Document:
    """The observations of a task in a simulated or real run.

    ``verdict``: "ok", "missed" (a deadline), "above-bound", "unseen" (no job of a real-time task), or "best-effort".
    "above-bound" means that ``mort`` exceeds ``wcrt``, or ``above``: a job that is not done has exceeded it.
    """
    if best_effort:
        verdict = "best-effort"
    elif above or (mort is not None and wcrt is not None and mort > wcrt):
        verdict = "above-bound"
    elif misses:
        verdict = "missed"
    else:
        verdict = "ok" if jobs else "unseen"
    return {
        "best_effort": best_effort, "jobs": jobs, "mort_ns": mort, "wcrt_ns": wcrt, "deadline_ns": deadline,
        "misses": misses, "verdict": verdict,
    }  # fmt: skip


def finding(one: Finding) -> Document:
    """A finding for JSON; times in ns."""
    return {
        "finding": one.what.value, "sort": one.what.sort.value, "task": one.task or None,
        "job": one.job, "message": one.line(), "seen_ns": one.seen, "allowed_ns": one.allowed,
        "because": [one.value for one in one.because], "time_ns": one.time,
    }  # fmt: skip
