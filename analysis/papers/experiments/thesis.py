# SPDX-License-Identifier: GPL-2.0
"""Figures 4.6 to 4.13 of the thesis (section 4.7.1)."""

from __future__ import annotations

from dataclasses import replace

from analysis.papers.experiments import sweeps
from analysis.papers.experiments.boosted import BOOSTED
from analysis.papers.experiments.generate import THESIS
from analysis.papers.experiments.plan import Panel
from analysis.papers.experiments.schedulability import Curve, Drawable, Schedulability

#: "The improved analysis given in Sec. 4.6.2 with the GPU priority assignment"; the kernel thread has none.
COMPARED = (
    Curve("ioctl_suspend", "thesis-ioctl-suspend-reduced+gpu-priority"),
    Curve("ioctl_busy", "thesis-ioctl-busy-reduced+gpu-priority"),
    Curve("kthread_busy", "thesis-kthread-busy+gpu-priority"),
    Curve("mpcp_suspend", "mpcp-suspend"),
    Curve("mpcp_busy", "mpcp-busy"),
    Curve("fmlp+_suspend", "fmlp-suspend"),
    Curve("fmlp+_busy", "fmlp-busy"),
    *BOOSTED,
    Curve("ioctl_suspend, printed", "thesis-ioctl-suspend-printed"),
    Curve("ioctl_busy, printed", "thesis-ioctl-busy-printed"),
    Curve("kthread_busy, printed", "thesis-kthread-busy-printed"),
    Curve("mpcp_suspend, published", "mpcp-suspend-published"),
    Curve("mpcp_busy, published", "mpcp-busy-published"),
    Curve("fmlp+_suspend, published", "fmlp-suspend-published"),
    Curve("fmlp+_busy, published", "fmlp-busy-published"),
)

PANELS = {
    "4.6": sweeps.tasks(THESIS),
    "4.7": sweeps.cpus(THESIS),
    "4.8": sweeps.load_sweeps(THESIS),
    "4.9": sweeps.users(THESIS),
    "4.10": sweeps.ratio(THESIS, [step / 10 for step in range(1, 11)]),
    "4.11": sweeps.best_effort(THESIS),
}

#: Figure 4.13: two CPUs, two to four tasks on each, and the three tasks that make overlaps likely.
OVERLAPPING = replace(THESIS, cpus=2, tasks_per_cpu=(2, 4), overlap=True)


def _compared(figure: str, panel: Panel[Drawable]) -> Schedulability:
    title = f"Schedulability by {panel.axis}"
    return Schedulability(f"thesis-fig{figure}", title, f"thesis figure {figure}", (panel,), COMPARED)


def _pairs(names: dict[str, str], suffix: str, label: str) -> tuple[Curve, ...]:
    """Each test without and with the suffix."""
    pairs = [(Curve(name, test), Curve(f"{name}, {label}", test + suffix)) for name, test in names.items()]
    return tuple(curve for pair in pairs for curve in pair)


IOCTL = {"ioctl_suspend": "thesis-ioctl-suspend", "ioctl_busy": "thesis-ioctl-busy"}
BOOST = {"boosted_suspend": "boosted-suspend", "boosted_busy": "boosted-busy"}

EXPERIMENTS = [
    *(_compared(figure, panel) for figure, panel in PANELS.items()),
    Schedulability(
        "thesis-fig4.12", "Gain by GPU priority assignment", "thesis figure 4.12", tuple(PANELS.values()),
        _pairs({**IOCTL, "kthread_busy": "thesis-kthread-busy", **BOOST}, "+gpu-priority", "GPU priorities"),
    ),
    Schedulability(
        "thesis-fig4.13", "Gain by the analysis with reduced pessimism", "thesis figure 4.13",
        (
            sweeps.tasks(OVERLAPPING, 8), sweeps.users(OVERLAPPING),
            sweeps.ratio(OVERLAPPING, [step / 10 for step in range(1, 11)]), sweeps.best_effort(OVERLAPPING),
        ),
        (
            *_pairs(IOCTL, "-reduced", "reduced"),
            Curve("ioctl_suspend, reduced, printed", "thesis-ioctl-suspend-reduced-printed"),
            Curve("ioctl_busy, reduced, printed", "thesis-ioctl-busy-reduced-printed"),
            Curve("ioctl_suspend, printed", "thesis-ioctl-suspend-printed"),
            Curve("ioctl_busy, printed", "thesis-ioctl-busy-printed"),
        ),
    ),
]  # fmt: skip
