# SPDX-License-Identifier: GPL-2.0
"""The offer of a mechanism that divides a GPU, read from the file's chip or from this machine's GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from analysis.masks.topology import CHIPS, Topology
from analysis.model import Taskset
from analysis.partition import mechanism as ways
from analysis.partition.mechanism import GRAINS, Grain
from gpurt.errors import DeviceError, UsageError
from pycontrol.act.run.confine import PERCENTAGE
from pycontrol.machine import cuda_device
from pycontrol.machine.topology import gpus

SIZES_CURE = "without it give the sizes: --units, --sizes and --max-partitions"


@dataclass(frozen=True)
class Offer:
    """The known facts of the GPU.

    ``units``: its SMs, if the device reports them.  ``title``: the device in words.  ``device``: its number.
    """

    mechanism: str
    hardware: ways.Hardware
    units: int | None = None
    title: str = ""
    device: int = 0


def read_offer(mechanism: str, device: int | None, taskset: Taskset, units: int | None) -> Offer:
    """The mechanism's offer on the GPU.  ``units``: how many units it divides, as the user says; None: not stated.

    Raises UsageError; DeviceError if NVIDIA's GPU is missing or lacks the mechanism.
    """
    if mechanism not in (ways.CU_MASK, ways.GREEN):
        if device is not None:
            raise UsageError(f"--gpu goes with cu-mask and green-context; {mechanism} reads no GPU")
        if mechanism == ways.STATIC and units is None:
            raise UsageError("--mechanism mps-static: say by --units how many SMs its chunks have together, which "
                             "`lspart` of MPS's control daemon lists: fewer than the GPU has, perhaps")  # fmt: skip
        return Offer(mechanism, None)
    if mechanism == ways.CU_MASK:
        return Offer(mechanism, _chip(taskset, device))
    try:
        return _green(device or 0)
    except DeviceError as error:
        raise DeviceError(f"--mechanism {mechanism}: {error}; {SIZES_CURE}") from None


def _chip(taskset: Taskset, device: int | None) -> Topology:
    """The file's chip, or an AMD GPU of this machine.  Raises UsageError."""
    chip = CHIPS.get(taskset.platform.chip or "")
    if chip and device is not None:
        raise UsageError(f"--gpu: the file names its chip, {chip.name}; take out one of both")
    if chip:
        return chip
    try:
        there = gpus()
    except DeviceError:
        there = []
    chosen = there if device is None else [one for one in there if one.number == device]
    if len(chosen) != 1:
        count = f"{len(there)} AMD GPUs are here" if there else "no AMD GPU is here"
        count += f", none with number {device}" if there and device is not None else ""
        cure = f"name one of {', '.join(CHIPS)} as chip in [platform]"
        raise UsageError(f"--mechanism cu-mask: {count}; {cure}{', or --gpu' if there else ''}")
    return chosen[0].topology


def _green(number: int) -> Offer:
    if os.environ.get(PERCENTAGE, "100") != "100":
        raise UsageError(f"{PERCENTAGE} is set: the driver would tell a share of the SMs; unset it")
    found = cuda_device.read_device(number)
    grain = GRAINS.get(found.major)
    if grain is None:
        known = f"{min(GRAINS)}.x to {max(GRAINS)}.x"
        capability = f"{found.major}.{found.minor}"
        raise DeviceError(f"{found.name} has compute capability {capability}; sizes are known of {known}")
    title = f"GPU {number} as CUDA counts is {found.name} with {found.units} SMs"
    return Offer(ways.GREEN, grain, found.units, title, number)


def limited(offer: Offer, given: Any) -> Any:
    """The workload, with the sizes and the number of partitions limited to the mechanism's.  Raises UsageError."""
    name = f"--mechanism {offer.mechanism}"
    hardware = offer.hardware
    if isinstance(hardware, Topology) and hardware.units != given.units:
        raise UsageError(f"{name}: {hardware.name} has {hardware.units} CUs, the platform {given.units}")
    if offer.units not in (None, given.units):
        raise UsageError(f"{name}: {offer.title}, the platform has {given.units}")
    at_most = min((one for one in (given.most, ways.most(offer.mechanism)) if one is not None), default=None)
    sizes = ways.sizes(offer.mechanism, given.units, hardware)
    offered = tuple(one for one in sizes if one in given.allowed)  # also limited by the file
    if not offered:
        there = f" ({', '.join(map(str, sizes))})" if 1 <= len(sizes) <= 16 else ""
        raise UsageError(f"{name}: none of its sizes{there} is one that the file's units allow")
    return replace(given, sizes=offered, most=at_most)


def unconfirmed(offer: Offer, sizes: Sequence[int]) -> str:
    """Why the driver makes no green contexts of such sizes, or was not asked; empty if it makes them.

    SMs come in clusters, so the driver makes fewer groups than SMs / size: an H200 with 132 SMs has 15 groups of 8.
    Raises DeviceError.
    """
    if not isinstance(offer.hardware, Grain) or not sizes:
        return ""
    common = gcd(*sizes)
    listed = ", ".join(map(str, sizes))
    if common < offer.hardware.least:
        return (f"whether the driver makes contexts of {listed} SMs is not known: they are no multiples of one size "
                f"that a split may have; limit the file's units to multiples of {offer.hardware.least}")  # fmt: skip
    there = cuda_device.sm_groups(offer.device, common)
    if there is None:
        return "the driver has no green contexts: they came with CUDA 12.4"
    if sum(sizes) > there * common:
        return f"contexts of {listed} SMs need {sum(sizes) // common} groups of {common} SMs, the driver makes {there}"
    return ""


def offer_conditions(offer: Offer, sizes: Sequence[int]) -> list[str]:
    """Conditions of a plan with such sizes, for the user."""
    if offer.mechanism == ways.MPS:
        return ["MPS limits how many SMs a program uses, not which: partitions are not isolated"]
    if offer.mechanism == ways.STATIC:
        made = ", ".join(f"{size} SMs" for size in sizes)
        return [f"make the partitions ({made}) by `sm_partition add GPU-UUID CHUNKS` of nvidia-cuda-mps-control, and "
                "write what it prints as mps_partition"] if sizes else []  # fmt: skip
    if isinstance(offer.hardware, Grain):
        grain = offer.hardware
        notes = [f"{offer.title}: green contexts have {grain.least} SMs or more, in steps of {grain.step}, by NVIDIA's "
                 "documents"]  # fmt: skip
        if sizes:
            notes.append(f"the driver confirms it for one split in groups of {gcd(*sizes)} SMs, of which contexts have "
                         "one or more")  # fmt: skip
        return notes
    return []
