# SPDX-License-Identifier: GPL-2.0
"""Whether a program can load the preload library: for some programs the dynamic linker silently ignores LD_PRELOAD."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shlex
import shutil
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

#: Type of the program header that names the dynamic linker (elf(5)).
PT_INTERP = 3
#: How many bytes of a script are searched for programs' names, and how many scripts may start one another.
HEAD, DEPTH = 1 << 16, 4
#: Larger files are data, bytes: no program that marks segments is larger, and reading them would delay it.
MOST_READ = 1 << 26
MUSL = b"libc.musl"
#: Words that may precede a program's name in a script's line.
_FIRST = {"exec", "nice", "time", "env", "nohup", "command"}


def objection(program: str, library: Path, depth: int = DEPTH) -> str:
    """Why a program that is executed by this name will not load the library; empty: it will, or does not exist."""
    found = shutil.which(program)
    if not found or not depth:
        return ""
    try:
        with open(found, "rb") as file:
            head = file.read(HEAD)
        if head.startswith(b"#!"):
            return _of_script(found, head, library, depth)
        if not head.startswith(b"\x7fELF"):
            return ""
        with open(library, "rb") as file:
            return _of_elf(found, head, file.read())
    except OSError:
        return ""  # not our concern


def names_gpurt(command: Sequence[str]) -> bool:
    """Whether the program, or a file among its arguments, contains the word gpurt, as do programs that mark segments.

    Devices and pipes are not opened, since that may block or have effects; files as large as a model are not read.
    """
    for word in command:
        found = shutil.which(word) or word
        with contextlib.suppress(OSError, ValueError):  # ValueError: the file is empty
            about = os.stat(found)
            if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_READ:
                continue
            with open(found, "rb") as file:
                if mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).find(b"gpurt") >= 0:
                    return True
    return any("gpurt" in word for word in command)


def _of_script(name: str, head: bytes, library: Path, depth: int) -> str:
    """The objection to a script: to its interpreter, or to programs that a shell script's lines start."""
    line, _, rest = head.decode(errors="replace").partition("\n")
    words = line[2:].split()
    if words and os.path.basename(words[0]) == "env":
        words = [one for one in words[1:] if not one.startswith("-")]
    if not words:
        return ""
    if why := objection(words[0], library, depth - 1):
        return why
    if os.path.basename(words[0]).endswith("sh"):
        for one in rest.splitlines():
            started = _started(one)
            if started and (why := objection(started, library, depth - 1)):
                return f"script {name} starts {why}"
    return ""


def _started(line: str) -> str:
    """The program that a line of a shell script starts; empty: not known."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return ""
    plain = (one for one in words if one not in _FIRST and not re.match("[A-Za-z_]\\w*=|-", one))
    return next(plain, "")


def _of_elf(name: str, head: bytes, library: bytes) -> str:
    if head[4:6] != library[4:6] or head[18:20] != library[18:20]:  # class, byte order, machine
        return f"{name}, which is for another processor than the library"
    linker = _linker(head)
    if linker is None:
        return "" if os.path.basename(name).startswith("ld-") else f"{name}, which is statically linked"
    if (b"musl" in linker) != (MUSL in library):
        return f"{name}, which is for another C library"
    if os.statvfs(name).f_flag & os.ST_NOSUID:
        return ""
    info = os.stat(name)
    other_user = info.st_mode & stat.S_ISUID and info.st_uid != os.getuid()
    if other_user or (info.st_mode & stat.S_ISGID and info.st_gid != os.getgid()):
        return f"{name}, which executes as another user or group (setuid, setgid)"
    if os.getuid() and "security.capability" in os.listxattr(name):
        return f"{name}, which has capabilities of its own"
    return ""


def _linker(head: bytes) -> bytes | None:
    """The dynamic linker that the program names; None: it is statically linked."""
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    start, size, count = (
        (*struct.unpack_from(f"{order}Q", head, 32), *struct.unpack_from(f"{order}HH", head, 54)) if wide
        else (*struct.unpack_from(f"{order}I", head, 28), *struct.unpack_from(f"{order}HH", head, 42))
    )  # fmt: skip
    for at in range(start, min(start + size * count, len(head) - size + 1), size):
        if struct.unpack_from(f"{order}I", head, at)[0] == PT_INTERP:
            form, offset, length = (f"{order}Q", 8, 32) if wide else (f"{order}I", 4, 16)
            where = struct.unpack_from(form, head, at + offset)[0]
            return head[where : where + struct.unpack_from(form, head, at + length)[0]]
    return None
