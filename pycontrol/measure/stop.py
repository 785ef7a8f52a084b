# SPDX-License-Identifier: GPL-2.0
"""Processes that must end with a measurement even if it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")


class Guard:
    """A process that kills process groups if this process ends without having done so, as after SIGKILL.

    The kernel kills the leader of each group then (child.py), and knows nothing of what the leader has started.
    """

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-S", str(GUARD)]
        heard, self._told = os.pipe()
        try:
            self._process = subprocess.Popen(words, stdin=heard, start_new_session=True)
        finally:
            os.close(heard)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._told)
        self._process.wait()

    def tell(self, mark: str, group: int) -> None:
        """``mark`` "+": to be killed from now on; "-": no more."""
        with suppress(BrokenPipeError):  # somebody has killed it; the leaders still end with this process
            os.write(self._told, f"{mark}{group}\n".encode())
