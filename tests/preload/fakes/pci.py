# SPDX-License-Identifier: GPL-2.0
"""The kernel's files about NVIDIA's GPUs in sysfs, among other devices of a machine."""

from __future__ import annotations

from pathlib import Path

#: Vendor and class of what is no GPU of NVIDIA's: a bridge, a network card, AMD's GPU, and the sound of NVIDIA's GPU.
OTHERS = ((0x8086, 0x060400), (0x15B3, 0x020700), (0x1002, 0x030000), (0x10DE, 0x040300))


def write(root: Path, gpus: int) -> None:
    """Writes bus/pci/devices: the first GPU drives a display, the others do not, and one has a virtual function."""
    devices = [*OTHERS, *((0x10DE, 0x030200 if number else 0x030000) for number in range(gpus))]
    for number, (vendor, kind) in enumerate([*devices, (0x10DE, 0x030200)]):
        folder = root / f"bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text(f"{vendor:#06x}\n")
        (folder / "class").write_text(f"{kind:#08x}\n")
    (folder / "physfn").symlink_to(f"../0000:{len(devices) - 1:02x}:00.0")
