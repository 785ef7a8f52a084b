# SPDX-License-Identifier: GPL-2.0
"""Has make build a part of userlib when needed: the preload library, or the program of a task."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpurt.errors import RuntimeFailure
from gpurt.text import visible
from pycontrol.output import render

ROOT = Path(__file__).resolve().parents[3]


def find_built(name: str, variable: str, package: str, folders: Iterable[str]) -> Path:
    """The file that ``variable`` names, else the file of this source tree (built if needed), else an installed file.

    ``package``: the Debian package that has it, for messages.  ``folders``: where it may be installed.

    Raises:
        RuntimeFailure: the file is missing and cannot be built.
    """
    if named := os.environ.get(variable):
        if not os.path.isfile(named):  # unlike Path.is_file, False if a folder cannot be read
            raise RuntimeFailure(f"{variable}={visible(named)} is no readable file; correct or unset it")
        return Path(named).resolve()
    if os.path.isdir(ROOT / "userlib" / "preload"):
        return _build(name)
    for folder in folders:
        if os.path.isfile(installed := Path(folder) / name):
            return installed
    prefix = f" PREFIX={sys.prefix}" if sys.prefix != sys.base_prefix else ""
    install = f"run `make -C userlib install{prefix}` in gpurt's sources"
    cure = f"install Debian's package {package}, or {install}, or set {variable}"
    raise RuntimeFailure(f"{name}, which pip does not install, is not here; {cure}")


def _folder() -> Path:
    """The folder in which make builds: in the source tree; if that is read-only, in the user's cache, for this tree."""
    if os.access(ROOT, os.W_OK):
        return ROOT / "build" / "userlib"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gpurt" / f"userlib{str(ROOT).replace('/', '-')}"


def _build(name: str) -> Path:
    folder = _folder()
    command = ["make", f"-j{os.cpu_count()}", "--no-print-directory", "-C", str(ROOT / "userlib"), f"BUILD={folder}",
               f"{folder}/{name}"]  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second make that builds the same would interfere
            needed = subprocess.run([*command, "-ns"], capture_output=True, check=False)
            if needed.stdout or needed.returncode:
                compile_with(command, name, needed.stdout.count(b"\n"))
    except FileNotFoundError:
        raise RuntimeFailure(f"{name} must be compiled and there is no make; run scripts/setup") from None
    except OSError as error:
        raise RuntimeFailure(f"{name} cannot be built in {folder}: {error.strerror}") from None
    return folder / name


def compile_with(command: Sequence[str], what: str, steps: int = 0) -> None:
    """Runs a command that builds ``what``.

    ``steps``: how many lines the command prints; each line is a step of progress.

    Raises:
        RuntimeFailure: the command fails.  The text names ``what`` and has the command's first line about an error,
            else its first line.
        FileNotFoundError: the command is not installed.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors, render.progress(steps, f"compiling {what}") as bar:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace") as run:
            for _ in run.stdout or ():
                bar.update(1)
        if run.returncode:
            errors.seek(0)
            said = [*map(str.rstrip, errors), f"{command[0]} failed"]
            first = next((line for line in said if "error" in line), said[0])
            raise RuntimeFailure(f"{what} does not compile: {first}")
