# SPDX-License-Identifier: GPL-2.0
"""The offers of a Tegra's unpatched driver for partitions: `gpurt measure board --tegra`.  Changes nothing.

Nothing here has run on hardware.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpurt.errors import DeviceError, GpurtError, RefusedError
from gpurt.text import visible
from pycontrol.link.hints import SchedNode
from pycontrol.link.nvs import NVSCHED_NODE, Nvs
from pycontrol.observe.doctor import Diagnosis, Status

#: The version of the interface that was read in the driver's sources.
INTERFACE_VERSION = 1


def examine_board() -> Iterator[Diagnosis]:
    """Whether slices and levels can be set, and whether there are scheduling domains."""
    try:
        with SchedNode() as node:
            version = node.version()
        known = version == INTERFACE_VERSION
        ours = "" if known else f", and {INTERFACE_VERSION} is known here"
        text = f"its scheduling node answers, version {version}{ours}"
        yield Diagnosis("slices and levels", Status.OK if known else Status.WARN, text)
    except GpurtError as error:
        yield Diagnosis("slices and levels", Status.FAIL, str(error))
    yield _domains()


def _domains() -> Diagnosis:
    """Whether there are scheduling domains that programs have made."""
    try:
        with Nvs() as nvs:
            found = nvs.domains()
    except DeviceError as error:
        return Diagnosis("scheduling domains", Status.WARN, str(error))
    except RefusedError as error:
        return Diagnosis("scheduling domains", Status.FAIL, str(error))
    listed = ", ".join(f"{visible(one.name)} with turns of {one.slice_ns / 1e6:g} ms" for one in found)
    return Diagnosis("scheduling domains", Status.OK, f"{NVSCHED_NODE} answers, and has {listed or 'no domain'}")
