# SPDX-License-Identifier: GPL-2.0
"""The part of Numba's interface that docs/frameworks.md uses."""

from types import SimpleNamespace

from virtual_work import Stream


class Dispatcher:
    def __getitem__(self, configuration):
        _blocks, _threads, stream = configuration
        return lambda *arguments: stream.launch()


def jit(func_or_sig):
    return Dispatcher()


def stream():
    return Stream()


def to_device(obj, stream):
    return obj


cuda = SimpleNamespace(jit=jit, stream=stream, to_device=to_device)
