# SPDX-License-Identifier: GPL-2.0
"""The models of drivers that are behind device nodes."""

from __future__ import annotations

import errno

from drivers import Caller, Faults, File, Refused
from engine import Engine
from kfd import Kfd, RenderNode
from mig import Cap
from nvgpu import NvgpuChannel, NvgpuControl, NvgpuSched, NvgpuTsg
from nvidia import Nvidia, NvidiaUvm

KINDS = {
    "/dev/nvidiactl": Nvidia, "/dev/nvidia-uvm": NvidiaUvm, "/dev/nvhost-ctrl-gpu": NvgpuControl,
    "/dev/nvhost-tsg-gpu": NvgpuTsg, "/dev/nvhost-gpu": NvgpuChannel,
    "/dev/nvgpu/igpu0/sched": NvgpuSched, "/dev/nvgpu/igpu0/ctrl": NvgpuControl, "/dev/nvgpu/igpu0/tsg": NvgpuTsg,
    "/dev/nvgpu/igpu0/channel": NvgpuChannel,
    "/dev/kfd": Kfd, "/dev/dri/renderD128": RenderNode, "/dev/dri/renderD129": RenderNode,
    "/dev/dri/card0": RenderNode, "/dev/dri/card1": RenderNode,
}  # fmt: skip


def file_of(path: str, caller: Caller, engines: list[Engine], faults: Faults) -> File:
    """The file that opening that node makes."""
    if path.startswith("/dev/nvidia-caps/nvidia-cap"):
        return Cap(path, caller, engines, faults)
    if path not in KINDS:
        raise Refused(errno.ENOENT)
    return KINDS[path](path, caller, engines, faults)
