# SPDX-License-Identifier: GPL-2.0
"""A file for tests of what watches a running system."""

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
