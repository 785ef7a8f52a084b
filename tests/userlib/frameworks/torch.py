# SPDX-License-Identifier: GPL-2.0
"""The part of PyTorch's interface that docs/frameworks.md uses."""

from types import SimpleNamespace

import virtual_work


class Linear:
    def __init__(self, in_features, out_features):
        self.device = "cpu"

    def to(self, *args):
        (self.device,) = args
        return self

    def __call__(self, *args):
        (values,) = args
        assert self.device == values.device == "cuda"
        virtual_work.current_stream().launch()
        return values


def zeros(size, *, device):
    return SimpleNamespace(size=size, device=device)


def current_stream():
    return virtual_work.current_stream()


cuda = SimpleNamespace(current_stream=current_stream, Stream=virtual_work.Stream)
nn = SimpleNamespace(Linear=Linear)
