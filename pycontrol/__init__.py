# SPDX-License-Identifier: GPL-2.0
"""gpurt's control plane, user-space host and command line."""

from __future__ import annotations

_MOVED = ("Client", "segment")


def __getattr__(name: str) -> object:
    """Names of the package ``gpurt`` that release 0.1.0 had here; they go away in 0.3."""
    if name in _MOVED:
        import warnings

        import gpurt

        warnings.warn(f"pycontrol.{name} is now gpurt.{name}", DeprecationWarning, stacklevel=2)
        return getattr(gpurt, name)
    raise AttributeError(f"module 'pycontrol' has no attribute {name!r}")
