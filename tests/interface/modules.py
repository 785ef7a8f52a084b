# SPDX-License-Identifier: GPL-2.0
"""Loads and removes kernel modules by system calls: insmod takes longer than the kernel does in an emulated machine.

gpurt.ko and gpurt-vgpu.ko, which has the virtual GPUs and the parameters that begin with vgpu, come and go together.
"""

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


def parameter(name: str) -> Path:
    """The file of a parameter of gpurt.ko or gpurt-vgpu.ko; without the module there is none."""
    module = "gpurt_vgpu" if name.startswith("vgpu") else "gpurt"
    return Path("/sys/module", module, "parameters", name)


def insert_gpurt(file: str | Path, *parameters: str) -> None:
    """Loads gpurt.ko, that file, and the module of virtual GPUs beside it, unless there is to be none (vgpus=0).

    Raises OSError; then neither is loaded.
    """
    virtual = [one for one in parameters if one.startswith("vgpu")]
    insert(file, *(one for one in parameters if one not in virtual))
    if "vgpus=0" in virtual:
        return
    try:
        insert(Path(file).with_name("gpurt-vgpu.ko"), *virtual)
    except OSError:
        remove("gpurt")
        raise


def remove_gpurt() -> bool:
    """Removes both modules unless they are in use.  Whether gpurt.ko was removed."""
    return (not Path("/sys/module/gpurt_vgpu").exists() or remove("gpurt_vgpu")) and remove("gpurt")
