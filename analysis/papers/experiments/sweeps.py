# SPDX-License-Identifier: GPL-2.0
"""The axes that both papers sweep: one parameter takes the values of a panel, the others those of the papers' table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from analysis.papers.experiments.generate import Parameters
from analysis.papers.experiments.plan import Panel
from analysis.papers.experiments.schedulability import Drawable


def tasks(base: Parameters, most: int = 20) -> Panel[Drawable]:
    """The number of all tasks, dealt to the CPUs in turn: 2, 4, ..."""
    return _panel("tasks", "number of tasks", range(2, most + 1, 2), lambda x: replace(base, tasks=int(x)))


def load_sweeps(base: Parameters) -> Panel[Drawable]:
    """Utilization of each CPU, exactly: 0.1 to 0.9."""
    return _panel("load", "utilization per CPU", _tenths(1, 9), lambda x: replace(base, load=(x, x)))


def cpus(base: Parameters) -> Panel[Drawable]:
    """1 to 10 CPUs."""
    return _panel("cpus", "number of CPUs", range(1, 11), lambda x: replace(base, cpus=int(x)))


def users(base: Parameters) -> Panel[Drawable]:
    """Share of tasks that use the GPU: 0.1 to 1."""
    return _panel("users", "ratio of GPU-using tasks", _tenths(1, 10), lambda x: replace(base, users=(x, x)))


def ratio(base: Parameters, values: Iterable[float]) -> Panel[Drawable]:
    """G / C of every GPU-using task."""
    return _panel("ratio", "ratio of G to C", values, lambda x: replace(base, ratio=(x, x)))


def best_effort(base: Parameters) -> Panel[Drawable]:
    """Share of tasks that are best effort: 0.1 to 0.9."""
    return _panel(
        "best-effort", "ratio of best-effort tasks", _tenths(1, 9), lambda x: replace(base, best_effort=x)
    )  # fmt: skip


def _tenths(first: int, last: int) -> list[float]:
    return [tenth / 10 for tenth in range(first, last + 1)]


def _panel(key: str, axis: str, values: Iterable[float], at: Callable[[float], Parameters]) -> Panel[Drawable]:
    return Panel(key, axis, tuple((float(x), at(x)) for x in values))
