# SPDX-License-Identifier: GPL-2.0
"""A program that runs while sensors are read."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence

from gpurt.errors import RuntimeFailure
from gpurt.text import visible

#: How long, s, a program has to end after Ctrl-C, and then after SIGTERM, before it is killed.
AFTER_INTERRUPT, AFTER_TERM = 1.0, 5.0


class Program:
    """A running program, whose end can be waited for with a timeout that is exact also for short programs.

    The program's stdout goes to stderr.  Raises RuntimeFailure if the program cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.begin = time.monotonic_ns()
        try:
            self._child = subprocess.Popen(list(command), stdout=2)  # its stdout is our stderr
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise RuntimeFailure(f"{visible(command[0])}: cannot be started: {why}") from None
        self._over = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._child.wait()
        self.end = time.monotonic_ns()
        self._over.set()

    def wait(self, seconds: float) -> bool:
        """Waits until the program is over, or that long.  Returns whether it is over."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        """Ends the program, which the terminal's Ctrl-C may have reached already."""
        if self.wait(AFTER_INTERRUPT):
            return
        self._child.terminate()
        if not self.wait(AFTER_TERM):
            self._child.kill()
            self._over.wait()

    @property
    def failure(self) -> str:
        """Why a program that is over failed; empty if it did not."""
        code = self._child.returncode
        if code < 0:
            return f"the program was ended by signal {-code}"
        return f"the program ended with exit code {code}" if code else ""
