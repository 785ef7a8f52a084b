# SPDX-License-Identifier: GPL-2.0
"""Loads and removes kernel modules by system calls: insmod takes longer than the kernel does in an emulated machine."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

#: Numbers of finit_module(2) and delete_module(2).
FINIT, DELETE = {"x86_64": (313, 176)}.get(platform.machine(), (273, 106))

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def _must(result: int, name: str) -> None:
    """Raises OSError if the system call failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def insert(file: str | Path, *parameters: str) -> None:
    """Loads the module in that file, which is not compressed.  Raises OSError."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _must(_syscall(FINIT, fd, " ".join(parameters).encode(), 0), str(file))
    finally:
        os.close(fd)


def remove(name: str) -> bool:
    """Removes a module unless it is in use.  Whether it was removed.  Raises OSError if it cannot be removed."""
    try:
        _must(_syscall(DELETE, name.encode(), os.O_NONBLOCK), name)
    except BlockingIOError:
        return False
    return True
