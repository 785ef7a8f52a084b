# SPDX-License-Identifier: GPL-2.0
"""Prints what Python reads to collect these tests: files and their folders, relative to /.  Arguments are pytest's.

Collecting tests here also leaves their compiled files, which a machine cannot write.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


def collect(arguments: list[str]) -> None:
    """Imports the tests, and what they import.  Errors are for the machine's own pytest to report."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *arguments])


def sources() -> Iterator[Path]:
    """The files of modules, and the compiled ones beside them."""
    tag = sys.implementation.cache_tag
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield Path(file)
            for compiled in (f"{tag}.pyc", f"{tag}-pytest-*.pyc"):
                yield from (Path(file).parent / "__pycache__").glob(f"{Path(file).stem}.{compiled}")


def libraries() -> Iterator[Path]:
    """What this process has mapped: Python itself and libraries."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and path[0].startswith("/"):
            yield Path(path[0])


def main() -> None:
    """Prints them, each folder before what is in it."""
    collect(sys.argv[1:])
    files = {file for file in {*sources(), *libraries()} if file.is_file() and file.parent.resolve() == file.parent}
    folders = {folder for file in files for folder in file.parents}
    for path in sorted(files | folders - {Path("/")}):
        print(path.relative_to("/"))


main()
