# SPDX-License-Identifier: GPL-2.0
"""The kernel's files about AMD's GPUs in sysfs: the topology that user space reads before it opens /dev/kfd.

The names and their meanings are those of node_show() in kfd_topology.c, Linux 6.1.192 and 6.12.117.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

TOPOLOGY = "devices/virtual/kfd/kfd/topology"
VRAM = 8 << 30
#: What driver.c makes of a file that the reader may not read: as node_show() does with a GPU that the container's
#: device cgroup does not permit.
FORBIDDEN = "EPERM"


@dataclass(frozen=True)
class Gpu:
    """One GPU.  ``gfx``: 90006 is gfx906.  ``hws``: the firmware schedules from a runlist; otherwise MES does."""

    id: int
    gfx: int = 90006
    units: int = 60
    hws: bool = True
    hidden: bool = False
    location: int = 0  # as PCI has it, or 0: the next one; of a partition with its number in the lowest three bits
    apu: bool = False  # the first GPU: its node is the CPU's, too

    @property
    def pairs(self) -> bool:
        """Whether compute units are switched in pairs: from GC 10.0.0 on."""
        return self.gfx >= 100000


def properties(**values: int) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _cpu() -> dict[str, str]:
    memory = properties(heap_type=0, size_in_bytes=16 << 30, flags=0, width=64, mem_clk_max=3200)
    return {
        "gpu_id": "0\n",
        "properties": properties(cpu_cores_count=2, simd_count=0, mem_banks_count=1, caches_count=0, io_links_count=0),
        "mem_banks/0/properties": memory,
    }


def _cache(level: int, kilobytes: int) -> str:
    text = properties(
        processor_id_low=2147487744, level=level, size=kilobytes, cache_line_size=64, cache_lines_per_tag=1,
        association=16, latency=0, type=9,
    )  # fmt: skip
    return text + "sibling_map 1" + ",0" * 63 + "\n"


def _gpu(gpu: Gpu, number: int) -> dict[str, str]:
    if gpu.hidden:
        return {"gpu_id": FORBIDDEN, "properties": FORBIDDEN}
    link = properties(
        type=2, version_major=0, version_minor=0, node_from=number + 1, node_to=0, weight=20, min_latency=0,
        max_latency=0, min_bandwidth=0, max_bandwidth=0, recommended_transfer_size=0, flags=1,
    )  # fmt: skip
    return {
        "gpu_id": f"{gpu.id}\n",
        "properties": properties(
            cpu_cores_count=0, simd_count=4 * gpu.units, mem_banks_count=1, caches_count=2, io_links_count=1,
            p2p_links_count=0, cpu_core_id_base=0, simd_id_base=2147487744, max_waves_per_simd=10, lds_size_in_kb=64,
            gds_size_in_kb=0, num_gws=64, wave_front_size=64, array_count=4, simd_arrays_per_engine=1,
            cu_per_simd_array=16, simd_per_cu=4, max_slots_scratch_cu=32, gfx_target_version=gpu.gfx,
            vendor_id=4098, device_id=26273, location_id=gpu.location or 768 + 256 * number, domain=0,
            drm_render_minor=128 + number, hive_id=0, num_sdma_engines=2, num_sdma_xgmi_engines=0,
            num_sdma_queues_per_engine=8, num_cp_queues=24,
            max_engine_clk_fcompute=1800, local_mem_size=0, fw_version=472, capability=728449664, debug_prop=0,
            sdma_fw_version=432, unique_id=4711 + number, num_xcc=1, max_engine_clk_ccompute=3600,
        ),
        "mem_banks/0/properties": properties(heap_type=1, size_in_bytes=VRAM, flags=0, width=4096, mem_clk_max=1000),
        "io_links/0/properties": link, "caches/0/properties": _cache(1, 16), "caches/1/properties": _cache(2, 4096),
    }  # fmt: skip


def write(root: Path, gpus: list[Gpu], cwsr: int = 1) -> None:
    """Writes what is below /sys: one CPU, unless an APU has it, then the GPUs, and the driver's module parameter."""
    files = {
        f"{TOPOLOGY}/generation_id": "1\n", "module/amdgpu/parameters/cwsr_enable": f"{cwsr}\n",
        f"{TOPOLOGY}/system_properties": properties(platform_oem=0, platform_id=0, platform_rev=1),
    }  # fmt: skip
    shutil.rmtree(root / TOPOLOGY / "nodes", ignore_errors=True)  # of the machine before
    cpus = [] if any(gpu.apu for gpu in gpus) else [_cpu()]
    for number, node in enumerate([*cpus, *(_gpu(gpu, number) for number, gpu in enumerate(gpus))]):
        files |= {f"{TOPOLOGY}/nodes/{number}/{name}": text for name, text in node.items()}
    for number, gpu in enumerate(gpus):
        at = gpu.location or 768 + 256 * number
        place = f"0000:{at >> 8:02x}:{at >> 3 & 31:02x}.{at & 7}"
        for node in (f"renderD{128 + number}", f"card{number}"):
            files[f"class/drm/{node}/device/uevent"] = f"DRIVER=amdgpu\nPCI_SLOT_NAME={place}\n"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    link = root / "class/kfd/kfd"
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("../../devices/virtual/kfd/kfd")
