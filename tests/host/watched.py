# SPDX-License-Identifier: GPL-2.0
"""Files for tests of what watches a running system."""

from __future__ import annotations

#: Times so long that a slow machine does not exceed them by itself.
FILE = """[platform]
cpus = 1
epsilon = "100s"
policy = "segment"
[[task]]
name = "camera"
cpu = 0
priority = 7
period = "1000s"
segments = [{ cpu = "10s" }, { misc = "10s", gpu = "10s" }]
"""

#: The same with a deadline so short that each job which was released at boot is late, on a machine of any uptime.
BRIEF = FILE.replace('"1000s"', '"900ms"').replace('"100s"', '"100ms"').replace('"10s"', '"50ms"')
#: A release of such a job: the first ns of CLOCK_MONOTONIC.
BOOT = 1
