# SPDX-License-Identifier: GPL-2.0
"""What CUDA's driver says of a GPU without a context: its name, its SMs and its compute capability.

Written after cuda.h; not confirmed on hardware.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from gpurt.errors import DeviceError
from gpurt.text import visible

LIBRARY = "libcuda.so.1"
#: CUdevice_attribute: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _COMPUTE_CAPABILITY_MAJOR and _MINOR.
COUNT, MAJOR, MINOR = 16, 75, 76
#: What cuDeviceGetName() may fill.
NAME = 256
#: More SMs than any GPU has: an answer above it is none.
MOST_SMS = 4096
FUNCTIONS = ("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuGetErrorName")


@dataclass(frozen=True)
class CudaDevice:
    """A GPU as CUDA numbers it."""

    name: str
    units: int
    major: int
    minor: int


def read(number: int) -> CudaDevice:
    """The GPU of that number.  Raises DeviceError if there is none, or no driver, or it says what cannot be."""
    library = _loaded()
    _asked(library, "cuInit", ctypes.c_uint(0))
    count = ctypes.c_int()
    _asked(library, "cuDeviceGetCount", ctypes.byref(count))
    if number >= count.value:
        raise DeviceError(f"CUDA has no GPU {number}, it has {count.value} (CUDA_VISIBLE_DEVICES limits which)")
    device = ctypes.c_int()
    _asked(library, "cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
    name = ctypes.create_string_buffer(NAME)
    _asked(library, "cuDeviceGetName", name, ctypes.c_int(NAME), device)
    units, major, minor = (_attribute(library, which, device) for which in (COUNT, MAJOR, MINOR))
    if not 1 <= units <= MOST_SMS:
        raise DeviceError(f"CUDA says that GPU {number} has {units} SMs, which cannot be")
    return CudaDevice(visible(name.value.decode("utf-8", "replace")), units, major, minor)


def _loaded() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
        for name in FUNCTIONS:
            getattr(library, name).restype = ctypes.c_int
    except OSError:
        raise DeviceError(f"{LIBRARY} cannot be loaded: no driver of NVIDIA's is installed") from None
    except AttributeError:
        raise DeviceError(f"{LIBRARY} has no {name}: it is no driver of NVIDIA's, or a very old one") from None
    return library


def _asked(library: Any, name: str, *arguments: Any) -> None:
    """Calls a function of the driver.  Raises DeviceError with its error if it fails."""
    code = getattr(library, name)(*arguments)
    if not code:
        return
    word = ctypes.c_char_p()
    library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(word))  # leaves it NULL if it does not know the error
    raise DeviceError(f"{name}: CUDA says {(word.value or str(code).encode()).decode('ascii', 'replace')}")


def _attribute(library: Any, which: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _asked(library, "cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(which), device)
    return value.value
