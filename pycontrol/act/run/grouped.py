# SPDX-License-Identifier: GPL-2.0
"""Whether a program can be run as a member of a group (`gpurt run --group`)."""

from __future__ import annotations

import errno
import os

from gpurt import Client
from gpurt.errors import DeviceError, RefusedError


def check_group(device: str | None, name: str) -> None:
    """Joins the group for a moment, as the program will.

    Raises:
        DeviceError: there is no host.
        RefusedError: the host has no groups, or no place in this one.
    """
    os.environ.pop("GPURT_GROUP", None)  # of a program around this one, whose group this one's takes the place of
    try:
        client = Client(device)
    except OSError as error:
        raise DeviceError(error.strerror or str(error)) from None
    with client:
        try:
            client.join(name)
        except OSError as error:
            raise _refused(name, error.errno or 0) from None


def _refused(name: str, code: int) -> RefusedError:
    if code == errno.EOPNOTSUPP:
        return RefusedError("this host has no groups")
    if code == errno.EDQUOT:
        return RefusedError(f"group {name} has no place: too many groups or members, or another budget")
    return RefusedError(f"group {name}: {errno.errorcode.get(code, code)}")
