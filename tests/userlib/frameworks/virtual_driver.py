# SPDX-License-Identifier: GPL-2.0
"""Loads virtual_driver.c as libcuda.so.1, for all libraries; its streams and launches are on the virtual GPU.

They are work of this process's own client, which is that of Python's libgpurt.
"""

import ctypes
import os
import sys

from virtual_work import Stream

_streams: dict[int, Stream] = {}


def _open() -> int:
    made = Stream()
    _streams[made.tsg] = made
    return made.tsg


def _submit(tsg: int) -> int:
    _streams[tsg].launch()
    return 1


class _Gpu(ctypes.Structure):
    _fields_ = (
        ("open", ctypes.CFUNCTYPE(ctypes.c_uint32)),
        ("submit", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)),
        ("wait", ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint64)),
    )


_kinds = dict(_Gpu._fields_)
_gpu = _Gpu(
    _kinds["open"](_open), _kinds["submit"](_submit), _kinds["wait"](lambda tsg, _: _streams[tsg].synchronize())
)
sys.setdlopenflags(os.RTLD_LAZY)  # PyCUDA names functions of the driver that no program here calls
ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL).virtual_gpu(ctypes.byref(_gpu))
