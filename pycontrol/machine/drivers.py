# SPDX-License-Identifier: GPL-2.0
"""The GPU drivers of a machine, and which host fits them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/")
#: The name that a patched driver states -> its usual name, and its device nodes.
DRIVERS = {
    "nvgpu": ("nvgpu", ("dev/nvhost-gpu", "dev/nvgpu/igpu0/ctrl")),
    "nvidia": ("NVIDIA", ("dev/nvidiactl",)),
    "amdgpu": ("amdgpu/KFD", ("dev/kfd",)),
}
#: The symbol of the port that a patched driver exports (kmod/drv/port.c).
_PORT = re.compile(rb"\b(nvgpu|nvidia|amdgpu)_gpurt_port\b")


def unpatched(root: Path = ROOT, known: frozenset[str] = frozenset()) -> list[str]:
    """The usual names of drivers whose device nodes exist, except the patched drivers in ``known``."""
    rest = [one for driver, one in DRIVERS.items() if driver not in known]
    return [usual for usual, nodes in rest if any((root / node).exists() for node in nodes)]


def patched(root: Path = ROOT) -> frozenset[str]:
    """The loaded drivers that are patched, from the kernel's list of symbols, which takes 0.1 s to read."""
    if not unpatched(root):
        return frozenset()
    try:
        return frozenset(one.decode() for one in _PORT.findall((root / "proc/kallsyms").read_bytes()))
    except OSError:
        return frozenset()


def first_host(root: Path = ROOT) -> str:
    """The host to start on a machine without a host, as a command with its reason."""
    if found := patched(root):
        names = ", ".join(DRIVERS[driver][0] for driver in sorted(found))
        return f"load gpurt.ko (Debian's package gpurt-dkms), for the driver {names} is patched"
    if usual := unpatched(root):
        return f"start 'gpurt serve', for there is a GPU whose driver is not patched ({', '.join(usual)})"
    return "start 'gpurt emulate', whose GPUs are virtual, for no GPU driver is found here"
