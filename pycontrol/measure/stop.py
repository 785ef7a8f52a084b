# SPDX-License-Identifier: GPL-2.0
"""Signals that end a measurement, and processes that must end with it even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

#: A terminal's Ctrl-C, the end of a service or a job of a cluster, and that of a terminal or an ssh session.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GUARD = Path(__file__).with_name("guard.py")


class Stop:
    """Whether the user has asked for the end.

    A signal raises KeyboardInterrupt only at ``check()`` and inside ``waiting()``.  Everywhere else it is kept until
    then: an exception between the start of a process and the line that remembers it would leave the process running.
    """

    def __init__(self) -> None:
        self._asked = self._waiting = False

    @contextmanager
    def installed(self) -> Iterator[Stop]:
        """Inside the context the signals are taken; one that is ignored (nohup) stays so.  In the main thread only."""
        taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._take) for number in taken}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        if self._waiting:
            self._waiting = False
            self.check()

    def check(self) -> None:
        """Raises KeyboardInterrupt if there was a signal since the last one that was raised."""
        if self._asked:
            self._asked = False
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside the context a signal raises at once; it may only wait."""
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False


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
