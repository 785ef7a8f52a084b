# SPDX-License-Identifier: GPL-2.0
"""The part of Numba's interface that docs/frameworks.md uses."""

from types import SimpleNamespace

from virtual_work import Stream


class Jitted:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, configuration):
        _blocks, _threads, stream = configuration
        return lambda *arguments: stream.launch()


cuda = SimpleNamespace(jit=Jitted, stream=Stream, to_device=lambda values, stream: values)
