# SPDX-License-Identifier: GPL-2.0
"""pyroute2's formats of netlink messages, without the rest of pyroute2.

``import pyroute2.netlink`` imports all of pyroute2: its databases, sockets and asyncio.  That takes five times as long
as the formats do, and longer than all other imports of a host or a command at its start.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGE, FORMATS = "pyroute2", "pyroute2.netlink"


def _formats() -> ModuleType:
    """The module, imported as part of an otherwise empty package.

    Afterwards neither is in `sys.modules`, so another importer of pyroute2 in this process gets all of it.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if PACKAGE in sys.modules or not spec or not spec.submodule_search_locations:
        return importlib.import_module(FORMATS)
    empty = ModuleType(PACKAGE)
    empty.__path__ = list(spec.submodule_search_locations)
    sys.modules[PACKAGE] = empty
    try:
        return importlib.import_module(FORMATS)
    except (ImportError, AttributeError):
        pass  # in this release the formats need more of the package
    finally:
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
            del sys.modules[name]
    return importlib.import_module(FORMATS)


formats: Any = _formats()
