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
#: The variable that names a library built elsewhere.
LIBRARY_VARIABLE = "GPURT_PRELOAD"
#: Where `make install` and Debian's package install the library.
FOLDERS = (f"{sys.prefix}/lib", "/usr/local/lib", "/usr/lib", f"/usr/lib/{os.uname().machine}-linux-gnu/gpurt")
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: How long a host may take to answer a starting program, seconds.
HOST_PATIENCE = 1.0
UNMANAGED = "the program's GPU work will be unmanaged"
UNLOADABLE = "have its sources mark segments (docs/library.md), or build it for this C library, dynamically"
#: Libraries of GCC's and LLVM's sanitizers, by their file names.
SANITIZER = re.compile(r"lib(clang_rt\.)?(asan|hwasan|tsan|lsan|ubsan)\b")


def find_preload() -> Path:
    """The library: GPURT_PRELOAD, else this source tree's, else an installed one.  Raises RuntimeFailure."""
    return find_built(LIBRARY_NAME, LIBRARY_VARIABLE, "gpurt-preload", FOLDERS)


def environment(library: Path | None, device: str | None, group: str | None = None) -> dict[str, str]:
    """A program's environment; adds the library and the group if they are given.

    Other preloaded libraries come after the library, but those of sanitizers come first, as they require.
    """
    made = {**os.environ}
    if library:
        sanitizers, others = _preloaded()
        made["LD_PRELOAD"] = ":".join([*sanitizers, str(library), *others])
    made |= {"GPURT_GROUP": group} if group else {}
    return {**made, "GPURT_DEVICE": device} if device else made


def warn(program: str, library: Path) -> None:
    """Warns on stderr if the program will not load the library, since the dynamic linker does not."""
    why = objection(program, library)
    if why and os.environ.get("GPURT_QUIET") != "1":
        print(f"gpurt: {UNMANAGED}: {LIBRARY_NAME} is not loaded by {visible(why)}; {UNLOADABLE}", file=sys.stderr)


def _warn_without_host(device: str | None) -> None:
    """Warns if the host is missing: the library itself does so only once the program opens a GPU."""
    try:
        connect(device, HOST_PATIENCE).close()
    except GpurtError as error:
        if os.environ.get("GPURT_QUIET") != "1":
            print(f"gpurt: {UNMANAGED}: {error}", file=sys.stderr)


def _preloaded() -> tuple[list[str], list[str]]:
    """The preloaded libraries in two lists: sanitizers' libraries, and the others."""
    names = [one for one in re.split("[ :]", os.environ.get("LD_PRELOAD", "")) if one]
    first = [one for one in names if SANITIZER.match(Path(one).name)]
    return first, [one for one in names if one not in first]


def execute(
    command: Sequence[str], device: str | None, priority: int | None, group: str | None = None, auto: bool = True
) -> NoReturn:  # fmt: skip
    """Executes the program in this process, under the library if ``auto``, at SCHED_FIFO ``priority`` if given.

    With ``group``, its clients and its child processes' clients join that group.

    Raises:
        RuntimeFailure: the library is missing.
        RefusedError: the priority is not permitted.
    """
    if not (shutil.which(command[0], os.F_OK) or os.path.exists(command[0])):  # before the library is compiled
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
