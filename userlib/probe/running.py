# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Builds the probe's program and runs its parts, each within its time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: The probe's C sources.
SOURCES = Path(__file__).resolve().parent / "native"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
#: -rdynamic exports the program's ioctl(), so that libcuda calls it (rm_watch.c).
LINK = ["-rdynamic", "-pthread", "-ldl"]
#: After its time is up, how long a part may take to put the GPU's groups back, and then again to end; seconds.
GRACE_S = 5.0


class CannotBuild(Exception):
    """No compiler, or it refuses; the text says which."""


@dataclass(frozen=True)
class Outcome:
    """How a part ended: ``ok``, ``failed`` or ``timeout``; how long it took; what it wrote; what went wrong."""

    status: str
    seconds: float
    output: str
    detail: str


def build(folder: Path) -> Path:
    """Compiles the program into ``folder``.

    Raises:
        CannotBuild: there is no C compiler, or the sources do not compile.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CannotBuild("no C compiler: install gcc, or name one in CC")
    program = folder / "probe"
    command = [compiler, *FLAGS, *map(str, sorted(SOURCES.glob("*.c"))), *LINK, "-o", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CannotBuild(f"{compiler} fails: {(result.stderr.strip().splitlines() or ['without a word'])[0]}")
    return program


def _end(process: subprocess.Popen[bytes]) -> bool:
    """Asks a part and its children to end, then kills them; returns whether the part is gone.

    A part that hangs inside the driver cannot be killed.  It is left behind, and the other parts run.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return True
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGKILL:
            return True
    return process.poll() is not None


def run_session(command: list[str], seconds: float, environment: dict[str, str] | None = None) -> Outcome:
    """Runs a command in a session of its own, and collects what it writes.

    The output goes to files.  A process that hangs while it holds a pipe open would block the pipe's reader too.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        # ends children that outlive the command as well
        gone = _end(process)
        output.seek(0)
        errors.seek(0)
        said = output.read().decode(errors="replace")
        complaint = errors.read().decode(errors="replace").strip()
    elapsed = time.monotonic() - begun
    # exit status 3: the part's own alarm (methods.c) ended it
    if code is None or code == 3:
        detail = "its time was up" if gone else "hangs in the driver and cannot be ended"
        return Outcome("timeout", elapsed, said, detail)
    if code:
        return Outcome("failed", elapsed, said, complaint or f"exit status {code}")
    return Outcome("ok", elapsed, said, complaint)


def run_part(
    program: Path, part: str, seconds: int, calls: int = 1, environment: dict[str, str] | None = None
) -> Outcome:  # fmt: skip
    """Runs one part.  Its own alarm is due before the limit here, so that the part itself puts its groups back."""
    return run_session([str(program), part, str(calls), str(seconds)], seconds + 2, environment)
