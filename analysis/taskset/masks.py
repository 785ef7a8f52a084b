# SPDX-License-Identifier: GPL-2.0
"""CU masks of a file's partitions and tasks, checked against the file's chip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.masks.effect import effect
from analysis.masks.lint import Masked, hangs
from analysis.masks.topology import CHIPS, Topology
from analysis.model import Partition, Platform
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted


def check_masks(name: str, masked: Sequence[tuple[Where, Partition]], platform: Platform, report: Mistakes) -> None:
    """Reports masks that are for another chip than the file's, or that the chip's driver refuses."""
    topology = CHIPS.get(name)
    if topology is None:
        text = f"chip: no chip is called {quoted(name)}, so that masks could be checked; there are {', '.join(CHIPS)}"
        report.add(("platform", "chip"), f"{text}; leave it out for any other")
        return
    if platform.compute_units > topology.units:
        text = f"compute_units: {name} has {topology.units}, got {platform.compute_units}"
        report.add(("platform", "compute_units"), text)
    for where, part in masked:
        mask = part.cu_mask or 0
        wrong = list(_wrong_with(mask, topology))
        for text in wrong:
            report.add(where, f"cu_mask: not for {name}: {text}")
        worth = 0 if wrong else effect(mask, topology).effective
        if not wrong and worth < (part.size or 0):
            text = f"cu_mask: on {name} it works like {worth} CUs, for the smallest shader engine sets the pace"
            report.add(where, f"{text}; say compute_units = {worth}, or take a mask of `gpurt plan masks divide`")


def _wrong_with(mask: int, topology: Topology) -> Iterator[str]:
    """Why a mask is for another chip: bits that this chip lacks, or values that hang a queue (docs/cu-masks.md)."""
    if mask >> topology.units:
        yield f"it has CUs 0 to {topology.units - 1}, the mask has CU {mask.bit_length() - 1}"
    for finding in hangs(Masked("mask", mask), topology):
        yield f"{finding.rule}: {finding.text}"
