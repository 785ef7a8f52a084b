# SPDX-License-Identifier: GPL-2.0
"""Running a compiler: how the programs and libraries of this source tree are built when they are needed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

from gpurt.errors import RuntimeFailure
from pycontrol.output import render


def missing(what: str, package: str, variable: str) -> RuntimeFailure:
    """The error if the sources are missing; in a virtual environment the text has `make` install into it."""
    prefix = f" PREFIX={sys.prefix}" if sys.prefix != sys.base_prefix else ""
    install = f"run `make -C userlib install{prefix}` in gpurt's sources"
    cure = f"install Debian's package {package}, or {install}, or set {variable}"
    return RuntimeFailure(f"{what}, which pip does not install, is not here; {cure}")


def compile_with(command: Sequence[str], what: str, steps: int = 0) -> None:
    """Runs a command that builds ``what``.

    ``steps``: how many lines the command prints, each a step of progress.

    Raises:
        RuntimeFailure: the command is not installed, or fails.  The text names ``what`` and gives the first line that
            the command wrote about an error.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors, render.progress(steps, f"compiling {what}") as bar:
        try:
            run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
        except FileNotFoundError:
            raise RuntimeFailure(f"{what} must be compiled and there is no {command[0]}; run scripts/setup") from None
        with run:
            for _ in run.stdout or ():
                bar.update(1)
        if run.returncode:
            errors.seek(0)
            first = next((line.rstrip() for line in errors if "error" in line.lower()), f"{command[0]} failed")
            raise RuntimeFailure(f"{what} does not compile: {first}")
