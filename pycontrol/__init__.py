# SPDX-License-Identifier: GPL-2.0
"""gpurt's control plane, user-space host and command line."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_MOVED = ("Client", "segment")


def _import_beside(name: str) -> None:
    """Imports the package beside this one, whatever PYTHONPATH has under that name.

    ROS workspaces set PYTHONPATH, and a user's own package may well be called `analysis`.
    """
    spec = PathFinder.find_spec(name, [str(Path(__file__).parent.parent)])
    if name in sys.modules or spec is None or spec.loader is None:
        return
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def __getattr__(name: str) -> object:
    """Names of the package ``gpurt`` that release 0.1.0 had here; they go away in 0.3."""
    if name in _MOVED:
        import warnings

        import gpurt

        warnings.warn(f"pycontrol.{name} is now gpurt.{name}", DeprecationWarning, stacklevel=2)
        return getattr(gpurt, name)
    raise AttributeError(f"module 'pycontrol' has no attribute {name!r}")


_import_beside("analysis")
