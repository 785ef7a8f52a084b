# SPDX-License-Identifier: GPL-2.0
"""Finds the preload library, and runs a program under it (`gpurt run --auto`)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gpurt.errors import GpurtError
from gpurt.text import visible
from pycontrol.act.run.compiling import find_built
from pycontrol.act.run.loadable import names_gpurt, objection
from pycontrol.link.control import connect
from pycontrol.machine.rights import fifo_refusal

LIBRARY_NAME = "libgpurt-preload.so"
#: Set this to use a library built elsewhere.
LIBRARY_VARIABLE = "GPURT_PRELOAD"
#: Where `make install` and Debian's package put it.
FOLDERS = (f"{sys.prefix}/lib", "/usr/local/lib", "/usr/lib", f"/usr/lib/{os.uname().machine}-linux-gnu/gpurt")
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: How long a host may take to answer a program that is about to start, seconds.
HOST_PATIENCE = 1.0
UNMANAGED = "the program's GPU work will be unmanaged"
UNLOADABLE = "have its sources mark segments (docs/library.md), or build it for this C library, dynamically"
#: Libraries of GCC's and LLVM's sanitizers, by their file names.
SANITIZER = re.compile(r"lib(clang_rt\.)?(asan|hwasan|tsan|lsan|ubsan)\b")


def find_preload() -> Path:
    """The library: GPURT_PRELOAD, else the one of this source tree, else an installed one.  Raises RuntimeFailure."""
    return find_built(LIBRARY_NAME, LIBRARY_VARIABLE, "gpurt-preload", FOLDERS)


def environment(library: Path | None, device: str | None, group: str | None = None) -> dict[str, str]:
    """The environment of a program: with the library and in the group, each if it is given.

    Other preloaded libraries come after it, except those of sanitizers: these end the program if they are not first.
    """
    made = {**os.environ}
    if library:
        sanitizers, others = _preloaded()
        made["LD_PRELOAD"] = ":".join([*sanitizers, str(library), *others])
    made |= {"GPURT_GROUP": group} if group else {}
    return {**made, "GPURT_DEVICE": device} if device else made


def warn(program: str, library: Path) -> None:
    """A line on stderr if the program will not load the library: the dynamic linker says nothing then."""
    why = objection(program, library)
    if why and os.environ.get("GPURT_QUIET") != "1":
        print(f"gpurt: {UNMANAGED}: {LIBRARY_NAME} is not loaded by {visible(why)}; {UNLOADABLE}", file=sys.stderr)


def _warn_without_host(device: str | None) -> None:
    """The library itself reports a missing host only if the program opens a GPU."""
    try:
        connect(device, HOST_PATIENCE).close()
    except GpurtError as error:
        if os.environ.get("GPURT_QUIET") != "1":
            print(f"gpurt: {UNMANAGED}: {error}", file=sys.stderr)


def _preloaded() -> tuple[list[str], list[str]]:
    """The preloaded libraries in two lists: those of sanitizers, and the others."""
    names = [one for one in re.split("[ :]", os.environ.get("LD_PRELOAD", "")) if one]
    first = [one for one in names if SANITIZER.match(Path(one).name)]
    return first, [one for one in names if one not in first]


def execute(
    command: Sequence[str], device: str | None, priority: int | None, group: str | None = None, auto: bool = True
) -> NoReturn:  # fmt: skip
    """Executes the program in this process, under the library if ``auto``, at SCHED_FIFO ``priority`` if one is given.

    With a ``group`` its clients, and those of its child processes, join that group.

    Raises:
        RuntimeFailure: there is no library.
        RefusedError: the priority is not permitted.
    """
    if not (shutil.which(command[0], os.F_OK) or os.path.exists(command[0])):  # before anything is compiled for it
        _leave(command[0], "no such program", NOT_FOUND)
    library = find_preload() if auto else None
    made = environment(library, device, group)
    if library:
        _warn_without_host(device)
        warn(command[0], library)
        if first := _preloaded()[0]:
            names = visible(", ".join(first))
            print(f"gpurt: {names} stays first in LD_PRELOAD, before {LIBRARY_NAME}", file=sys.stderr)
    elif not names_gpurt(command) and os.environ.get("GPURT_QUIET") != "1":
        print(f"gpurt: {UNMANAGED} unless it marks segments: run --group NAME --auto makes them", file=sys.stderr)
    if priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError:
            raise fifo_refusal(priority) from None
    try:
        os.execvpe(command[0], list(command), made)
    except FileNotFoundError:
        _leave(command[0], "no such program", NOT_FOUND)
    except OSError as error:
        _leave(command[0], error.strerror or str(error), NOT_EXECUTABLE)


def _leave(name: str, why: str, code: int) -> NoReturn:
    print(f"gpurt: {visible(name)}: {why}", file=sys.stderr)
    raise SystemExit(code)
