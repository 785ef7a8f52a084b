# SPDX-License-Identifier: GPL-2.0
"""Waits for a descriptor by poll(2), since select(2) knows no descriptor above 1,023."""

from __future__ import annotations

import math
import select
from typing import Protocol


class File(Protocol):
    """An object with a descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


def readable(file: int | File, seconds: float | None = None) -> bool:
    """Waits at most `seconds` (None: without limit) until `file` can be read or has ended.  False: it has not."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else math.ceil(max(seconds, 0.0) * 1000)))
