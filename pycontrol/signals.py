# SPDX-License-Identifier: GPL-2.0
"""The effect of SIGINT and SIGTERM on the command `gpurt`, from its first line on."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # not signal, which imports enum
import os

#: Exit codes after Ctrl-C and SIGTERM; a shell has the same for a program that the signal ended.
INTERRUPTED, TERMINATED = 130, 143
#: The signals that `interrupt` handles.
END_SIGNALS = (_signal.SIGINT, _signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM for a command that ends as after Ctrl-C (pycontrol.ending)."""


def interrupt(number: int, frame: object) -> None:
    """Raises KeyboardInterrupt or Terminated.  While a module is imported, ends the process instead.

    Not every import passes an exception on.  Extension modules replace it, and the callbacks of importlib's locks print
    it with a traceback.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):  # type: ignore[attr-defined]
            os._exit(128 + number)
        frame = frame.f_back  # type: ignore[attr-defined]
    raise Terminated if number == _signal.SIGTERM else KeyboardInterrupt
