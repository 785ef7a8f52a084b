# SPDX-License-Identifier: GPL-2.0
"""Fake sysfs trees, and a fake NVML library, for tests of pycontrol.machine.power."""

from __future__ import annotations

import ctypes
import subprocess
from _ctypes import dlclose
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent / "power_fake/nvml.c"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1")


def grow(root: Path, files: Mapping[str, object]) -> Path:
    """Writes files below a folder; their values end with a line break, as the kernel's do."""
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return root


def rapl(root: Path, zone: str = "intel-rapl:0", energy: object = 1000, most: object = 262143328850) -> Path:
    """A RAPL zone; returns its counter."""
    folder = f"class/powercap/{zone}"
    grow(root, {f"{folder}/name": "package-0", f"{folder}/energy_uj": energy, f"{folder}/max_energy_range_uj": most})
    return root / folder / "energy_uj"


def amdgpu(root: Path, number: int, files: Mapping[str, object], driver: str = "amdgpu") -> None:
    """An hwmon device of a PCI device, with the link that the kernel makes."""
    device = root / f"devices/pci0000:00/0000:0{number}:00.0"
    device.mkdir(parents=True)
    grow(root / f"class/hwmon/hwmon{number}", {"name": driver, **files})
    (root / f"class/hwmon/hwmon{number}/device").symlink_to(device)


def ina3221(root: Path, chip: str, rails: Mapping[int, tuple[str, object, object]]) -> Path:
    """An INA3221 with the mainline driver: by channel its label, mV and mA.  The driver's folder has a link to it."""
    device, link = root / "devices/i2c-1" / chip, root / "bus/i2c/drivers/ina3221" / chip
    device.mkdir(parents=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(device)
    folder = f"devices/i2c-1/{chip}/hwmon/hwmon3"
    for channel, (label, voltage, current) in rails.items():
        named = {f"in{channel}_label": label, f"in{channel}_input": voltage, f"curr{channel}_input": current}
        grow(root, {f"{folder}/{name}": value for name, value in named.items()})
    return root / folder


def compiled(folder: Path) -> Path:
    """The fake NVML library."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
    return library


def loaded(library: Path) -> Iterator[Any]:
    """The fake, where nvidia-ml-py finds it: the loader takes a library of that name which is loaded already."""
    import pynvml

    fake = ctypes.CDLL(str(library))
    fake.fake_counter.argtypes = (ctypes.c_uint, ctypes.c_longlong, ctypes.c_longlong)
    fake.fake_lose_after.argtypes = (ctypes.c_uint, ctypes.c_long)
    fake.fake_reset(1, 1)
    yield fake
    theirs, pynvml.nvmlLib = pynvml.nvmlLib, None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    for one in filter(None, (theirs, fake)):
        dlclose(one._handle)
