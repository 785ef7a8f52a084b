# SPDX-License-Identifier: GPL-2.0
"""Lines about rare events, each with the time of day, for an operator who comes later.

The host writes a line, like events, when no urgent client waits.  If the stream is full, it drops the line and does not
wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import OrderedDict, deque
from datetime import datetime

#: The shortest time between two lines with the same words, seconds.
APART_S = 10
#: How many lines a user may cause at once about failures, and about the rest, then one each APART_S; entries kept.
SHARE, MOST = 64, 256
#: The user id that stands for the host's own actions.
HOST = -1
#: The number of bytes that a writable pipe takes at once.
LONGEST = select.PIPE_BUF


class Journal:
    """Writes lines to a descriptor, -1: nowhere.  ``quiet``: writes only what went wrong."""

    def __init__(self, fd: int = -1, quiet: bool = False) -> None:
        """Starts without lines."""
        self._fd, self._quiet = fd, quiet
        self._lines: deque[str] = deque()
        self._untold = 0  # lines that were too many, or could not be written
        self._said: OrderedDict[tuple[int, str], tuple[float, int]] = OrderedDict()  # held back until when, how often
        self._shares: OrderedDict[tuple[int, bool], tuple[float, float]] = OrderedDict()  # lines left, as of when
        self._poll = select.poll()
        if fd >= 0 and os.isatty(fd):  # a writable terminal may have room for one byte only: open it without blocking
            with contextlib.suppress(OSError):
                self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        if fd >= 0:
            self._poll.register(self._fd, select.POLLOUT)

    @property
    def more(self) -> bool:
        """Whether a line waits."""
        return bool(self._lines)

    def note(self, text: str, user: int, wrong: bool = True) -> None:
        """Writes that a user caused something.  ``wrong``: it is a failure, so a quiet host writes it, too."""
        if self._fd < 0 or (self._quiet and not wrong):
            return
        now, key = time.monotonic(), (user, text)
        again, held = self._said.pop(key, (now, 0))
        if now < again:
            self._said[key] = again, held + 1
        elif len(self._lines) < MOST and self._has_share((user, wrong), now):
            self._said[key] = now + APART_S, 0
            when = datetime.now().isoformat(" ", "milliseconds")
            also = f" ({held} more like it before)" if held else ""
            self._lines.append(f"{when} {text[:LONGEST // 8]}{also}")
        else:
            self._untold += 1 + held
        if len(self._said) > MOST:
            self._untold += self._said.popitem(last=False)[1][1]

    def _has_share(self, whose: tuple[int, bool], now: float) -> bool:
        left, since = self._shares.pop(whose, (SHARE, now))
        left = min(SHARE, left + (now - since) / APART_S)
        self._shares[whose] = left - (left >= 1), now
        if len(self._shares) > MOST:
            self._shares.popitem(last=False)
        return left >= 1

    def turn(self) -> None:
        """Writes the next line, if there is one."""
        if self._lines:
            line = self._lines.popleft()
            lost = f" ({self._untold} others were not told)" if self._untold else ""
            if self._wrote(f"gpurt: {line}{lost}\n"):
                self._untold = 0
            else:
                self._untold += 1

    def _wrote(self, line: str) -> bool:
        if self._poll.poll(0) != [(self._fd, select.POLLOUT)]:
            return False
        with contextlib.suppress(OSError):
            return os.write(self._fd, line.encode()) > 0
        return False

    def end(self) -> None:
        """Writes the waiting lines, and how many events got no line."""
        while self._lines:
            self.turn()
        if untold := self._untold + sum(held for _, held in self._said.values()):
            self._wrote(f"gpurt: {untold} more events were not told\n")
