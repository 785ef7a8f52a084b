# SPDX-License-Identifier: GPL-2.0
"""The compute units of this machine's AMD GPUs, from KFD's topology in sysfs and from the render node.

sysfs gives only sums.  If CUs are harvested, the render node shows which shader array lacks some (query DEV_INFO of
DRM_IOCTL_AMDGPU_INFO, include/uapi/drm/amdgpu_drm.h).  Without that node the CUs are assumed to be spread evenly, if
that is possible.

A folder may stand for the machine: a copy of /sys/class/kfd/kfd/topology, with the answers of render nodes as files
dri/renderD128 and so on.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fcntl import ioctl
from pathlib import Path

from analysis.masks.topology import MOST_ENGINES, MOST_UNITS, Topology
from gpurt.errors import DeviceError, FileError
from gpurt.text import filename
from gpurt.types import CData

SYSFS = Path("/sys/class/kfd/kfd/topology")
NODES = Path("/dev/dri")
#: The request and its subject: _IOW('d', 0x45, struct drm_amdgpu_info) and AMDGPU_INFO_DEV_INFO.
INFO, DEV_INFO = 0x40206445, 0x16
#: Offsets in struct drm_amdgpu_info_device, and the size of its first 120 bytes, which all releases have.
ENGINES, ARRAYS, ACTIVE, BITMAP, SIZE = 20, 24, 48, 56, 120
#: GC 11 keeps the bitmaps of engines from 4 on two columns further (kfd_mqd_manager.c; 6.12 also for GC 12).
WIDE = range(110_000, 130_000)
_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_PROPERTY = re.compile(r"([a-z_0-9]{1,64}) ([0-9]{1,20})", re.ASCII)
#: The type of fcntl.ioctl(): descriptor, request and argument.
Call = Callable[[int, int, CData], CData]


@dataclass(frozen=True)
class KfdGpu:
    """A GPU of the topology: its number among GPUs as gpurt counts them, its KFD node, and its compute units.

    ``visible``: its number among GPUs that this process may see, as ROCm counts them.
    """

    number: int
    visible: int
    node: int
    topology: Topology


def gpus(root: Path | None = None, call: Call = ioctl) -> list[KfdGpu]:
    """AMD's GPUs, in the order of KFD's nodes.  GPUs hidden from this process are omitted, but counted.

    ``root``: a folder that stands for the machine.  ``call``: the function that asks a render node.

    Raises:
        DeviceError: KFD knows no AMD GPU on this machine.
        FileError: the folder has no GPU, or a file in it or in sysfs does not have KFD's format.
    """
    top = root or SYSFS
    found: list[KfdGpu] = []
    count = 0
    try:
        names = os.listdir(top / "nodes")
    except OSError:
        names = []
    for node in sorted(int(name) for name in names if _NUMBER.fullmatch(name)):
        folder = top / "nodes" / str(node)
        try:
            is_gpu = (folder / "gpu_id").read_text(encoding="ascii", errors="replace").strip() != "0"
            if is_gpu:
                found.append(KfdGpu(count, len(found), node, _topology(folder, root, call)))
                count += 1
        except PermissionError:
            count += 1  # as userlib/preload/kfd_topology.c, which also counts hidden GPUs
        except OSError as error:
            where = filename(error.filename or folder)
            raise FileError(f"{where}: {error.strerror}; KFD's topology is incomplete") from None
    if not found and root is None:
        raise DeviceError(f"no AMD GPU is in {SYSFS}; name a chip, or a copy of a topology, with --chip")
    if not found:
        raise FileError(f"{filename(root)}: has no GPU; name a copy of {SYSFS}")
    return found


def _topology(folder: Path, root: Path | None, call: Call) -> Topology:
    """The compute units of one node.  Raises FileError, OSError."""
    file = folder / "properties"
    lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    pairs = [found.groups() for line in lines if (found := _PROPERTY.fullmatch(line.strip()))]
    values = {str(name): int(value) for name, value in pairs}
    node = int(folder.name)
    try:
        shape = _Shape.read(f"node {node}", values)
        known = _render_node(values.get("drm_render_minor", 0), root, call)
        return shape.exactly(known) if known else shape.assumed()
    except ValueError as error:
        raise FileError(f"{filename(file)}: {error}") from None


@dataclass(frozen=True)
class _Shape:
    """The sums in sysfs: ``active`` CUs of all XCCs in ``engines`` times ``arrays`` shader arrays of ``width`` CUs."""

    name: str
    gfx: int
    xccs: int
    engines: int
    arrays: int
    width: int
    active: int

    @classmethod
    def read(cls, name: str, values: Mapping[str, int]) -> _Shape:
        """Reads the sums.  Raises ValueError if numbers are missing or do not fit together."""

        def value(key: str, least: int = 1) -> int:
            if values.get(key, -1) < least:
                raise ValueError(f"{key} is missing or below {least}")
            return values[key]

        xccs = max(1, values.get("num_xcc", 1))
        arrays, per_engine = value("array_count"), value("simd_arrays_per_engine")
        simds, per_unit = value("simd_count"), value("simd_per_cu")
        engines, rest = divmod(arrays, per_engine * xccs)
        if rest or not 1 <= engines <= MOST_ENGINES:
            raise ValueError(f"{arrays} shader arrays are not {per_engine} for each engine of {xccs} XCCs")
        if simds % per_unit:
            raise ValueError(f"simd_count {simds} is no multiple of simd_per_cu {per_unit}")
        active, width = simds // per_unit, value("cu_per_simd_array")
        if width > MOST_UNITS:
            raise ValueError(f"cu_per_simd_array is {width}; a shader array has up to {MOST_UNITS} CUs")
        if active > arrays * width:
            raise ValueError(f"{active} active CUs are more than {arrays} shader arrays with {width} CUs each have")
        return cls(name, value("gfx_target_version"), xccs, engines, per_engine, width, active)

    def assumed(self) -> Topology:
        """The topology with evenly spread CUs.  Raises ValueError if they cannot be spread evenly."""
        count, rest = divmod(self.active, self.engines * self.arrays * self.xccs)
        full = self.engines * self.arrays * self.xccs * self.width
        odd = self.gfx >= 100_000 and count % 2
        if rest or odd:
            raise ValueError(
                f"{self.active} of {full} CUs are active, and only the render node says where; it cannot be asked: "
                "join the group render"
            )
        text = f"each shader array is assumed to have {count} of its {self.width} CUs: {full - self.active} are missing"
        table = ((count,) * self.arrays,) * self.engines
        return Topology(self.name, self.gfx, table, self.xccs, text if self.active < full else "")

    def exactly(self, answer: bytes) -> Topology:
        """The topology as the render node reports it.  Raises ValueError if that contradicts sysfs."""
        engines, arrays, active = (struct.unpack_from("=I", answer, offset)[0] for offset in (ENGINES, ARRAYS, ACTIVE))
        if (engines, arrays) != (self.engines, self.arrays):
            there = f"{self.engines} x {self.arrays}"
            raise ValueError(f"the render node has {engines} x {arrays} shader arrays, sysfs {there}")
        words = struct.unpack_from("=16I", answer, BITMAP)
        more = 2 if self.gfx in WIDE else 1
        table = tuple(
            tuple(words[4 * (engine % 4) + array + engine // 4 * more].bit_count() for array in range(arrays))
            for engine in range(engines)
        )
        found = Topology(self.name, self.gfx, table, self.xccs)
        if active != self.active or found.units != active:
            raise ValueError(f"the render node has {found.units} CUs, of {active} active ones; sysfs has {self.active}")
        if self.xccs == 1:
            return found
        return replace(found, assumed="the render node speaks of the first XCC; the others are assumed to be alike")


def _render_node(minor: int, root: Path | None, call: Call) -> bytes | None:
    """The answer of the render node; None if the node is missing or must not be opened.  Raises ValueError."""
    if not 128 <= minor < 256:
        return None
    name = f"renderD{minor}"
    try:
        answer = _ask(NODES / name, call) if root is None else (root / "dri" / name).read_bytes()
    except OSError:
        return None
    if len(answer) < SIZE:
        raise ValueError(f"{name}: the answer has {len(answer)} bytes, not {SIZE}")
    return answer


def _ask(path: Path, call: Call) -> bytes:
    """Asks a render node for DEV_INFO.  Raises OSError."""
    answer = ctypes.create_string_buffer(SIZE)
    request = struct.pack("=QII16x", ctypes.addressof(answer), SIZE, DEV_INFO)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        call(descriptor, INFO, request)
    finally:
        os.close(descriptor)
    return answer.raw
