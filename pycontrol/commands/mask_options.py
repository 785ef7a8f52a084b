# SPDX-License-Identifier: GPL-2.0
"""Options that the commands of `gpurt plan masks` share: the GPU, the release of Linux, and the notation of masks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from analysis.masks.mapping import LATEST, Release, parse_mask, parse_release
from analysis.masks.topology import CHIPS, Topology
from gpurt.errors import UsageError
from gpurt.types import Document
from pycontrol.machine.topology import gpus

Command = TypeVar("Command", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
#: The word for a mask of all CUs.
ALL = "all"


@dataclass(frozen=True)
class Target:
    """The GPU for which masks are, its number for ROCm, and the release of Linux that maps the bits."""

    topology: Topology
    gpu: int
    release: Release
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> Document:
        """The GPU for JSON."""
        chip = self.topology
        return {
            "chip": chip.name, "kernel": f"{self.release[0]}.{self.release[1]}", "xccs": chip.xccs,
            "engines": chip.engines, "compute_units": chip.units, "assumed": chip.assumed or None,
            "notes": list(self.notes),
        }  # fmt: skip

    @property
    def line(self) -> str:
        """The GPU in one line."""
        chip = self.topology
        engines = ", ".join(map(str, chip.engines))
        xccs = f", on each of {chip.xccs} XCCs" if chip.xccs > 1 else ""
        return (
            f"{chip.name}: {chip.units} CUs on {len(chip.engines)} shader engines ({engines}){xccs}; "
            f"bits as in Linux {self.release[0]}.{self.release[1]}"
        )


def target_options(command: Command) -> Command:
    """Adds the options that select the GPU; `target` takes their values."""
    for option in (
        click.option("--linux", "kernel", metavar="RELEASE",
                     help="Map bits as this release of Linux does, such as 6.1; "
                     "unless given, this machine's, or with --chip 6.12."),
        click.option("--gpu", type=click.IntRange(0, 255), metavar="NUMBER",
                     help="Which GPU of the machine or topology; needed where there are several."),
        click.option("--chip", metavar="NAME|DIRECTORY",
                     help="A chip by name, such as radeon-vii, instead of the machine's; or a machine's copy of "
                          "/sys/class/kfd/kfd/topology."),
    ):  # fmt: skip
        command = option(command)
    return command


def target(chip: str | None, gpu: int | None, kernel: str | None) -> Target:
    """The GPU that the options select.

    Raises:
        UsageError: there is no such chip or GPU, or there are several GPUs and no number is given.
        DeviceError: this machine has no AMD GPU.
        FileError: the topology does not have KFD's format.
    """
    try:
        release = parse_release(kernel) if kernel else LATEST if chip else parse_release(os.uname().release)
    except ValueError as error:
        raise UsageError(f"--linux: {error}") from None
    if chip in CHIPS:
        found, number = CHIPS[chip], gpu or 0
    elif chip is None or os.path.isdir(chip):
        found, number = _machine(Path(chip) if chip else None, gpu)
    else:
        raise UsageError(f"--chip: {chip[:40]!r} is no directory and no chip; there are {', '.join(CHIPS)}")
    notes = (f"{found.assumed}",) if found.assumed else ()
    return Target(found, number, release, notes)


def _machine(root: Path | None, gpu: int | None) -> tuple[Topology, int]:
    found = {one.number: one for one in gpus(root)}
    if gpu is None and len(found) > 1:
        raise UsageError(f"there are several GPUs, with numbers {', '.join(map(str, found))}: name one with --gpu")
    number = next(iter(found)) if gpu is None else gpu
    if number not in found:
        raise UsageError(f"--gpu: there is no GPU {number}; there are {', '.join(map(str, found))}")
    return found[number].topology, found[number].visible


def named_masks(texts: Iterable[str], what: str, prefix: str) -> list[tuple[str, str]]:
    """Name and value of arguments such as ``vision=0xff``; an argument without a name gets ``prefix`` and its index.

    Raises:
        UsageError: a name is not valid, or two are the same.
    """
    found: list[tuple[str, str]] = []
    for number, text in enumerate(texts, 1):
        name, equals, value = text.rpartition("=")
        if equals and not _NAME.fullmatch(name):
            raise UsageError(f"{text[:60]!r}: expected NAME={what} with a name of letters, digits, '.', '_' and '-'")
        found.append((name or f"{prefix}{number}", value))
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two of them are called {twice[0]!r}")
    return found


def mask_of(text: str, name: str, topology: Topology) -> int:
    """A mask in the user's notation: hexadecimal, or the word `all`.  Raises UsageError."""
    if text == ALL:
        return (1 << topology.units) - 1
    try:
        return parse_mask(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
