# SPDX-License-Identifier: GPL-2.0
"""Prints the files that Python reads to collect these tests, our packages and their folders, relative to /.

The arguments are pytest's.  All files are compiled here, because a test machine cannot keep compiled files.
"""

from __future__ import annotations

import compileall
import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pycontrol.link.formats import formats

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "pycontrol", ROOT / "analysis", ROOT / "userlib/gpurt"]


def collect(arguments: list[str]) -> None:
    """Imports the tests, and all that they import.  Ignores errors: the machine's own pytest reports them."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *arguments])


def sources() -> Iterator[Path]:
    """The files of imported modules, and of our packages."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield Path(file)
    formats_folder = Path(formats.__file__).parent  # its modules are not in sys.modules
    yield from (*formats_folder.glob("*.py"), *formats_folder.parent.glob("*.py"))
    for package in PACKAGES:
        compileall.compile_dir(package, quiet=2)
        yield from package.rglob("*.py")


def with_compiled(source: Path) -> Iterator[Path]:
    """The file, and its compiled files from Python and pytest."""
    yield source
    tag = sys.implementation.cache_tag
    for compiled in (f"{tag}.pyc", f"{tag}-pytest-*.pyc"):
        yield from (source.parent / "__pycache__").glob(f"{source.stem}.{compiled}")


def libraries() -> Iterator[Path]:
    """Files that this process has mapped: Python itself and libraries."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and path[0].startswith("/"):
            yield Path(path[0])


def main() -> None:
    """Prints the files, each folder before its content."""
    collect(sys.argv[1:])
    read = {*libraries(), *(file for source in {*sources()} for file in with_compiled(source))}
    files = {file for file in read if file.is_file() and file.parent.resolve() == file.parent}
    folders = {folder for file in files for folder in file.parents}
    for path in sorted(files | folders - {Path("/")}):
        print(path.relative_to("/"))


main()
