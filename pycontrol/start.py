# SPDX-License-Identifier: GPL-2.0
"""The entry point of the command `gpurt`.  It imports little, so that it handles Ctrl-C before the slow imports.

Until then Python itself starts: for some ten milliseconds it answers Ctrl-C with a traceback.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # not signal, which imports enum
import os

#: Exit code after Ctrl-C, that of a shell for a program that SIGINT ended.
INTERRUPTED = 130


def interrupt(_: int, frame: object) -> None:
    """Raises KeyboardInterrupt, except while a module is imported: then it ends the process.

    Not every import passes an exception on.  Extension modules replace it, and the callbacks of importlib's locks print
    it with a traceback.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):  # type: ignore[attr-defined]
            os._exit(INTERRUPTED)
        frame = frame.f_back  # type: ignore[attr-defined]
    raise KeyboardInterrupt


def main() -> None:
    """Runs the command line and exits with its code."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:  # the caller may have SIGINT ignored
        _signal.signal(_signal.SIGINT, interrupt)
    try:
        import io
        import sys

        from pycontrol import cli

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for letters that the encoding lacks
        code = cli.run()
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # the answer is out, and the exit code must be its own
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.exit(code)
