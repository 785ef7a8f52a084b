# SPDX-License-Identifier: GPL-2.0
"""Where NVIDIA's MPS is, and whether it runs."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from pathlib import Path

#: Where the control daemon of MPS listens, unless CUDA_MPS_PIPE_DIRECTORY says so.
PIPES = "/tmp/nvidia-mps"


def mps_pipe(environment: Mapping[str, str]) -> Path:
    """The control daemon's socket; userlib/preload/mps.c looks for the same."""
    return Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES) / "control"


def mps_runs(pipe: Path) -> bool:
    """Whether a daemon is behind the socket, which does not notice: mps.c says why.  Anyone can make a file in /tmp."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        try:
            own.connect(str(pipe))
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return True
