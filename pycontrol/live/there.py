# SPDX-License-Identifier: GPL-2.0
"""The things that completion looks at: hosts, tests, and the tasks of a file."""

from __future__ import annotations

from analysis.rta import TESTS
from analysis.taskset import load
from pycontrol.live.control import connect, places

__all__ = ["TESTS", "connect", "load", "places"]
