# SPDX-License-Identifier: GPL-2.0
"""gpurt's control plane, user-space host and command line; ``segment`` marks GPU segments in Python programs."""

from __future__ import annotations

from typing import Any

__all__ = ["Client", "segment"]


def __getattr__(name: str) -> Any:
    """Imports the compiled part only for programs that use it."""
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("pycontrol.segments"), name)
    raise AttributeError(name)
