# SPDX-License-Identifier: GPL-2.0 OR MIT
"""GPU segments for Python programs: ``with gpurt.segment(): ...``.

This package is the ground floor: the compiled core, units, errors and the interface's enumerations.  It imports neither
``analysis`` nor ``pycontrol``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Client", "Job", "segment"]


def __getattr__(name: str) -> Any:
    """Imports the compiled part only for programs that use it."""
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("gpurt.jobs" if name == "Job" else "gpurt.segments"), name)
    raise AttributeError(f"module 'gpurt' has no attribute {name!r}")
