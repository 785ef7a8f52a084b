# SPDX-License-Identifier: GPL-2.0 OR MIT
"""GPU segments for Python programs: ``with gpurt.segment(): ...``; copies: ``with gpurt.copy(): ...``.

This package is the ground floor: the compiled core, units, errors and the interface's enumerations.  It imports neither
``analysis`` nor ``pycontrol``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Client", "Job", "chunks", "copy", "job", "periodic", "segment"]
_MODULES = {
    "Client": "segments", "Job": "jobs", "segment": "segments", "chunks": "copies", "copy": "copies",
    "job": "periods", "periodic": "periods",
}  # fmt: skip


def __dir__() -> list[str]:
    """What there is to import, for completion and for people who look."""
    return __all__


def __getattr__(name: str) -> Any:
    """Imports the compiled part only for programs that use it."""
    if name in __all__:
        import importlib

        return getattr(importlib.import_module(f"gpurt.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'gpurt' has no attribute {name!r}")
