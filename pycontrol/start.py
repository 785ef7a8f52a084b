# SPDX-License-Identifier: GPL-2.0
"""The entry point of the command `gpurt`.  It imports little, so that it handles Ctrl-C before the slow imports.

Before that, Python itself starts: for some ten milliseconds it answers Ctrl-C with a traceback.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # not signal, which imports enum
import os
import sys

from pycontrol.signals import INTERRUPTED, TERMINATED, Terminated, interrupt


def main() -> None:
    """Runs the command line and exits with its code."""
    _take_standard_descriptors()
    if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:  # the caller may have set SIGINT to be ignored
        _signal.signal(_signal.SIGINT, interrupt)
    try:
        import io

        _import_beside("analysis")
        try:
            from pycontrol import cli
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("gpurt", "analysis"):
                raise
            moved = "it is not where it was installed; in a checkout that was moved: scripts/setup"
            print(f"gpurt: no package {error.name}: {moved}", file=sys.stderr)
            sys.exit(3)  # the exit code for any missing file

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for letters that the encoding lacks
        code = cli.run()
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # the answer is out; Ctrl-C must not change the exit code
    except KeyboardInterrupt as error:
        os._exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED)
    sys.exit(code)


def _take_standard_descriptors() -> None:
    """Opens /dev/null where stdin, stdout or stderr is closed (the shell's 2>&-).

    Otherwise the next file or socket gets that number, and programs that inherit it write into it.  Python's sys.stdout
    and sys.stderr stay None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _import_beside(name: str) -> None:
    """Imports the package beside this one, even if PYTHONPATH has another package of that name.

    ROS workspaces set PYTHONPATH, and a user may well have a package called `analysis`.
    """
    from importlib import machinery, util

    spec = machinery.PathFinder.find_spec(name, [os.path.dirname(os.path.dirname(__file__))])
    if spec and spec.loader:
        sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
