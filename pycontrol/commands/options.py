# SPDX-License-Identifier: GPL-2.0
"""Arguments, options and parameter types that several commands share."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpurt.errors import UsageError
from gpurt.text import visible
from gpurt.units import parse_time

if TYPE_CHECKING:  # at run time the imports take longer than many commands need

    Whole = click.ParamType[int]
    Wholes = click.ParamType[tuple[int, ...]]
else:
    Whole = Wholes = click.ParamType  # generic in late releases of click only: Debian 12 has 8.1
#: Key of a context's ``meta``: whether the user asked for JSON.
ASKED_FOR_JSON = "gpurt.json"


def _ask_for_json(context: click.Context, _: click.Parameter, asked: bool) -> bool:
    context.meta[ASKED_FOR_JSON] = asked
    return asked


FILE = click.argument("file", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_ask_for_json,
                    help="Print JSON (docs/output.md); errors too.")  # fmt: skip
GPU = click.option("--gpu", type=click.IntRange(0, 2**32 - 1), metavar="NUMBER",
                   help="Only on this GPU; all unless given.")  # fmt: skip


class Pid(click.IntRange):
    """The id of a process."""

    name = "process id"


PIDS = click.argument("pids", nargs=-1, required=True, type=Pid(1), metavar="PID...")


class Seconds(click.FloatRange):
    """A number of seconds within a range."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Reads it.  No comparison with a limit holds for nan, so that the range alone accepts it."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return number


class Given(click.types.StringParamType):
    """A text that is not empty.  An option whose variable is unset in a script is not the option left out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        if value == "":
            self.fail("is empty; leave the option out if that is meant", param, ctx)
        return super().convert(value, param, ctx)


class GivenPath(click.Path):
    """A path that is not empty: that would be the folder where the command runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("is empty; leave the option out if that is meant", param, ctx)
        return super().convert(value, param, ctx)


class Time(Whole):
    """A time with a unit, as nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        try:
            return value if isinstance(value, int) else parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Output(click.Path):
    """A file to write.  ``-`` is refused: stdout has the command's answer."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value) == "-":
            self.fail("'-' names no file here; stdout is /dev/stdout", param, ctx)
        return super().convert(value, param, ctx)


def apart(outputs: Iterable[Path | None], *inputs: Path) -> None:
    """Checks the names of files that a command is to write.

    Raises UsageError: one is a file that the command reads, which would be lost, or is there twice.
    """
    taken = [_place(path) for path in inputs]
    for path in filter(None, outputs):
        if (place := _place(path)) is None:
            continue
        if place in taken:
            raise UsageError(f"{visible(path)}: this command reads or writes it already; name another file to write")
        taken.append(place)


def _place(path: Path) -> tuple[int, int] | str | None:
    """What tells a file from others, whether it is there or not; None of a device or a pipe."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):  # a NUL in the name
        with suppress(OSError, ValueError):  # the current folder was removed
            return os.path.realpath(path)
        return None
    return (seen.st_dev, seen.st_ino) if stat.S_ISREG(seen.st_mode) else None


def time_of(text: str, option: str) -> int:
    """A time with a unit as ns.  Raises UsageError, which names the option."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
