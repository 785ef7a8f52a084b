# SPDX-License-Identifier: GPL-2.0
"""The entry point of the command `gpurt`.  It imports little, so that it handles Ctrl-C before the slow imports."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

#: Exit code after Ctrl-C, that of a shell for a program that SIGINT ended.
INTERRUPTED = 130


def main() -> None:
    """Runs the command line and exits with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the caller has SIGINT ignored
        signal.signal(signal.SIGINT, interrupt)
    try:
        from pycontrol import cli

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for letters that the encoding lacks
        code = cli.run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the answer is out, and the exit code must be its own
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.exit(code)


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, except while a module is imported: then it ends the process.

    Not every import passes an exception on.  Extension modules replace it, and the callbacks of importlib's locks print
    it with a traceback.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
