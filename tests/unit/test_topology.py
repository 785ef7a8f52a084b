# SPDX-License-Identifier: GPL-2.0
"""AMD's GPUs as KFD and the render node describe them: copies of real chips' topologies, and copies with mistakes."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import pytest

from analysis.masks.topology import CHIPS, Topology
from gpurt.errors import DeviceError, FileError
from pycontrol.machine import topology
from pycontrol.machine.topology import gpus

#: The values in sysfs of real chips, in the order of NAMES.  Old releases have no num_xcc.
REAL: dict[str, tuple[int, int, int, int, int, int | None, int]] = {
    "radeon-vii": (240, 4, 1, 16, 4, None, 90006), "mi60": (256, 4, 1, 16, 4, 1, 90006),
    "mi100": (480, 8, 1, 16, 4, 1, 90008), "mi300x": (1216, 32, 1, 10, 4, 8, 90402),
    "mi300a": (912, 24, 1, 10, 4, 6, 90402), "gfx1030": (160, 8, 2, 10, 2, 1, 100300),
    "gfx1100": (192, 12, 2, 8, 2, 1, 110000), "gfx1151": (80, 4, 2, 10, 2, 1, 110501),
}  # fmt: skip
NAMES = ("simd_count", "array_count", "simd_arrays_per_engine", "cu_per_simd_array", "simd_per_cu", "num_xcc",
         "gfx_target_version")  # fmt: skip


def values(chip: str, minor: int = 128) -> dict[str, int]:
    pairs = zip(NAMES, REAL[chip], strict=True)
    return {name: value for name, value in pairs if value is not None} | {"drm_render_minor": minor}


def write(root: Path, *nodes: dict[str, int] | None) -> Path:
    """A copy of a topology; None is a CPU."""
    for number, properties in enumerate(nodes):
        folder = root / "nodes" / str(number)
        folder.mkdir(parents=True)
        (folder / "gpu_id").write_text(f"{4711 + number if properties else 0}\n")
        text = "".join(f"{name} {value}\n" for name, value in (properties or {"simd_count": 0}).items())
        (folder / "properties").write_text("cpu_cores_count 0\n" + text)
    return root


def answer(bitmaps: list[list[int]], wide: bool = False, active: int | None = None) -> bytes:
    """The answer of a render node for one XCC: bitmaps[engine][array]."""
    words = [0] * 16
    for engine, arrays in enumerate(bitmaps):
        for array, bits in enumerate(arrays):
            words[4 * (engine % 4) + array + engine // 4 * (2 if wide else 1)] = bits
    count = sum(bits.bit_count() for arrays in bitmaps for bits in arrays) if active is None else active
    head = struct.pack("=5III5II", 0, 0, 0, 0, 0, len(bitmaps), len(bitmaps[0]), 0, 0, 0, 0, 0, count)
    return head + struct.pack("=I16I", 0, *words)


def only(root: Path) -> Topology:
    (gpu,) = gpus(root)
    return gpu.topology


@pytest.mark.parametrize("chip", ["mi60", "gfx1030", "gfx1100", "gfx1151"])
def test_chips_with_all_their_units(chip: str, tmp_path: Path) -> None:
    found = only(write(tmp_path, None, values(chip)))
    assert (found.arrays, found.gfx, found.assumed) == (CHIPS[chip].arrays, CHIPS[chip].gfx, "")


@pytest.mark.parametrize("chip", ["radeon-vii", "mi100"])
def test_harvested_units_are_assumed_to_be_spread_evenly(chip: str, tmp_path: Path) -> None:
    found = only(write(tmp_path, None, values(chip)))
    assert found.arrays == CHIPS[chip].arrays
    assert "15 of its 16 CUs" in found.assumed


@pytest.mark.parametrize("chip", ["mi300x", "mi300a"])
def test_units_that_cannot_be_spread_evenly_are_refused(chip: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="only the render node says where"):
        gpus(write(tmp_path, None, values(chip)))


def test_the_render_node_knows(tmp_path: Path) -> None:
    write(tmp_path, None, values("radeon-vii"), values("radeon-vii", 129))
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri/renderD128").write_bytes(answer([[0xFFFF], [0x7FFF], [0x3FFF], [0x7FFF]]) + bytes(100))
    first, second = gpus(tmp_path)
    assert (first.number, first.node, first.topology.engines) == (0, 1, (16, 15, 14, 15))
    assert first.topology.assumed == ""
    assert (second.number, second.node, second.topology.engines) == (1, 2, (15,) * 4)
    assert second.topology.assumed


def test_engines_above_the_fourth(tmp_path: Path) -> None:
    """GC 9 keeps them in the next column, GC 11 in the one after that."""
    (tmp_path / "dri").mkdir()
    write(tmp_path, values("mi100"), values("gfx1100", 129) | {"simd_count": 184})
    (tmp_path / "dri/renderD128").write_bytes(answer([[0x7FFF]] * 6 + [[0xFFFF], [0x3FFF]]))
    (tmp_path / "dri/renderD129").write_bytes(answer([[0xFF, 0xFF]] * 4 + [[0x3F, 0xFF], [0xFF, 0x3F]], wide=True))
    assert [gpu.topology.arrays for gpu in gpus(tmp_path)] == [
        ((15,),) * 6 + ((16,), (14,)), ((8, 8),) * 4 + ((6, 8), (8, 6)),
    ]  # fmt: skip


def test_the_render_node_of_several_xccs(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    write(tmp_path, values("mi300x"))
    (tmp_path / "dri/renderD128").write_bytes(answer([[0x3FF], [0x1FF], [0x3FF], [0x1FF]], active=304))
    found = only(tmp_path)
    assert (found.engines, found.xccs, found.units) == ((10, 9, 10, 9), 8, 304)
    assert "the others are assumed to be alike" in found.assumed


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"", "0 bytes"), (bytes(119), "119 bytes"), (bytes(200), "0 x 0 shader arrays"),
     (answer([[0x7FFF]] * 4, active=59), "59 active"), (answer([[0x3FFF]] * 4), "56 active"),
     (answer([[0x7FFF]] * 3), "3 x 1 shader arrays"), (answer([[0x3FFF]] * 4, active=60), "56 CUs")],
)  # fmt: skip
def test_render_nodes_that_contradict_sysfs(raw: bytes, why: str, tmp_path: Path) -> None:
    write(tmp_path, values("radeon-vii"))
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri/renderD128").write_bytes(raw)
    with pytest.raises(FileError, match=why):
        gpus(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"simd_count": 241}, "no multiple"), ({"simd_count": 260}, "65 active CUs are more"),
     ({"simd_per_cu": 0}, "simd_per_cu"), ({"array_count": 0}, "array_count"),
     ({"array_count": 9}, "9 shader"), ({"num_xcc": 3}, "3 XCCs"),
     ({"simd_arrays_per_engine": 3}, "3 for each engine"), ({"gfx_target_version": 0}, "gfx_target_version"),
     ({"cu_per_simd_array": 10**19}, "up to 16 CUs"), ({"array_count": 4 * 10**9}, "shader arrays")],
)  # fmt: skip
def test_numbers_that_no_chip_has(change: dict[str, int], why: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=why):
        gpus(write(tmp_path, values("radeon-vii") | change))


def test_files_that_are_missing_or_no_text(tmp_path: Path) -> None:
    write(tmp_path, values("radeon-vii"))
    (tmp_path / "nodes/0/properties").write_bytes(b"\xff\x00simd_count x\n")
    with pytest.raises(FileError, match=r"properties: array_count is missing"):
        gpus(tmp_path)
    (tmp_path / "nodes/0/properties").unlink()
    with pytest.raises(FileError, match="topology is incomplete"):
        gpus(tmp_path)


def test_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in (tmp_path / "none", write(tmp_path / "cpu", None)):
        with pytest.raises(FileError, match="has no GPU"):
            gpus(root)
    monkeypatch.setattr(topology, "SYSFS", tmp_path / "none")
    with pytest.raises(DeviceError, match="--chip"):
        gpus()


def test_a_gpu_that_the_container_may_not_see_keeps_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFD answers EPERM to who reads its id; the preload library counts it as well."""
    write(tmp_path, None, values("mi60"), values("gfx1030"))
    hidden, read = tmp_path / "nodes/1/gpu_id", Path.read_text

    def read_text(self: Path, *arguments: Any, **more: Any) -> str:
        if self == hidden:
            raise PermissionError(1, "Operation not permitted", str(self))
        return read(self, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", read_text)
    (seen,) = gpus(tmp_path)
    assert (seen.number, seen.node, seen.topology.gfx) == (1, 2, 100300)
    assert seen.visible == 0  # for ROCm there is no other GPU
    hidden = tmp_path / "nodes/1/properties"
    assert [one.number for one in gpus(tmp_path)] == [1]


class Driver:
    """A render node that checks the request as amdgpu does, and writes where it says."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __call__(self, descriptor: int, request: int, argument: Any) -> bytes:
        size, direction, kind, number = request >> 16 & 0x3FFF, request >> 30, chr(request >> 8 & 0xFF), request & 0xFF
        assert (size, direction, kind, number) == (len(argument), 1, "d", 0x45)
        where, room, query = struct.unpack_from("=QII", argument)
        assert query == 0x16
        ctypes.memmove(where, self.raw, min(room, len(self.raw)))
        return bytes(argument)


def test_the_machines_own_render_node_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path, None, values("radeon-vii")))
    monkeypatch.setattr(topology, "NODES", tmp_path)
    driver = Driver(answer([[0xFFFF], [0xFFFF], [0x3FFF], [0x3FFF]]) + bytes(500))
    assert gpus(call=driver)[0].topology.assumed  # the node is not there
    (tmp_path / "renderD128").touch()
    assert gpus(call=driver)[0].topology.engines == (16, 16, 14, 14)
