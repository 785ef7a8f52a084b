# SPDX-License-Identifier: GPL-2.0
"""Numbers and names in sysfs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpurt import files
from gpurt.text import filename
from pycontrol.machine.power.sensor import SensorError

#: Where sysfs is mounted.
ROOT = Path("/sys")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
#: Why drivers refuse a reading, and what to do about it.
_REASONS = {
    errno.EACCES: "only root may read it; an administrator may change that with a udev rule",
    errno.ENODATA: "the channel is switched off (its in*_enable)",
    errno.ENOENT: "the sensor is gone",
    errno.ENODEV: "the device is gone",
}  # fmt: skip


def read_number(path: Path) -> int:
    """The integer in a file.  Raises SensorError: no file, no permission, the driver refuses, or it is no integer."""
    text = _text(path)
    if not _NUMBER.fullmatch(text):
        raise SensorError(f"{filename(path)}: expected an integer, got {text[:40]!r}")
    return int(text)


def natural(path: Path) -> int:
    """As number(), for what cannot be negative."""
    value = read_number(path)
    if value < 0:
        raise SensorError(f"{filename(path)}: is negative: {value}")
    return value


def word(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    try:
        return _text(path) or None
    except SensorError:
        return None


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(4096).decode("utf-8", "replace").strip()
    except OSError as error:
        why = _REASONS.get(error.errno or 0, os.strerror(error.errno or 0))
        raise SensorError(f"{filename(path)}: cannot be read: {why}") from None


def matching_sysfs(pattern: str) -> Iterator[Path]:
    """The paths below sysfs that match, in a stable order: hwmon2 comes before hwmon10."""

    def parts(path: Path) -> list[tuple[int, str]]:
        found = re.findall(r"([0-9]+)|([^0-9]+)", str(path))
        return [(int(digits), "") if digits else (-1, letters) for digits, letters in found]

    yield from sorted(files.matching(ROOT, pattern), key=parts)
