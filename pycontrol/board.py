# SPDX-License-Identifier: GPL-2.0
"""What a Tegra's unpatched driver offers for partitions: `gpurt probe --tegra`.  Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gpurt.errors import GpurtError
from pycontrol.doctor import Finding, Status
from pycontrol.live.hints import SchedNode

#: The node of the scheduler of domains, from R35 on.
DOMAINS = "/dev/nvgpu/igpu0/nvsched"
#: The version of the interface that was read in the driver's sources.
VERSION = 1


def examine() -> Iterator[Finding]:
    """Whether slices and levels can be set, and whether there are scheduling domains."""
    try:
        with SchedNode() as node:
            version = node.version()
        known = version == VERSION
        text = f"its scheduling node answers, version {version}{'' if known else f', and {VERSION} is known here'}"
        yield Finding("slices and levels", Status.OK if known else Status.WARN, text)
    except GpurtError as error:
        yield Finding("slices and levels", Status.FAIL, str(error))
    there = os.path.exists(DOMAINS)
    text = f"{DOMAINS} is there; nothing here uses it yet" if there else f"no {DOMAINS}: this driver has none"
    yield Finding("scheduling domains", Status.OK if there else Status.WARN, text)
