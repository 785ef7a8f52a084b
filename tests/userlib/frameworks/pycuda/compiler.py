# SPDX-License-Identifier: GPL-2.0
"""The part of PyCUDA's compiler that docs/frameworks.md uses."""


class SourceModule:
    def __init__(self, source):
        self.source = source

    def get_function(self, name):
        assert f" {name}(" in self.source
        return lambda *arguments, block, stream: stream.launch()
