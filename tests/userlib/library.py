# SPDX-License-Identifier: GPL-2.0
"""Constants and types that the library's tests share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: How long anything may take before it counts as hung, seconds: far longer than a busy machine needs.
PATIENCE = 200.0

#: Compiles source with the library's own sources and returns the program.
Compile = Callable[..., Path]
#: Runs a program with a host, or with none.
Run = Callable[..., subprocess.CompletedProcess[str]]
