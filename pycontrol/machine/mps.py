# SPDX-License-Identifier: GPL-2.0
"""The socket of NVIDIA's MPS, and whether MPS runs."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from pathlib import Path

#: The default folder of the socket of MPS's control daemon; CUDA_MPS_PIPE_DIRECTORY overrides it.
PIPES = "/tmp/nvidia-mps"


def mps_pipe(environment: Mapping[str, str]) -> Path:
    """The control daemon's socket, as in userlib/preload/mps.c."""
    return Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES) / "control"


def mps_runs(pipe: Path) -> bool:
    """Whether a daemon listens on the socket, without it noticing (see mps.c).  A file alone proves nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        try:
            own.connect(str(pipe))
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return True
