# SPDX-License-Identifier: GPL-2.0
"""Where NVIDIA's MPS is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: Where the control daemon of MPS listens, unless CUDA_MPS_PIPE_DIRECTORY says so.
PIPES = "/tmp/nvidia-mps"


def mps_pipe(environment: Mapping[str, str]) -> Path:
    """The pipe of the control daemon, which is there while it runs; userlib/preload/mps.c looks for the same."""
    return Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES) / "control"
