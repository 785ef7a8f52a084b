# SPDX-License-Identifier: GPL-2.0
"""The socket where a host listens: its path, and which users may connect."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from gpurt._gpurt import ffi, lib
from gpurt.errors import DeviceError
from pycontrol.host.peer import tell_senders


@dataclass(frozen=True)
class Access:
    """The right to connect: the socket's permission bits, and its group; None: the group of this process."""

    mode: int = 0o660
    group: int | None = None


def default_socket() -> Path:
    """The socket where a host listens by default: the system's path if that is writable, else the user's.

    Makes the folder, with permissions that do not depend on the umask.

    Raises:
        DeviceError: there is neither path.
    """
    system = Path(bytes(ffi.string(lib.GPURT_DEFAULT_SOCKET)).decode())
    with contextlib.suppress(OSError):
        _make_folder(system.parent, 0o755)
    if os.access(system.parent, os.W_OK):
        return system
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise DeviceError(
            f"{system.parent} is not writable, and there is no XDG_RUNTIME_DIR; name a socket with --socket, and in "
            "GPURT_DEVICE for programs and other commands"
        )
    path = Path(runtime) / "gpurt" / system.name
    try:
        _make_folder(path.parent, 0o700)
    except OSError as error:
        raise DeviceError(f"{path.parent}: cannot be made: {error.strerror}; use --socket") from None
    return path


def _make_folder(folder: Path, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(mode)


class Endpoint:
    """A listening socket at a path."""

    def __init__(self, path: Path, access: Access) -> None:
        """Listens.  Removes the socket of a host that has ended, but nothing else, in particular no live host's socket.

        Raises:
            DeviceError: another host serves there, something else is there, or the path cannot be used.
        """
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            _make_way(path)
            tell_senders(self.listener)
            self.listener.bind(str(path))
            self._file = _admit(path, access)
            self.listener.listen(1024)  # last: until here the kernel refuses every connection
        except FileNotFoundError:
            self.listener.close()
            raise DeviceError(f"{path}: there is no folder {path.parent}; make it, or name another socket") from None
        except OSError as error:
            self.listener.close()
            raise DeviceError(f"{path}: cannot listen there: {error.strerror or error}") from None
        except DeviceError:
            self.listener.close()
            raise

    def close(self) -> None:
        """Stops listening, and removes the socket's file unless another socket has taken its place."""
        self.listener.close()
        with contextlib.suppress(OSError):
            if _identity(self.path.lstat()) == self._file:
                self.path.unlink()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _make_way(path: Path) -> None:
    """Removes the socket of a host that has ended.

    Raises:
        DeviceError: the file is something else.
    """
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        what = "a symbolic link" if stat.S_ISLNK(kind) else "a file that is no socket"
        raise DeviceError(f"{path}: is {what}; remove it, or name another socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise DeviceError(f"{path}: a host serves there already; stop it or name another socket")


def _admit(path: Path, access: Access) -> tuple[int, int]:
    """Gives the bound socket its group and permission bits; returns the file's device and inode.

    The changes go through a descriptor of the file.  If another user owns the folder and puts a link or a file into the
    socket's place, that file stays unchanged.

    Raises:
        DeviceError: this process may not give the socket that group, or something else is in its place by now.
        OSError: another failure.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode):
            raise DeviceError(f"{path}: another process put something else there; name a socket in a folder of yours")
        file = f"/proc/self/fd/{descriptor}"
        if access.group is not None:
            _give(path, file, access.group)
        os.chmod(file, access.mode)
        return _identity(status)
    finally:
        os.close(descriptor)


def _give(path: Path, file: str, group: int) -> None:
    try:
        os.chown(file, -1, group)
    except PermissionError:
        path.unlink()
        text = "the socket cannot be given to that group; only root and members of the group can (--allow)"
        raise DeviceError(f"{path}: {text}") from None
