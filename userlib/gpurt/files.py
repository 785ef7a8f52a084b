# SPDX-License-Identifier: GPL-2.0
"""Files that the user names: how they are read and written.  Entries of folders that other processes change."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpurt.errors import FileError
from gpurt.text import filename

#: Names of an open descriptor.  It is read as it is: opening it again may be forbidden, and would begin a file anew.
DESCRIPTOR = re.compile(r"/(?:dev/fd|proc/self/fd)/([0-9]{1,9})")
STDIN = ("-", "/dev/stdin")
CHUNK_BYTES = 1 << 20
#: Files that `written` has begun.
_unfinished: set[Path] = set()


def regular(path: Path) -> bool:
    """Whether the path is, or will be, a regular file of its own: no device, pipe, or open descriptor (/dev/stdout)."""
    special = path.parent in (Path("/dev"), Path("/dev/fd")) or path.is_relative_to("/proc")
    return not special and (not path.exists() or path.is_file())


@contextmanager
def written(path: Path | str) -> Iterator[BinaryIO]:
    """A file to write, which takes its place when the context ends without an exception.

    After an exception, such as that of Ctrl-C, the previous file is still there, and whole.  Only what is not
    a regular file, such as a pipe, is written directly.

    Raises:
        FileError: the file cannot be written.
        BrokenPipeError: it is a pipe, such as /dev/stdout in a pipeline, whose reader has gone.
    """
    try:
        if not regular(Path(path)):
            with open(path, "wb") as file:
                yield file
            return
        target, temporary = _places(path)
        _check_permission(target)
        _unfinished.add(temporary)
        try:
            with temporary.open("wb") as file:
                yield file
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
            _unfinished.discard(temporary)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None


def matching(folder: Path, pattern: str) -> list[Path]:
    """The paths below a folder that match, in no order.

    What goes away meanwhile, as processes in /proc do, and what may not be read has none: Path.glob raises then.
    """
    return [folder / name for name in glob.glob(pattern, root_dir=folder)]


def discard_unfinished() -> None:
    """Removes what `written` has begun.  For a thread that ends the process while others write."""
    for temporary in list(_unfinished):
        with suppress(OSError):
            temporary.unlink()


def check_writable(path: Path | str) -> None:
    """To be called before long work whose result the file is to take.

    Raises:
        FileError: the file cannot be written.
    """
    try:
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not regular(Path(path)):
            return  # to open a pipe is to wait for its reader
        target, temporary = _places(path)
        _check_permission(target)
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise unwritable(path, error) from None


def _check_permission(target: Path) -> None:
    """Raises PermissionError if the file is there and write-protected, which does not keep it from being replaced."""
    with suppress(FileNotFoundError):
        target.stat()  # names that cannot be end here; Path.exists() is silent about them from Python 3.14 on
        if os.access(target, os.W_OK):
            return
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _places(path: Path | str) -> tuple[Path, Path]:
    """The file that the path leads to, and the one beside it that is written first."""
    target = Path(path).resolve()
    return target, target.with_name(f".{target.name[:200]}.{os.getpid()}")


def unwritable(path: Path | str, error: OSError) -> FileError:
    """The error to raise if a file cannot be written."""
    return FileError(f"{filename(path)}: cannot be written: {error.strerror}")


def make_folder(path: Path) -> None:
    """Makes the folder, and those above it, unless it is there.  Raises FileError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error.filename or path, error) from None


def read_whole(path: Path | str, most: int, what: str) -> bytes:
    """The content of a file, or of a pipe or terminal to its end, read once and without seeking.

    "-" is standard input.  ``most``: the largest size, bytes.  ``what``: the kind of file that is wanted, for errors.

    Raises:
        FileError: there is no such file, it cannot be read, is larger, or is a directory or a device.
    """
    try:
        with open(_opened(str(path)), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISDIR(mode) or (_is_device(mode) and not file.isatty() and not _is_null(file.fileno())):
                kind = "a directory" if stat.S_ISDIR(mode) else "a device"
                raise FileError(f"{filename(path)}: is {kind}; name {what}")
            size = os.fstat(file.fileno()).st_size  # of a pipe 0
            raw = b"".join(_chunks(file, most)) if size <= most else b""
    except OSError as error:
        raise FileError(f"{filename(path)}: {error.strerror}; name {what}") from None
    except ValueError:  # a NUL in the name
        raise FileError(f"{filename(path):.60}: is not a file name") from None
    if max(size, len(raw)) > most:
        raise FileError(f"{filename(path)}: is larger than {most >> 20} MiB; is it {what}?")
    return raw


def is_stream(path: Path | str) -> bool:
    """Whether the path is no file that can be read again or written back: standard input, a descriptor, a pipe."""
    name = str(path)
    return name in STDIN or bool(DESCRIPTOR.fullmatch(name)) or not os.path.isfile(name)


def _opened(path: str) -> int:
    if path in STDIN:
        return os.dup(0)
    found = DESCRIPTOR.fullmatch(path)
    return os.dup(int(found[1])) if found else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)


def _chunks(file: BinaryIO, most: int) -> Iterator[bytes]:
    """The content in pieces, until it is more than ``most`` bytes."""
    size = 0
    while size <= most and (chunk := file.read(CHUNK_BYTES)):
        size += len(chunk)
        yield chunk


def _is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _is_null(fd: int) -> bool:
    return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev
