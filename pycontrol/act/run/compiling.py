# SPDX-License-Identifier: GPL-2.0
"""Running a compiler: how the programs and libraries of this source tree are built when they are needed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from gpurt.errors import RuntimeFailure

#: Longest time a build may take, seconds.
PATIENCE = 200


def compile_with(command: Sequence[str], what: str) -> None:
    """Runs a command that builds ``what``.

    Raises:
        RuntimeFailure: the command is not installed, takes too long, or fails.  The text names ``what`` and gives the
            first line that the command wrote about an error.
    """
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        raise RuntimeFailure(f"{what} must be compiled and there is no {command[0]}; run scripts/setup") from None
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"compiling {what} took longer than {PATIENCE} s; try again") from None
    if run.returncode:
        first = next((line for line in run.stderr.splitlines() if "error" in line.lower()), f"{command[0]} failed")
        raise RuntimeFailure(f"{what} does not compile: {first}")
