# SPDX-License-Identifier: GPL-2.0
"""The GPU instances of divided NVIDIA GPUs (MIG) on this machine, and the numbers that hosts have for them."""

from __future__ import annotations

from pathlib import Path

from gpurt._gpurt import lib
from gpurt.files import matching


def instances(root: Path = Path("/")) -> tuple[int, list[tuple[int, int, int]]]:
    """The number of NVIDIA GPUs (0: unknown); and for each GPU instance its GPU, its instance id and its number.

    The driver lists them by the numbers of /dev/nvidia* (osRmCapRegisterGpu() in os.c).
    """
    folders = matching(root / "proc/driver/nvidia/capabilities", "gpu[0-9]*/mig/gi[0-9]*")
    found = sorted((int(one.parents[1].name[3:]), int(one.name[2:])) for one in folders)
    gpus = lib.gpurt_mig_gpus(str(root / "sys/bus/pci/devices").encode()) if found else 0
    return gpus, [(gpu, instance, lib.gpurt_mig_number(gpu, instance, gpus)) for gpu, instance in found]


def shared_numbers(root: Path = Path("/")) -> list[int]:
    """The numbers that several instances share."""
    numbers = [number for _, _, number in instances(root)[1]]
    return sorted({one for one in numbers if numbers.count(one) > 1})
