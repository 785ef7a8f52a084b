# SPDX-License-Identifier: GPL-2.0
"""The GPU instance profiles of an NVIDIA GPU with MIG, through NVML (nvidia-ml-py, the extra ``nvml``).

NVML shows placements only to privileged users; older drivers show them only while MIG is enabled.  The code follows
nvml.h, and is not confirmed on hardware.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from types import ModuleType

from analysis.partition.instances import InstanceProfile, plainest
from gpurt.errors import DeviceError
from gpurt.text import visible
from gpurt.types import CData

EXTRA = "pip install 'gpurt[nvml]'"
#: The most placements, slices or SMs that a GPU can have: a larger answer is invalid.
MAX_COUNT_OF_MIG = 4096


def read_mig(number: int) -> tuple[str, tuple[InstanceProfile, ...]]:
    """A GPU's name, and one profile for each size, ascending.  Raises DeviceError if it has none."""
    try:
        import pynvml
    except ImportError:
        raise DeviceError(f"nvidia-ml-py is not installed: {EXTRA}") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(f"NVML says: {error}") from None
    try:
        return _read(pynvml, number)
    except pynvml.NVMLError as error:
        raise DeviceError(f"GPU {number}: NVML says: {error}") from None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read(library: ModuleType, number: int) -> tuple[str, tuple[InstanceProfile, ...]]:
    count = library.nvmlDeviceGetCount()
    if number >= count:
        raise DeviceError(f"NVML has no GPU {number}, it has {count}")
    handle = library.nvmlDeviceGetHandleByIndex(number)
    name = visible(_text(library.nvmlDeviceGetName(handle)))
    found = []
    for kind in range(library.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = library.nvmlDeviceGetGpuInstanceProfileInfo(handle, kind, version=1)
        except (library.NVMLError_NotSupported, library.NVMLError_InvalidArgument):
            continue  # this GPU or this driver lacks the profile
        found.append(_profile(library, handle, info))
    if not found:
        raise DeviceError(f"GPU {number} ({name}) has no MIG: it has no profile of an instance")
    return name, plainest(found)


def _text(raw: str | bytes) -> str:
    """A text from NVML, which older releases of nvidia-ml-py return as bytes."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)


def _profile(library: ModuleType, handle: CData, info: CData) -> InstanceProfile:
    """A profile and its placements.  Raises DeviceError, NVMLError."""
    count = ctypes.c_uint()
    try:
        library.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, None, ctypes.byref(count))
        room = (library.c_nvmlGpuInstancePlacement_t * min(count.value, MAX_COUNT_OF_MIG))()
        count.value = len(room)
        library.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, room, ctypes.byref(count))
    except library.NVMLError as error:
        cure = "ask as root, with MIG enabled (nvidia-smi -mig 1)"
        raise DeviceError(f"where instances of profile {info.id} may be: NVML says: {error}; {cure}") from None
    places = tuple((one.start, one.size) for one in room[: min(count.value, len(room))])
    numbers = (info.multiprocessorCount, info.sliceCount, info.instanceCount, *(size for _, size in places))
    if not places or not all(1 <= value <= MAX_COUNT_OF_MIG for value in numbers):
        raise DeviceError(f"profile {info.id}: NVML says what cannot be of its SMs, slices, instances or places")
    return InstanceProfile(info.id, info.multiprocessorCount, info.sliceCount, info.instanceCount, places)
