# SPDX-License-Identifier: GPL-2.0
"""A GPU as CUDA's driver describes it without a context: name, SMs, compute capability, and how its SMs can be split.

The constants and structures are from cuda.h.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from gpurt.errors import DeviceError
from gpurt.text import visible

LIBRARY = "libcuda.so.1"
#: CUdevice_attribute: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _COMPUTE_CAPABILITY_MAJOR and _MINOR.
COUNT, MAJOR, MINOR = 16, 75, 76
#: The bytes that cuDeviceGetName() may fill.
DEVICE_NAME_BYTES = 256
#: An answer above this number of SMs is invalid: no GPU has as many.
MOST_SMS = 4096
FUNCTIONS = ("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuGetErrorName")


@dataclass(frozen=True)
class CudaDevice:
    """A GPU with its CUDA number."""

    name: str
    units: int
    major: int
    minor: int


def read_device(number: int) -> CudaDevice:
    """The GPU of that number.  Raises DeviceError if device or driver is missing, or the answer is impossible."""
    library = _loaded()
    _asked(library, "cuInit", ctypes.c_uint(0))
    count = ctypes.c_int()
    _asked(library, "cuDeviceGetCount", ctypes.byref(count))
    if number >= count.value:
        raise DeviceError(f"CUDA has no GPU {number}, it has {count.value} (CUDA_VISIBLE_DEVICES limits which)")
    device = ctypes.c_int()
    _asked(library, "cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
    name = ctypes.create_string_buffer(DEVICE_NAME_BYTES)
    _asked(library, "cuDeviceGetName", name, ctypes.c_int(DEVICE_NAME_BYTES), device)
    units, major, minor = (_attribute(library, which, device) for which in (COUNT, MAJOR, MINOR))
    if not 1 <= units <= MOST_SMS:
        raise DeviceError(f"CUDA says that GPU {number} has {units} SMs, which cannot be")
    return CudaDevice(visible(name.value.decode("utf-8", "replace")), units, major, minor)


class _Resource(ctypes.Structure):
    """CUdevResource: a type (1: SMs), 92 bytes of padding, the number of SMs, and room for later releases' fields."""

    _fields_ = (("type", ctypes.c_int), ("padding", ctypes.c_ubyte * 92), ("units", ctypes.c_uint),
                ("later", ctypes.c_ubyte * 156))  # fmt: skip


def sm_groups(number: int, size: int) -> int | None:
    """How many groups of ``size`` SMs the driver makes of the GPU; no group spans two parts of its hardware.

    None: the driver is older than CUDA 12.4, and has no green contexts.  Raises DeviceError, also for a refused size.
    """
    library = _loaded()
    if not all(hasattr(library, name) for name in ("cuDeviceGetDevResource", "cuDevSmResourceSplitByCount")):
        return None
    _asked(library, "cuInit", ctypes.c_uint(0))
    device, whole, count = ctypes.c_int(), _Resource(), ctypes.c_uint()
    _asked(library, "cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
    _asked(library, "cuDeviceGetDevResource", device, ctypes.byref(whole), ctypes.c_int(1))
    _asked(library, "cuDevSmResourceSplitByCount", None, ctypes.byref(count), ctypes.byref(whole), None,
           ctypes.c_uint(0), ctypes.c_uint(size))  # fmt: skip
    return count.value


def _loaded() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
        for name in FUNCTIONS:
            getattr(library, name).restype = ctypes.c_int
    except OSError:
        raise DeviceError(f"{LIBRARY} cannot be loaded: no driver of NVIDIA's is installed") from None
    except AttributeError:
        raise DeviceError(f"{LIBRARY} has no {name}: it is no driver of NVIDIA's, or a very old one") from None
    return library


def _asked(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    """Calls a function of the driver.  Raises DeviceError with the driver's error if the call fails."""
    code = getattr(library, name)(*arguments)
    if not code:
        return
    word = ctypes.c_char_p()
    library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(word))  # stays NULL for an unknown error
    raise DeviceError(f"{name}: CUDA says {(word.value or str(code).encode()).decode('ascii', 'replace')}")


def _attribute(library: ctypes.CDLL, which: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _asked(library, "cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(which), device)
    return value.value
